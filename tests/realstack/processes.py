"""What lives on this machine, as /proc tells."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from console.domain.run_record import RunRecord


@dataclasses.dataclass(frozen=True)
class Proc:
    """One process, as /proc tells."""

    pid: int
    ppid: int
    sid: int
    start_ticks: int


def living() -> Iterator[Proc]:
    """All that live; zombies do not."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    yield Proc(int(folder.name), int(fields[1]), int(fields[3]), int(fields[19]))


def scheduler(run: RunRecord) -> int:
    """The pid of a server's scheduler."""
    (found,) = (
        process.pid
        for process in living()
        if process.ppid == run.pid
        and b"sglang::scheduler" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    )
    return found
