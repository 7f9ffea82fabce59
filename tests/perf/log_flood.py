"""Logs that flood, from a real sshd: what a key costs meanwhile, whether a line is lost, and how fast it is.

usage: python tests/perf/log_flood.py [SECONDS]

1. The whole console on a real pty, four servers that write 50,000 lines a second together, then one that
   writes 100,000: from a key to its frame (goal: median 25 ms, p95 100 ms), and the share of a core (60 %).
2. The same floods through the watch alone: every line must arrive, once and in order.
3. 200 MB of log that is there already, in one go, against `ssh host tail -c +1 FILE | cat` in the same run.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from console.domain.observation import LogUpdate  # noqa: E402 # the script runs without an installed console
from console.remote.agent_parcel import AgentOptions  # noqa: E402
from console.remote.ssh import SshHost  # noqa: E402
from console.services.telemetry import HostWatch, Identity  # noqa: E402
from tests.integration import numbered  # noqa: E402
from tests.integration.sshd import SshServer  # noqa: E402

# As a serving log: mostly batch lines of some 170 bytes. Written in bursts of 20 ms, as buffered writers do.
WRITER = """
import itertools, sys, time
rate = int(sys.argv[sys.argv.index("--rate") + 1])
body = " TP0] Decode batch, #running-req: 16, #full token: 37120, full token usage: 0.03, cuda graph: True, "
body += "gen throughput (token/s): 561.40, #queue-req: 0, number: "
per_burst, number, begun = rate // 50, 0, time.monotonic()
for burst in itertools.count(1):
    stamp = time.strftime("[%Y-%m-%d %H:%M:%S")
    sys.stdout.write("".join(f"{stamp}{body}{n}\\n" for n in range(number, number + per_burst)))
    sys.stdout.flush()
    number += per_burst
    time.sleep(max(0.0, begun + burst / 50 - time.monotonic()))
"""
QUIET = """
import time
print("nothing yet", flush=True)
while True:
    time.sleep(60)
"""
KEYS = 60
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def host(folder: Path) -> Iterator[SshServer]:
    """sshd whose agents see only this run's writers."""
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    os.environ["HOME"] = str(home)
    server = SshServer(folder / "sshd", home, {"SetEnv": f"DSV4_AGENT_ONLY_ENV={numbered.MARK}={folder}"})
    server.trust()
    server.add_alias("gpu-box")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def writers(folder: Path, rates: list[int]) -> Iterator[None]:
    """One server for each rate, in lines a second."""
    running = []
    for index, rate in enumerate(rates):
        own = folder / f"writer{index}-{rate}"
        own.mkdir(exist_ok=True)
        flags = ("--rate", str(rate), "--port", str(9000 + index))
        running.append(numbered.start(own, str(folder), WRITER, flags))
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


class Screen:
    """The console on a pty."""

    def __init__(self) -> None:
        self.fd, theirs = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "console", "--host", "gpu-box"],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=REPOSITORY,
            env=os.environ | {"TERM": "xterm-256color", "LANG": "C.UTF-8"},
        )  # fmt: skip
        os.close(theirs)

    def until(self, words: bytes, limit_s: float = 20.0) -> float:
        """Seconds until the words are written anew."""
        begun, seen = time.monotonic(), b""
        while words not in seen:
            if time.monotonic() - begun > limit_s:
                raise SystemExit(f"no {words!r} within {limit_s} s")
            if select.select([self.fd], [], [], 0.1)[0]:
                seen = seen[-100:] + os.read(self.fd, 65536)
        return time.monotonic() - begun

    def drain(self, seconds: float) -> None:
        """Read and throw away."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                os.read(self.fd, 65536)

    def cpu_s(self) -> float:
        """CPU seconds of the console's process."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def keys(folder: Path, rates: list[int], seconds: float) -> None:
    """Part 1 for one set of writers."""
    with writers(folder, rates):
        screen = Screen()
        screen.until(b"following")
        screen.drain(4.0)
        cpu, begun = screen.cpu_s(), time.monotonic()
        taken = []
        for press in range(KEYS):
            # Pause and its end show in the title of the focused pane: a frame of that key's own.
            os.write(screen.fd, b" ")
            taken.append(1000 * screen.until(b"following" if press % 2 else b"paused"))
            screen.drain(seconds / KEYS)
        share = 100 * (screen.cpu_s() - cpu) / (time.monotonic() - begun)
        screen.process.kill()
        screen.process.wait()
    p95 = quantiles(taken, n=20)[-1]
    total = f"{sum(rates):,} lines/s over {len(rates)} tail{'s' if len(rates) > 1 else ''}"
    latency = f"key to frame median {median(taken):5.1f} ms, p95 {p95:5.1f} ms"
    print(f"{total:<32} {latency}, {share:4.0f} % of a core")


async def arrivals(folder: Path, rates: list[int], seconds: float) -> None:
    """Part 2 for one set of writers."""
    seen: dict[tuple[int, int], list[int]] = {}
    with writers(folder, rates):
        watch = HostWatch(
            Identity(name="gpu-box"), lambda: SshHost("gpu-box"), AgentOptions(), sys.executable
        )
        end = time.monotonic() + seconds + 3
        async with contextlib.aclosing(watch.updates()) as updates:
            async for update in updates:
                if isinstance(update, LogUpdate):
                    found = (int(line.text.rpartition(" ")[2]) for line in update.lines)
                    seen.setdefault(update.server, []).extend(found)
                if time.monotonic() > end:
                    break
    lost = sum(numbers != list(range(numbers[0], numbers[0] + len(numbers))) for numbers in seen.values())
    count = sum(map(len, seen.values()))
    print(f"{'':<32} {count:,} lines arrived on {len(seen)} tails; tails with a line lost or doubled: {lost}")


def prepare(big: Path) -> int:
    """200 MB of numbered log; returns the last number."""
    line = b"[2026-11-30 00:00:00 TP0] Decode batch, #running-req: 16, gen throughput (token/s): 561.40 %d\n"
    count = 0
    with big.open("wb") as log:
        while log.tell() < 200_000_000:
            log.write(b"".join(line % n for n in range(count, count + 10_000)))
            count += 10_000
    return count - 1


def plainly(big: Path, server: SshServer) -> float:
    """Seconds for `ssh host tail -c +1 FILE | cat > /dev/null`."""
    begun = time.monotonic()
    # ssh asks the password file, not HOME, where the user's files are.
    files = ["-F", str(server.config), "-i", str(server.client_key)]
    command = [
        "ssh",
        *files,
        "-o",
        f"UserKnownHostsFile={server.known_hosts}",
        "gpu-box",
        f"tail -c +1 {big}",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as ssh:
        subprocess.run(["sh", "-c", "cat > /dev/null"], stdin=ssh.stdout, check=True)
    return time.monotonic() - begun


async def through_the_watch(folder: Path, big: Path, last: int) -> tuple[float, int]:
    """Append it to a log that is followed: seconds until the last line is there, and the lines that came."""
    process = numbered.start(folder, str(folder.parent), QUIET)
    got, begun = 0, 0.0
    watch = HostWatch(Identity(name="gpu-box"), lambda: SshHost("gpu-box"), AgentOptions(), sys.executable)
    try:
        async with contextlib.aclosing(watch.updates()) as updates:
            async for update in updates:
                if isinstance(update, LogUpdate):
                    if not begun:
                        begun = time.monotonic()
                        appending = f"exec cat {big} >> {folder / 'server.log'}"
                        await asyncio.create_subprocess_exec("sh", "-c", appending)
                    got += len(update.lines)
                    if update.lines and update.lines[-1].text.endswith(f" {last}"):
                        break
        return time.monotonic() - begun, got
    finally:
        process.kill()
        process.wait()


def in_one_go(folder: Path, server: SshServer) -> None:
    """Part 3."""
    own = folder / "big"
    own.mkdir()
    last = prepare(own / "200mb")
    plain_s = plainly(own / "200mb", server)
    ours_s, got = asyncio.run(through_the_watch(own, own / "200mb", last))
    print(
        f"200 MB in one go: {ours_s:.2f} s, {got:,} lines split and classified of {last + 1:,};"
        f" ssh tail | cat {plain_s:.2f} s, ratio {ours_s / plain_s:.1f}"
    )


def main() -> None:
    """All parts."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with tempfile.TemporaryDirectory() as name, host(Path(name)) as server:
        for rates in ([12_500] * 4, [100_000]):
            keys(Path(name), rates, seconds)
            asyncio.run(arrivals(Path(name), rates, seconds / 2))
        in_one_go(Path(name), server)


if __name__ == "__main__":
    main()
