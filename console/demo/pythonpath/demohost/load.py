"""The simulated users of the demo: one load that prefill, decode and GPUs all follow.

It is a function of the wall clock alone, so separate processes agree on it without talking. Over a minute it
rises from 2 requests in decode to 24 and falls again, with smaller waves on top. It is not there while
somebody real is served (see demohost.real_requests).
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

LEAST_RUNNING, MOST_RUNNING = 2, 24
LEAST_PROMPT_TOK_S, MOST_PROMPT_TOK_S = 2000.0, 7000.0

PROMPT_TOKENS = 9600
"""Of a usual request; most of it is found in the prefix cache."""
CACHED_TOKENS = 6912
OUTPUT_TOKENS = 380

SINGLE_STREAM_TOK_S = 105.0
"""Of one request alone, without speculative decoding."""
CROWDING = 0.06
"""How much each further request slows down all others."""

PREFILL_LEAD_S = 4.0


class Load(NamedTuple):
    """What the simulated users ask for at one instant."""

    running: int
    """Requests in decode."""
    queued: int
    prompt_tok_s: float
    """Prompt tokens a second that prefill computes; those from the cache come on top."""
    swell: float
    """0 at the lowest, 1 at the highest."""


IDLE = Load(running=0, queued=0, prompt_tok_s=0.0, swell=0.0)


def load_at(now: float) -> Load:
    """The load at a time in seconds since the epoch."""
    if os.environ.get("DSV4_DEMO_LOAD") == "0":
        return IDLE
    swell, ahead = _swell(now), _swell(now + PREFILL_LEAD_S)
    return Load(
        running=round(LEAST_RUNNING + (MOST_RUNNING - LEAST_RUNNING) * swell),
        queued=max(0, round((swell - 0.88) * 40)),
        prompt_tok_s=LEAST_PROMPT_TOK_S + (MOST_PROMPT_TOK_S - LEAST_PROMPT_TOK_S) * ahead,
        swell=swell,
    )


def decode_tok_s(running: float, accept_length: float = 1.0) -> float:
    """Tokens a second of all running requests together: more with each, but less than in proportion.

    Speculative decoding helps one request most, for a full batch has no idle compute left to spend on drafts.
    """
    if running <= 0:
        return 0.0
    speculation = 1.0 + (accept_length - 1.0) * 0.5 / (1.0 + 0.12 * (running - 1))
    return SINGLE_STREAM_TOK_S * speculation * running / (1.0 + CROWDING * (running - 1))


def _swell(now: float) -> float:
    minute = 0.5 - 0.5 * math.cos(math.tau * now / 60.0)
    ripple = 0.10 * math.sin(math.tau * now / 17.0) + 0.05 * math.sin(math.tau * now / 7.3)
    return min(1.0, max(0.0, minute + ripple))
