"""What servers count while a request goes through them.

Measured on SGLang 0.5.15 (a pair on a CPU, NIXL; a prompt of 1028 tokens, 16 new ones). All of it had moved
when the answer was there, or 0.1 s later:

    sglang: series                          prefill             decode
    realtime_tokens_total prefill_compute   + 1028              absent
    realtime_tokens_total decode            absent              + 15: the first token is prefill's
    kv_transfer_latency_ms_count            + 1, absent before  absent
    kv_transfer_total_mb_count              + 1, absent before  absent
    kv_transfer_bootstrap_ms_count          + 1, absent before  + 1
    num_…_failed_reqs_total                 absent              absent

A health check moves the token counters too, by one or a few, and never those of a transfer. So a series that
appears counts from 0, and one that is absent before and after says nothing. The gauges of queues are no help:
they are written with a batch, so a prefill server says `1 in flight` long after its last request, and nothing
of one that waits for its handshake. The page of a server whose scheduler hangs can be read; nothing on it
moves.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .metrics import Reading


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A look at one server's counters."""

    reading: Reading | None = None
    note: str | None = None
    """Why there is no reading."""
    refused: bool = False
    """Nothing listens on the server's port."""


class Move(NamedTuple):
    """What one server counted between two looks. None: not exported, or not readable."""

    name: str
    """The server's in the profile."""
    note: str | None = None
    """Why nothing of it could be read."""
    restarted: bool = False
    prompt: float | None = None
    """Prompt tokens computed."""
    generated: float | None = None
    """New tokens."""
    transfers: float | None = None
    transferred_mb: float | None = None
    failures: float | None = None
    """Of transfers and of the handshakes before them."""

    def of_request(self, page: int) -> Move:
        """Without the token or two that a health check makes a server compute: the request's prompt exceeds
        a page, of `page` tokens."""
        checked = self.prompt is not None and self.prompt <= page
        return self._replace(prompt=0.0) if checked else self

    def __str__(self) -> str:
        """As `prefill computed 1028 tokens`."""
        if self.note is not None:
            return f"the counters of {self.name} could not be seen ({self.note})"
        tokens = [
            f"{verb} {count:.0f} token{'s' * (count != 1)}" if count else f"{verb} nothing"
            for verb, count in (("computed", self.prompt), ("generated", self.generated))
            if count is not None
        ]
        return f"{self.name} {' and '.join(tokens) or 'counts no tokens'}"


def move_between(name: str, first: Counted, last: Counted) -> Move:
    """From one look at a server to the next."""
    if first.reading is None or last.reading is None:
        return Move(name, note=first.note or last.note or "not readable")
    was, now = first.reading, last.reading
    return Move(
        name,
        restarted=was.process_start != now.process_start,
        prompt=_more(was.prompt_tokens, now.prompt_tokens),
        generated=_more(was.gen_tokens, now.gen_tokens),
        transfers=_more(was.transfers, now.transfers),
        transferred_mb=_more(was.transferred_mb, now.transferred_mb),
        failures=total(
            _more(was.transfer_failures, now.transfer_failures),
            _more(was.bootstrap_failures, now.bootstrap_failures),
        ),
    )


def total(*values: float | None) -> float | None:
    """The sum of those that are known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _more(before: float | None, now: float | None) -> float | None:
    return None if now is None else now - (before or 0.0)
