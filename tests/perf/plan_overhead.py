"""What the console itself adds to the time that SGLang takes to stop and to start.

usage: python tests/perf/plan_overhead.py [RUNS]

A pair is launched from nothing and then restarted, RUNS times (3), on the real stack of tests/realstack over
a real sshd. Prints the medians of each part of our own time; the goal is at most 2 s in all. It exits with 1
when that is missed.

What is SGLang's own is measured beside the console: processes that were signalled until the last is gone,
looked for every 10 ms; ready lines by a look at the logs every 10 ms; /health, asked once when the ready line
is there, which SGLang answers after a second at the earliest; the router from its launch until it says that
it is ready, asked every 50 ms. The request of the proof is SGLang's work too. All of it is told apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from console.domain.plan import Plan, Target  # noqa: E402
from console.services import watched_host  # noqa: E402
from console.services.host_control import Signal, Signalled  # noqa: E402
from tests.realstack.deploying import Console, RealHost  # noqa: E402
from tests.realstack.stack import SERVER_READY, fetch  # noqa: E402

GOAL_S = 2.0
LOOK_S = 0.01
ASK_S = 0.05
Parts = dict[str, float]


class Stopping(threading.Thread):
    """Looks when the last of some processes is gone."""

    def __init__(self, pids: Sequence[int]) -> None:
        super().__init__(daemon=True)
        self._pids = pids
        self.begun_at = time.time()
        self.gone_at = self.begun_at

    def run(self) -> None:
        """Until they are gone."""
        while any(map(is_alive, self._pids)):
            time.sleep(LOOK_S)
        self.gone_at = time.time()


class Starting(threading.Thread):
    """Follows one run: when its log says that it is ready, or the router itself does."""

    def __init__(self, record: Path) -> None:
        super().__init__(daemon=True)
        found = json.loads(record.read_text())
        self.name: str = found["name"]
        self.launched_at: float = found["launched_at"]
        self.ready_at = 0.0
        self.healthy_at = 0.0
        self._port: int = found["port"]
        self._log = Path(found["log"])

    def run(self) -> None:
        """Until it is ready."""
        pause_s, is_ready = (ASK_S, self._answers) if self.name == "router" else (LOOK_S, self._says_so)
        self._seen = b""
        with self._log.open("rb") as self._file:
            while not is_ready():
                time.sleep(pause_s)
        self.ready_at = time.time()
        if self.name != "router":
            fetch(f"http://127.0.0.1:{self._port}/health", 30.0)
        self.healthy_at = time.time()

    def _says_so(self) -> bool:
        self._seen = self._seen[-100:] + self._file.read()
        return SERVER_READY.encode() in self._seen

    def _answers(self) -> bool:
        try:
            fetch(f"http://127.0.0.1:{self._port}/readiness", 5.0)
        except OSError:
            return False
        return True


class Observer:
    """Sees the signals of a plan and the runs that it launches, beside the console."""

    def __init__(self, host: RealHost) -> None:
        self._host = host
        self._before = self._records()
        self._over = threading.Event()
        self.stopping: list[Stopping] = []
        self.starting: dict[str, Starting] = {}

    def signalled(self, runs: Sequence[str]) -> None:
        """Signals to these runs have been sent."""
        self.stopping.append(Stopping(self._host.processes(runs)))
        self.stopping[-1].start()

    def look(self) -> None:
        """Until the plan is over."""
        while not self._over.wait(LOOK_S):
            for record in self._records() - self._before:
                with contextlib.suppress(ValueError):
                    run = Starting(record)
                    self._before.add(record)
                    self.starting[run.name] = run
                    run.start()

    def end(self) -> None:
        """The plan is over."""
        self._over.set()
        for thread in [*self.stopping, *self.starting.values()]:
            thread.join()

    def _records(self) -> set[Path]:
        return set(self._host.state.glob("runs/*/run.json"))


async def carried_out(console: Console, plan: Plan) -> tuple[Parts, Parts]:
    """Our own parts of the time, and SGLang's."""
    observer = Observer(console.host)
    looking = threading.Thread(target=observer.look, daemon=True)
    looking.start()
    send = watched_host.WatchedHost.signal

    async def seen(control: watched_host.WatchedHost, targets: Sequence[Target], signal: Signal) -> Signalled:
        done = await send(control, targets, signal)
        observer.signalled([target.run for target in targets if target.run])
        return done

    # To see when it is called.
    setattr(watched_host.WatchedHost, "signal", seen)  # noqa: B010 - mypy would have it be a method
    begun = time.time()
    try:
        result = await console.carry_out(plan)
    finally:
        setattr(watched_host.WatchedHost, "signal", send)  # noqa: B010 - as above
        await asyncio.to_thread(observer.end)
    assert result.state == "done", result.sentence
    assert result.deployment is not None
    assert result.deployment.proof is not None
    return parts(begun, observer, result.deployment.proof.at, result.deployment.proof.seconds or 0.0)


def parts(begun: float, observer: Observer, proven: float, request_s: float) -> tuple[Parts, Parts]:
    prefill, decode, router = (observer.starting[name] for name in ("prefill", "decode", "router"))
    at, ours, engine = begun, Parts(), Parts()
    for number, stop in enumerate(observer.stopping):
        ours[
            "from the key to the first signal" if not number else "from router gone to servers signalled"
        ] = stop.begun_at - at
        engine["router stops" if not number else "servers stop"] = stop.gone_at - stop.begun_at
        at = stop.gone_at
    ours["from all gone to prefill launched" if observer.stopping else "from the key to prefill launched"] = (
        prefill.launched_at - at
    )
    ours["prefill's second ahead"] = decode.launched_at - prefill.launched_at
    ready = max(prefill.ready_at, decode.ready_at)
    engine["servers start"] = ready - decode.launched_at
    healthy = max(prefill.healthy_at, decode.healthy_at)
    engine["the first answer of /health"] = healthy - ready
    ours["from the last ready line to router launched, without that"] = router.launched_at - healthy
    engine["router starts"] = router.ready_at - router.launched_at
    engine["the request of the proof"] = request_s
    ours["from router ready to proven, without the request"] = proven - router.ready_at - request_s
    return ours, engine


def is_alive(pid: int) -> bool:
    """Whether it is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def show(title: str, measured: Sequence[tuple[Parts, Parts]]) -> float:
    """Print the medians; the sum of ours."""
    ours = {name: median(each[name] for each, _ in measured) for name in measured[0][0]}
    engine = {name: median(each[name] for _, each in measured) for name in measured[0][1]}
    totals = [sum(each.values()) for each, _ in measured]
    print(f"{title}: {median(totals):.2f} s of our own ({', '.join(f'{total:.2f}' for total in totals)})")
    for name, seconds in ours.items():
        print(f"  {seconds:6.2f} s  {name}")
    for name, seconds in engine.items():
        print(f"  {seconds:6.2f} s  (SGLang) {name}")
    return median(totals)


async def measure(runs: int) -> bool:
    """Whether the goal is met."""
    switches, restarts = [], []
    with tempfile.TemporaryDirectory() as folder, RealHost(Path(folder)) as host:
        async with host.console() as console:
            # The flags of this SGLang are then checked, as they are for whoever changes settings all day.
            await console.operator.check(await console.operator.switch_plan("pair"))
            for _ in range(runs):
                switches.append(await carried_out(console, await console.operator.switch_plan("pair")))
                restarts.append(await carried_out(console, await console.operator.restart_plan()))
                await console.carry_out(await console.operator.stop_plan())
    own = [show("switch from nothing to a pair", switches), show("restart of a pair", restarts)]
    return max(own) <= GOAL_S


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    sys.exit(0 if asyncio.run(measure(count)) else 1)
