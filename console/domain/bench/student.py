"""Quantiles of Student's t distribution, for intervals from a handful of repeats.

With x = sqrt(df) tan(a), the distribution function is 1/2 + c times the integral of cos(a)^(df - 1) from 0
to a, where c = gamma((df + 1) / 2) / (sqrt(pi) gamma(df / 2)) (Abramowitz and Stegun 26.7, after the
substitution).
"""

from __future__ import annotations

from functools import lru_cache
from math import cos, exp, fsum, lgamma, pi, pow, sqrt, tan
from statistics import NormalDist

_PANELS = 64
"""Of Simpson's rule, even."""
_HALVINGS = 45
_NORMAL_FROM = 1000.0


@lru_cache(maxsize=256)
def quantile(probability: float, df: float) -> float:
    """Of a probability of one half or more, with df of 1 or more, to five digits."""
    if df >= _NORMAL_FROM:
        return NormalDist().inv_cdf(probability)
    low, high = 0.0, pi / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _distribution(middle, df) < probability else (low, middle)
    return sqrt(df) * tan(low)


def _distribution(angle: float, df: float) -> float:
    scale = exp(lgamma((df + 1) / 2) - lgamma(df / 2)) / sqrt(pi)
    step = angle / _PANELS
    inner = fsum((4 if at % 2 else 2) * pow(cos(at * step), df - 1) for at in range(1, _PANELS))
    return 0.5 + scale * step / 3 * (1 + inner + pow(max(cos(angle), 0.0), df - 1))
