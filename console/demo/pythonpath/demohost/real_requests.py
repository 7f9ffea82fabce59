"""When the host last worked on a request of somebody real: the age of one file, which all its servers renew.

Simulated users step back meanwhile, on both roles of a pair at once, so that what a benchmark causes is all
that its servers count.
"""

from __future__ import annotations

from pathlib import Path

QUIET_S = 3.0
"""Seconds that simulated users stay away: as long as a benchmark may take from one request to the next."""


def note(host_folder: Path) -> None:
    """There is one now."""
    _path(host_folder).touch()


def are_recent(host_folder: Path, now: float) -> bool:
    """Was there one just now? `now` in seconds since the epoch."""
    try:
        return now - _path(host_folder).stat().st_mtime < QUIET_S
    except FileNotFoundError:
        return False


def _path(host_folder: Path) -> Path:
    return host_folder / "state" / "real-request"
