"""A made-up /proc, and command lines as they are in use."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import msgspec

from console.agent.processes import ProcessScan
from console.domain.server import LogPlace, ServerProcess

BOOT_TIME = 1_790_000_000
TICKS = os.sysconf("SC_CLK_TCK")

PREFILL = "/venv/bin/python -m sglang.launch_server --port 30000 --tp 4 --disaggregation-mode prefill"
DECODE = PREFILL.replace("prefill", "decode").replace("30000", "30001") + " --base-gpu-id 4"
PAIR = "--prefill http://a:30000 8998 --decode http://a:30001"
ROUTER = f"/venv/bin/python -m sglang_router.launch_router {PAIR} --port 8000"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeProc:
    """A /proc made of plain files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.created = 0
        self.clock = Clock()
        self.scan = ProcessScan(str(root), clock=self.clock)
        (root / "self/ns").mkdir(parents=True)
        (root / "self/ns/mnt").symlink_to("mnt:[1]")
        (root / "stat").write_text(f"cpu  1 2 3 4\nbtime {BOOT_TIME}\n")
        self.add(1, "/sbin/init", ppid=0)

    def add(
        self,
        pid: int,
        command: str,
        *,
        ppid: int = 1,
        comm: str = "python3",
        state: str = "S",
        group: int | None = None,
        session: int | None = None,
        start: int | None = None,
        environment: str = "PATH=/usr/bin",
        stdout: str | Path = "/dev/null",
        fds: dict[int, str | Path] | None = None,
        mount: str = "mnt:[1]",
    ) -> Path:
        """A process. `command` and `environment` are split like shell words."""
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "ns").mkdir()
        (folder / "ns/mnt").symlink_to(mount)
        self.rename(pid, *shlex.split(command))
        (folder / "environ").write_bytes(b"".join(word.encode() + b"\0" for word in shlex.split(environment)))
        self.set_stat(pid, comm, state, ppid, group or pid, session or pid, start or pid * 100)
        for number, target in {0: "/dev/null", 1: stdout, 2: stdout, **(fds or {})}.items():
            (folder / "fd" / str(number)).symlink_to(target)
        self.created += 1
        (self.root / "loadavg").write_text(f"0.00 0.01 0.05 1/200 {self.created}\n")
        return folder

    def rename(self, pid: int, *argv: str) -> None:
        """What the kernel shows after exec or setproctitle."""
        (self.root / str(pid) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in argv))

    def set_stat(
        self, pid: int, comm: str, state: str, ppid: int, group: int, session: int, start: int
    ) -> None:
        """The line of proc(5), up to what follows the start time."""
        rest = f"{state} {ppid} {group} {session} 0 -1 4194304 {' 0' * 8} 20 0 6 0 {start} 1486209024 131687"
        (self.root / str(pid) / "stat").write_text(f"{pid} ({comm}) {rest}\n")

    def end(self, pid: int) -> None:
        """The process is gone."""
        shutil.rmtree(self.root / str(pid))

    def listen(self, pid: int, ports: dict[int, int], table: str = "tcp") -> None:
        """Let the process listen; `ports` maps descriptors to ports."""
        lines = [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
        ]
        for number, (fd, port) in enumerate(ports.items()):
            (self.root / str(pid) / "fd" / str(fd)).symlink_to(f"socket:[{pid}{fd}]")
            address = "0" * (8 if table == "tcp" else 32)
            rest = "00000000:00000000 00:00000000 00000000     0        0"
            lines.append(
                f"   {number}: {address}:{port:04X} {address}:0000 0A {rest} {pid}{fd} 1 0000 100 0 0 10 0"
            )
        lines.append(
            f"  99: 00000000:1F90 0100007F:C000 01 00000000:00000000 02:0000 0000 0 0 {pid}99 1 0 20 4 30 10"
        )
        (self.root / str(pid) / "net").mkdir(exist_ok=True)
        (self.root / str(pid) / "net" / table).write_text("\n".join(lines) + "\n")

    def found(self) -> list[ServerProcess]:
        """A scan's answer as the console reads it: the agent's fields are exactly the domain's."""
        reports = self.scan.servers()
        for report in reports:
            assert set(report) == set(ServerProcess.__struct_fields__)
            assert set(report["log"]) == set(LogPlace.__struct_fields__)
        return msgspec.convert(msgspec.json.decode(msgspec.json.encode(reports)), list[ServerProcess])

    def only(self) -> ServerProcess:
        """The one server there is."""
        (server,) = self.found()
        return server
