"""The states of one server, by name: the vocabulary that screens and the machine share."""

from __future__ import annotations

from typing import Literal

RunState = Literal[
    "unknown",
    "launching",
    "loading",
    "capturing graphs",
    "warming up",
    "ready",
    "degraded",
    "stalled",
    "failed",
    "crashed",
    "stopping",
    "gone",
]
"""`degraded`: it answers its health check and fails its requests. `crashed`: it had been ready. `unknown`: a
saved log that tells nothing of a server."""
