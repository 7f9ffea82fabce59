"""What the command line of a change says beside its verb."""

from __future__ import annotations

import msgspec


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """The options of switch, restart and stop."""

    dry_run: bool = False
    yes: bool = False
    as_json: bool = False
    rollback: bool = False
    end_pids: tuple[int, ...] = ()
    """First processes of servers of others that may be ended."""
    confirm: str | None = None
    """The name of a protected host, typed by whoever wants to change it."""
