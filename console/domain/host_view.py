"""The host as the operator wants to see it: where it is, how the connection stands, how the machine does."""

from __future__ import annotations

from typing import Literal

import msgspec

from .gpu import HostSample

Connection = Literal["connecting", "up", "lost", "failed"]


class HostView(msgspec.Struct, frozen=True, kw_only=True):
    """One host at one instant; None is what is not known."""

    name: str
    """The alias under which the operator knows it."""
    address: str | None = None
    demo: bool = False
    readonly: bool = False
    protected: bool = False
    """Changes ask for the host's name to be typed."""
    connection: Connection = "connecting"
    detail: str | None = None
    """What carries the connection while it is up (`ssh`, `local`); else one sentence why it is not."""
    rtt_ms: float | None = None
    retry_in_s: float | None = None
    since_s: float | None = None
    """Seconds for which the connection has been as it is."""
    host: HostSample | None = None
    skew_s: float | None = None
    """The host's clock minus this machine's, in seconds."""
    age_s: float | None = None
    """Seconds since the newest sample."""
    interval_s: float = 1.0
    """Seconds between samples, as asked for."""
    utc_offset_s: float | None = None
    """The host's zone east of UTC, which its logs are written in; None until it has said."""
