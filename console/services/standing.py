"""How the connection to a host stands, and how old what is known of it is."""

from __future__ import annotations

import time

import msgspec

from console.domain.gpu import Sample
from console.domain.host_view import Connection, HostView
from console.remote.agent_link import AgentLink
from console.services.readonly import ReadonlySwitch
from console.services.session import LinkDown, LinkUp


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the host before it is reached."""

    name: str
    demo: bool = False
    readonly: bool = False
    protected: bool = False


class Standing:
    """Keeps the times and causes behind a HostView."""

    def __init__(self, identity: Identity, interval_s: float) -> None:
        self._identity = identity
        self._interval_s = interval_s
        self._connection: Connection = "connecting"
        self._since = time.monotonic()
        self._address: str | None = None
        self._detail: str | None = None
        self._retry_at: float | None = None
        self._sample: Sample | None = None
        self._sampled_at: float | None = None
        self.link: AgentLink | None = None
        """The agent, while there is a connection."""
        self.utc_offset_s: float | None = None
        self.skew_s: float | None = None
        """The host's clock minus ours; half of the way there and back is taken off."""
        self.readonly = ReadonlySwitch()

    @property
    def is_up(self) -> bool:
        """Whether the agent is there."""
        return self.link is not None

    def came_up(self, up: LinkUp) -> None:
        """The agent has said hello."""
        self.link = up.link
        self.readonly.came_up(up.link)
        self._address = up.host.address
        self.utc_offset_s = up.link.hello.utc_offset_s
        self._change("up", None)

    def went_down(self, down: LinkDown) -> None:
        """The connection was lost, or could not be made."""
        self.link = None
        self._retry_at = down.retry_at
        self._change("failed" if down.retry_at is None else "lost", str(down.error))

    def sampled(self, sample: Sample) -> None:
        """A sample has come."""
        self._sample, self._sampled_at = sample, time.monotonic()
        self.skew_s = sample.host.time - time.time() + (self._rtt_s() or 0.0) / 2

    def view(self) -> HostView:
        """All of it as a value."""
        now = time.monotonic()
        rtt_s = self._rtt_s()
        return HostView(
            name=self._identity.name,
            demo=self._identity.demo,
            readonly=self._identity.readonly or self.readonly.is_on,
            protected=self._identity.protected,
            address=self._address,
            connection=self._connection,
            detail=self._detail,
            rtt_ms=None if rtt_s is None else 1000 * rtt_s,
            retry_in_s=None if self._retry_at is None else max(0.0, self._retry_at - now),
            since_s=now - self._since,
            host=None if self._sample is None else self._sample.host,
            skew_s=self.skew_s,
            age_s=None if self._sampled_at is None else now - self._sampled_at,
            interval_s=self._interval_s,
            utc_offset_s=self.utc_offset_s,
        )

    def _change(self, connection: Connection, detail: str | None) -> None:
        if connection != self._connection:
            self._connection, self._since = connection, time.monotonic()
        self._detail = detail

    def _rtt_s(self) -> float | None:
        return None if self.link is None else self.link.rtt_s
