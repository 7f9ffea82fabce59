"""How late telemetry comes beside a flooded log or a search, and how fast a log comes: over a real sshd.

    python tests/perf/flood_and_telemetry.py [--rate LINES_A_SECOND] [--seconds SECONDS] [--megabytes SIZE]

A sample's delay runs from the time that the host put into it to its arrival with whoever follows the watch,
which reads every line before it; both clocks are this machine's. A log in one go comes through `ssh HOST
tail -f` and through the agent and the link. A search goes through a log of five times that size, again and
again, for what is nowhere in it. It exits with 1 when the flood or the search adds 20 ms or more at p95.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from console.domain.gpu import Sample  # noqa: E402
from console.domain.loghistory import HostMatches, HostSearch  # noqa: E402
from console.domain.observation import LogUpdate, ServerKey, Servers  # noqa: E402
from console.remote.agent_link import AgentLink  # noqa: E402
from console.remote.agent_parcel import AgentOptions  # noqa: E402
from console.remote.frames import LogBytes  # noqa: E402
from console.remote.ssh import SshHost  # noqa: E402
from console.services.telemetry import HostWatch, Identity  # noqa: E402
from tests.integration import numbered  # noqa: E402
from tests.integration.sshd import SshServer  # noqa: E402

HOST = "gpu-box"
INTERVAL_S = 0.2
SETTLE_S = 3.0
GOAL_MS = 20.0
NOWHERE = r"(Error|Exception): nowhere"
LINE = (
    "[%s TP0] Decode batch, #running-req: 16, #full token: 37120, full token usage: 0.03, "
    "cuda graph: True, gen throughput (token/s): %d.40, #queue-req: 4\n"
)
WRITER = f"""
import sys, time
rate = int(sys.argv[sys.argv.index("--rate") + 1])
line, number, due = {LINE!r}, 0, time.monotonic()
while True:
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    sys.stdout.write("".join(line % (now, n) for n in range(number, number + rate // 100)))
    sys.stdout.flush()
    number += rate // 100
    due = max(due + 0.01, time.monotonic() - 0.1)
    time.sleep(max(0.0, due - time.monotonic()))
"""


class Delays(NamedTuple):
    """How late each sample came, and how fast lines did meanwhile."""

    ms: list[float]
    lines_s: float

    @property
    def median(self) -> float:
        return statistics.median(self.ms)

    @property
    def p95(self) -> float:
        return sorted(self.ms)[int(len(self.ms) * 0.95)]

    def __str__(self) -> str:
        return (
            f"median {self.median:6.2f} ms, p95 {self.p95:6.2f} ms, max {max(self.ms):6.2f} ms "
            f"of {len(self.ms)} samples, {self.lines_s:9,.0f} lines/s"
        )


@contextmanager
def host(folder: Path) -> Iterator[None]:
    """A running sshd that is known as gpu-box; its agents see only the processes of this run."""
    home = folder / "home"
    os.environ["HOME"] = str(home)
    os.environ.pop("SSH_AUTH_SOCK", None)
    server = SshServer(folder / "sshd", home, {"SetEnv": f"DSV4_AGENT_ONLY_ENV={numbered.MARK}={folder}"})
    server.trust()
    server.add_alias(HOST)
    server.start()
    try:
        yield
    finally:
        server.stop()


@contextmanager
def writer(folder: Path, rate: int, before: int = 0) -> Iterator[None]:
    """A server that writes so many lines a second, to a log that has so many bytes before."""
    folder.mkdir(exist_ok=True)
    big_log(folder / "server.log", before)
    process = numbered.start(folder, str(folder.parent), WRITER, ("--rate", str(rate)))
    try:
        yield
    finally:
        process.kill()
        process.wait()
        (folder / "server.log").unlink()


class Watched:
    """A watch of the host, five samples a second, and a search through its log if one is wanted."""

    def __init__(self, search: HostSearch | None) -> None:
        self._search = search
        self._searching: asyncio.Task[None] | None = None
        self._watch = HostWatch(
            Identity(name=HOST), lambda: SshHost(HOST), AgentOptions(interval=INTERVAL_S), sys.executable
        )
        self.searched = 0

    async def delays(self, seconds: float) -> Delays:
        """Watch for so long, once the first lines are through."""
        late: list[float] = []
        lines = 0
        begun = time.monotonic()
        async with aclosing(self._watch.updates()) as updates:
            async for update in updates:
                if isinstance(update, Servers) and update.views and self._search and not self._searching:
                    key = update.views[0].process.key
                    self._searching = asyncio.create_task(self._keep_searching(key, self._search))
                if time.monotonic() - begun < SETTLE_S:
                    # What was imported stays; a full collection over it would take 30 ms.
                    gc.freeze()
                    continue
                if isinstance(update, LogUpdate):
                    lines += len(update.lines)
                elif isinstance(update, Sample):
                    late.append(1000 * (time.time() - update.host.time))
                if time.monotonic() - begun > SETTLE_S + seconds:
                    break
            if self._searching:
                self._searching.cancel()
                await asyncio.wait([self._searching])
        return Delays(late, lines / seconds)

    async def _keep_searching(self, server: ServerKey, search: HostSearch) -> None:
        while True:
            before, found = self.searched, HostMatches()
            async with aclosing(self._watch.logs.search(server, search)) as finding:
                async for found in finding:
                    self.searched = before + found.searched
            assert found.complete, found.note


def delays(seconds: float, search: HostSearch | None = None) -> tuple[Delays, int]:
    """The delays of one watch, and the bytes that were searched meanwhile."""
    watched = Watched(search)
    return asyncio.run(watched.delays(seconds)), watched.searched


def big_log(path: Path, size: int) -> None:
    """A log of at least this size."""
    block = "".join(LINE % ("2026-06-17 16:24:57", number) for number in range(10_000)).encode()
    with path.open("wb") as log:
        while log.tell() < size:
            log.write(block)


def ssh_tail_mb_s(path: Path) -> float:
    """What OpenSSH and tail do with the file."""
    files = Path.home() / ".ssh"
    command = ["ssh", "-F", str(files / "config"), "-o", f"UserKnownHostsFile={files / 'known_hosts'}"]
    command += ["-i", str(files / "id_ed25519"), HOST, f"tail -c +1 -f {path}"]
    size = path.stat().st_size
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as ssh:
        subprocess.run(["head", "-c", str(size)], stdin=ssh.stdout, stdout=subprocess.DEVNULL, check=True)
        took = time.monotonic() - begun
        ssh.kill()
    return size / 1e6 / took


class Passage(NamedTuple):
    """How fast a whole file came, and how late the samples between its bytes."""

    mb_s: float
    late_ms: list[float]

    def __str__(self) -> str:
        late = f"samples late by {statistics.median(self.late_ms):.1f} ms, at most {max(self.late_ms):.1f} ms"
        return f"{self.mb_s:6.1f} MB/s, {late if self.late_ms else 'no sample meanwhile'}"


async def agent_passage(path: Path, status: os.stat_result) -> Passage:
    """The whole file through the agent and the link, thrown away here."""
    remote = SshHost(HOST)
    await remote.connect()
    late: list[float] = []
    try:
        async with await AgentLink.start(remote, AgentOptions(interval=INTERVAL_S), sys.executable) as link:
            place = {"dev": status.st_dev, "inode": status.st_ino, "offset": 0}
            begun = time.monotonic()
            await link.send("tail", tail="a", path=str(path), **place)
            async with aclosing(link.frames()) as frames:
                async for frame in frames:
                    if isinstance(frame, Sample):
                        late.append(1000 * (time.time() - frame.host.time))
                    if isinstance(frame, LogBytes) and frame.offset + len(frame.data) == status.st_size:
                        break
            return Passage(status.st_size / 1e6 / (time.monotonic() - begun), late)
    finally:
        await remote.close()


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=100_000, help="lines a second of the flood")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each is measured")
    parser.add_argument("--megabytes", type=int, default=200, help="size of the log that comes in one go")
    options = parser.parse_args()
    size = options.megabytes * 1_000_000
    with tempfile.TemporaryDirectory(prefix="dsv4-flood-") as name, host(Path(name)):
        folder = Path(name)
        with writer(folder / "quiet", 100):
            quiet, _ = delays(options.seconds)
        print(f"quiet log      {quiet}", flush=True)
        with writer(folder / "flood", options.rate):
            flooded, _ = delays(options.seconds)
        print(f"flooded log    {flooded}: {flooded.p95 / quiet.p95:.1f} times the quiet p95", flush=True)
        with writer(folder / "searched", 100, 5 * size):
            beside, searched = delays(options.seconds, HostSearch(pattern=NOWHERE))
        print(f"during search  {beside}: {beside.p95 / quiet.p95:.1f} times the quiet p95")
        print(f"searched       {searched / 1e6 / (options.seconds + SETTLE_S):6.0f} MB/s", flush=True)
        log = folder / "big.log"
        big_log(log, size)
        tail = ssh_tail_mb_s(log)
        print(f"ssh tail -f    {tail:6.1f} MB/s", flush=True)
        agent = asyncio.run(agent_passage(log, log.stat()))
        print(f"agent and link {agent}: {agent.mb_s / tail:.2f} of that", flush=True)
    added = max(flooded.p95, beside.p95) - quiet.p95
    met = "meets" if added < GOAL_MS else "MISSES"
    print(f"{added:.2f} ms are added at p95: {met} the goal of less than {GOAL_MS:.0f} ms")
    return 0 if added < GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
