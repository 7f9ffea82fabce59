"""How long things take on the demo host. Tests make everything short by making the start short."""

from __future__ import annotations

import os

USUAL_START_S = 8.0


def start_s() -> float:
    """Seconds from a server's launch to its ready line."""
    return float(os.environ.get("DSV4_DEMO_START_S", USUAL_START_S))


def scaled(seconds: float) -> float:
    """What takes `seconds` on the usual demo host, on this one: never more than that."""
    return seconds * min(1.0, start_s() / USUAL_START_S)
