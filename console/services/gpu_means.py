"""GPU readings of a stretch of time, joined into means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean

from console.domain.gpu import GpuSample, Sample

_FIELDS: dict[str, Callable[[GpuSample], float | None]] = {
    "sm_pct": lambda gpu: gpu.sm_pct,
    "power_w": lambda gpu: gpu.power_w,
    "power_limit_w": lambda gpu: gpu.power_limit_w,
    "dram_pct": lambda gpu: gpu.dram_pct,
    "clock_mhz": lambda gpu: gpu.clock_mhz,
}


class GpuMeans:
    """Takes samples; those of the same reading once."""

    def __init__(self, gpus: tuple[int, ...]) -> None:
        self._gpus = gpus
        self._seq: int | None = None
        self._values: dict[str, list[float]] = {name: [] for name in _FIELDS}
        self._watts: list[float] = []

    def take(self, sample: Sample | None) -> None:
        """One more look."""
        if sample is None or sample.seq == self._seq:
            return
        self._seq = sample.seq
        chosen = [gpu for gpu in sample.gpu.gpus if not self._gpus or gpu.index in self._gpus]
        for name, read in _FIELDS.items():
            self._values[name] += _known(map(read, chosen))
        watts = _known(gpu.power_w for gpu in chosen)
        if chosen and len(watts) == len(chosen):
            self._watts.append(sum(watts))

    def means(self, duration_s: float, tokens: int) -> dict[str, float]:
        """Per GPU, but for the energy: joules of all, and of each output token."""
        found = {name: fmean(values) for name, values in self._values.items() if values}
        if self._watts:
            found["energy_j"] = fmean(self._watts) * duration_s
            if tokens:
                found["energy_j_per_token"] = found["energy_j"] / tokens
        return found


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
