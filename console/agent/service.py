"""The agent's loop: one thread, one poll, one channel.

stdin is the life line. Its end, or no beat for 10 s, ends the agent at once; so does a reader that is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from typing import Any, Callable, Iterator

from . import (
    answers,
    deployments,
    frames,
    gpus,
    greeting,
    hostinfo,
    inspecting,
    loads,
    logs,
    processes,
    processfacts,
)

SILENCE_S = 10.0
"""Without a beat for this long the console is dead or frozen."""
SCAN_S = 2.0
SCAN_YOUNG_S = 0.5
"""While the first servers appear, or one starts, look more often."""
READ_SIZE = 65536
ONLY_ENV = "DSV4_AGENT_ONLY_ENV"
"""`NAME=value`: a host that sets this shows only processes with that entry in their environment (the
demo)."""

Clock = Callable[[], float]


class Agent:
    """Everything the agent knows, driven by `step`."""

    def __init__(
        self,
        options: dict[str, Any],
        writer: frames.FrameWriter,
        wake: Callable[[], None] = lambda: None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._interval = bounded_interval(options.get("interval", 1.0))
        self._host = hostinfo.HostInfo()
        self._gpus = gpus.GpuSampler(self._interval, wake)
        self._scan = processes.ProcessScan(only_env=options.get("only_env") or os.environ.get(ONLY_ENV))
        self._logs = logs.Logs(writer, clock)
        self._answers = answers.Answers(writer, self._logs.open)
        self._deployments = deployments.Deployments(
            writer, processfacts.fact, greeting.boot_id(), readonly=bool(options.get("readonly"))
        )
        self._inspections = inspecting.Inspections(
            writer,
            "/proc",
            self._gpus.report,
            self._deployments.run_of,
            clock,
            self._deployments.ports_of_root,
        )
        self._loads = loads.Loads(writer, self._deployments.refuse_when_readonly, clock)
        self._seq = 0
        self._last_servers: list[dict[str, Any]] | None = None
        now = clock()
        self._beat_at = now
        self._sample_at = now
        self._scan_at = now

    def start(self) -> None:
        """Say hello, before any telemetry can overtake it, and begin to read the GPUs."""
        self._writer.put(greeting.hello())
        self._writer.flush()
        self._gpus.start()

    def obey(self, order: dict[str, Any]) -> None:
        """Carry out one frame of the console's. An unknown order is answered, not fatal."""
        self._beat_at = self._clock()
        name = str(order.get("op"))
        action = {
            "beat": self._beat,
            "interval": self._set_interval,
            "tail": self._logs.follow,
            "untail": self._logs.unfollow,
            "read": self._answers.read,
            "search": self._answers.search,
            "cancel": self._cancel,
            "inspect": self._inspections.inspect,
            "check_flags": self._inspections.check_flags,
            "holders": self._inspections.holders,
            "load": self._loads.load,
        }
        if name in action:
            action[name](order)
        elif name in self._deployments.orders:
            self._deployments.answer(order)
        else:
            self._writer.put({"kind": "reply", "id": order.get("id"), "error": f"unknown order {name!r}"})

    def _beat(self, order: dict[str, Any]) -> None:
        """A beat that carries an id is answered, which measures the way there and back."""
        if "id" in order:
            self._writer.put({"kind": "reply", "id": order["id"]})

    def _set_interval(self, order: dict[str, Any]) -> None:
        self._interval = bounded_interval(order["seconds"])
        self._gpus.set_interval(self._interval)
        self._sample_at = self._clock()

    def _cancel(self, order: dict[str, Any]) -> None:
        self._answers.cancel(order)
        self._inspections.cancel(int(order["id"]))
        self._loads.cancel(int(order["id"]))

    def gpus_were_read(self) -> None:
        """A new reading is there: send it while it is fresh, and let the clock send only what comes late."""
        self._take_sample(self._clock())
        self._sample_at = self._clock() + 1.5 * self._interval

    def abandoned(self) -> bool:
        """True when the console has been silent for too long."""
        return self._clock() - self._beat_at > SILENCE_S

    def step(self) -> float:
        """Do what is due, and write what the connection takes; returns the seconds until something is due."""
        now = self._clock()
        if now >= self._scan_at:
            self._look_for_servers(now)
            self._deployments.look_for_changes()
        if now >= self._sample_at:
            self._take_sample(now)
        self._loads.beat()
        if self._writer.idle:
            self._logs.pump()
            self._answers.pump()
            self._inspections.pump()
            self._loads.pump()
        # Before the wait is reckoned: a log is due again as soon as its chunk has gone out.
        self._writer.flush()
        due = min(self._scan_at, self._sample_at, self._beat_at + SILENCE_S + 0.1)
        if self._writer.idle:
            at_once = self._answers.due or self._inspections.due
            due = min(due, self._logs.due, now if at_once else due)
        return max(0.0, due - self._clock())

    def close(self) -> None:
        """End what would outlive the agent."""
        self._answers.close()
        self._inspections.close()
        self._loads.close()

    def readable(self) -> list[int]:
        """Descriptors that tell that a step is due before that."""
        if not self._writer.idle:
            return []
        return self._answers.readable() + self._inspections.readable() + self._loads.readable()

    def _take_sample(self, now: float) -> None:
        self._seq += 1
        report = self._gpus.report()
        for gpu in report["gpus"]:
            for process in gpu.get("processes") or ():
                process["server_pid"] = self._scan.owner_of(process["pid"])
        self._writer.put_sample(
            {
                "kind": "sample",
                "seq": self._seq,
                "dropped": self._writer.dropped,
                "host": self._host.sample(),
                "gpu": report,
            }
        )
        # A look at all processes may come next.
        self._writer.flush()
        # Late once is late once: no burst of samples makes up for a stall.
        self._sample_at = max(self._sample_at + self._interval, now + self._interval / 2)

    def _look_for_servers(self, now: float) -> None:
        servers = self._scan.servers()
        if self._last_servers is None or settled(servers) != settled(self._last_servers):
            note = self._scan.note
            self._writer.put({"kind": "servers", "servers": servers, "note": note, "time": time.time()})
            self._last_servers = servers
        self._scan_at = now + (SCAN_S if servers and not self._scan.starting else SCAN_YOUNG_S)


def settled(servers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The list without what flickers: a running process is R or S from one look to the next."""
    return [dict(server, state="S" if server["state"] in "RSI" else server["state"]) for server in servers]


def bounded_interval(seconds: float) -> float:
    """The telemetry interval, held within 0.2 to 10 s."""
    return min(10.0, max(0.2, float(seconds)))


def orders(reader: frames.FrameReader, fd: int) -> Iterator[dict[str, Any]]:
    """The frames that one read completes. Raises EOFError when the console has gone."""
    data = os.read(fd, READ_SIZE)
    if not data:
        raise EOFError
    for header, _ in reader.feed(data):
        yield header


class Waker:
    """A pipe by which the thread that reads the GPUs wakes the loop."""

    def __init__(self) -> None:
        self.fd, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)

    def wake(self) -> None:
        """Wake the loop; a pipe that is full has woken it already."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._write_end, b".")

    def clear(self) -> None:
        """Take what was written."""
        os.read(self.fd, 4096)


def converse(agent: Agent, writer: frames.FrameWriter, waker: Waker, stdin: int, stdout: int) -> None:
    """Serve until the console has gone. Raises EOFError, BrokenPipeError or BrokenFrame then."""
    reader = frames.FrameReader()
    while not agent.abandoned():
        wait_s = agent.step()
        poll = select.poll()
        for fd in (stdin, waker.fd, *agent.readable()):
            poll.register(fd, select.POLLIN)
        poll.register(stdout, 0 if writer.idle else select.POLLOUT)
        for fd, event in poll.poll(int(wait_s * 1000) + 1 if wait_s else 0):
            if fd == stdin:
                for order in orders(reader, stdin):
                    agent.obey(order)
            elif fd == waker.fd:
                waker.clear()
                agent.gpus_were_read()
            elif fd == stdout and event & (select.POLLERR | select.POLLHUP):
                raise BrokenPipeError


def serve(stdin: int, stdout: int, options: dict[str, Any]) -> None:
    """Run the agent over two descriptors; does not return.

    os._exit, because a GPU read that hangs in the driver must not keep the process.
    """
    os.set_blocking(stdout, False)
    writer = frames.FrameWriter(stdout)
    waker = Waker()
    agent = Agent(options, writer, waker.wake)
    agent.start()
    status = 0
    try:
        converse(agent, writer, waker, stdin, stdout)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except frames.BrokenFrame as error:
        sys.stderr.write(f"agent: {error}\n")
        sys.stderr.flush()
        status = 3
    agent.close()
    os._exit(status)
