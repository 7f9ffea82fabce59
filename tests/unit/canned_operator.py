"""An operator that changes nothing: plans made of the shipped profiles, and events when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from textual.pilot import Pilot

from console.domain.errors import ConsoleError, NotRunning, ReadOnly
from console.domain.host_view import HostView
from console.domain.launch import launches
from console.domain.operating import LastResult, ProfileEntry
from console.domain.plan import Plan, Target, restart_plan, stop_plan, switch_plan
from console.domain.plan_progress import PlanEvent
from console.domain.preflight import Check
from console.domain.profile import Profile
from console.domain.run_record import Process
from console.profiles import Folders, load_profile
from console.ui.app import ConsoleApp
from console.ui.themes import DEFAULT_THEME, load_themes
from console.ui.widgets.choices import Choices
from console.ui.widgets.line_view import LineView
from console.ui.widgets.lines import plain
from console.ui.widgets.meter import UNICODE, Glyphs
from tests.unit.canned import EVERYTHING, NOW, UP, Feed

SHIPPED = Folders(Path(__file__).parents[2] / "profiles")
PYTHON = "/opt/sglang/bin/python"
ABORTED = "What was launched is stopped; pd-ll stays stopped."


def profile(name: str) -> Profile:
    """A shipped profile."""
    return load_profile(name, SHIPPED)


ENTRIES = (
    ProfileEntry(
        name="pd-ll",
        profile=profile("pd-ll"),
        running=True,
        last=LastResult(at=NOW - 7300, sentence="verified after 38 s", verified=True),
    ),
    ProfileEntry(name="cpu-single", profile=profile("cpu-single")),
    ProfileEntry(
        name="pd-broken",
        error="/home/ops/pd-broken.toml: servers.decode.gpus: GPU 4 is used twice. Next: correct that file.",
    ),
    ProfileEntry(
        name="pd-ll128",
        profile=profile("pd-ll128"),
        last=LastResult(at=NOW - 90_000, sentence="failed: flags of decode refused", verified=False),
    ),
    ProfileEntry(
        name="pd-nvfp4",
        profile=profile("pd-nvfp4"),
        last=LastResult(at=NOW - 400, sentence="verified after 41 s", verified=True),
    ),
    ProfileEntry(name="tp4-ll", profile=profile("tp4-ll")),
    ProfileEntry(name="tp8", profile=profile("tp8")),
)


def target(role: str, port: int, pids: tuple[int, ...], *, run: str | None = "r", **fields: object) -> Target:
    """A server that runs."""
    base = {"name": f"{role} :{port}", "role": role, "run": run, "pids": pids, "port": port, "ports": (port,)}
    return msgspec.convert(base | fields, Target)


PAIR = (
    target("prefill", 30000, (5857, 5861, 5862), gpus=(0, 1, 2, 3)),
    target("decode", 30001, (5858, 5871, 5872), gpus=(4, 5, 6, 7)),
    target("router", 8000, (5859,)),
)
FOREIGN = target(
    "single", 31000, (41873, 41931), run=None, server=(41873, 991), owner="mallory", gpus=(0, 1, 2, 3)
)
CHECKS = (
    Check(subject="model", outcome="ok", sentence="/models/DeepSeek-V4-Flash-NVFP4 is a folder"),
    Check(subject="python", outcome="ok", sentence=f"{PYTHON} has sglang 0.5.23 and nixl 0.7.1"),
    Check(subject="flags of prefill", outcome="ok", sentence="sglang 0.5.23 takes them"),
    Check(subject="flags of decode", outcome="ok", sentence="sglang 0.5.23 takes them"),
    Check(
        subject="disk",
        outcome="warning",
        sentence="3.1 GiB free in ~/.local/state/dsv4-console, logs may fill it",
        next="delete old runs there",
    ),
    Check(subject="GPU 0-7", outcome="ok", sentence="will be free when pd-ll has ended"),
)
REFUSED = Check(
    subject="port 30000",
    outcome="refused",
    sentence="pid 4711 (nginx) of root listens on it and is not ended by this plan",
    next="end it, or give the profile another port",
)


class CannedExecution:
    """Yields what it is told to; `fed` None ends it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[PlanEvent | ConsoleError | None] = asyncio.Queue()
        self.aborts = 0

    def feed(self, *events: PlanEvent | ConsoleError | None) -> None:
        """Yield, raise or end."""
        for event in events:
            self._queue.put_nowait(event)

    async def events(self) -> AsyncGenerator[PlanEvent, None]:
        while (event := await self._queue.get()) is not None:
            if isinstance(event, ConsoleError):
                raise event
            yield event

    def abort(self) -> str:
        self.aborts += 1
        return ABORTED


class CannedOperator:
    """Every answer is an attribute that a test may set."""

    def __init__(self) -> None:
        self.entries: Sequence[ProfileEntry] = ENTRIES
        self.running: tuple[Target, ...] = PAIR
        self.checks: tuple[Check, ...] | ConsoleError = CHECKS
        self.checking = asyncio.Event()
        self.checking.set()
        self.held: str | None = None
        """Why the command line forbids changes."""
        self.readonly = False
        self.left_over: str | None = None
        """What is said of a plan whose console died."""
        self.results: Sequence[ProfileEntry] | ConsoleError | None = None
        """The entries once last results were read again."""
        self.failure: ConsoleError | None = None
        """Of the next plan."""
        self.executed: list[tuple[Plan, tuple[Process, ...]]] = []
        self.execution = CannedExecution()

    def refusal(self) -> str | None:
        return self.held or ("read-only by your own switch (ctrl+o)" if self.readonly else None)

    def set_readonly(self, on: bool) -> None:
        if self.held is not None:
            raise ReadOnly(self.held)
        self.readonly = on

    def interrupted(self) -> str | None:
        return self.left_over

    async def refresh(self) -> None:
        if isinstance(self.results, ConsoleError):
            raise self.results
        if self.results is not None:
            self.entries = self.results

    def profiles(self) -> tuple[ProfileEntry, ...]:
        return tuple(self.entries)

    async def switch_plan(self, profile: str) -> Plan:
        self._fail()
        wanted = next(e.profile for e in self.entries if e.name == profile and e.profile is not None)
        return switch_plan(wanted, launches(wanted, PYTHON, "0.5.23"), self.running)

    async def restart_plan(self) -> Plan:
        self._fail()
        wanted = next((e.profile for e in self.entries if e.running and e.profile is not None), None)
        if wanted is None:
            raise NotRunning("nothing runs that was launched from a profile", next_step="choose one with p")
        return restart_plan(wanted, launches(wanted, PYTHON, "0.5.23"), self.running)

    async def stop_plan(self) -> Plan:
        self._fail()
        if not self.running:
            raise NotRunning("nothing runs that could be stopped")
        return stop_plan(self.running)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def check(self, plan: Plan) -> tuple[Check, ...]:
        await self.checking.wait()
        if isinstance(self.checks, ConsoleError):
            raise self.checks
        return self.checks

    def execute(self, plan: Plan, consent: Collection[Process] = ()) -> CannedExecution:
        if (reason := self.refusal()) is not None:
            raise ReadOnly(reason)
        self.executed.append((plan, tuple(consent)))
        self.execution = CannedExecution()
        return self.execution


class Seat:
    """A console with an operator, under test."""

    def __init__(self, app: ConsoleApp, pilot: Pilot[BaseException], feed: Feed, operator: CannedOperator):
        self.app, self.pilot, self.feed, self.operator = app, pilot, feed, operator

    async def press(self, *keys: str) -> None:
        """Press keys, each after what the one before did."""
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for a condition."""
        try:
            async with asyncio.timeout(10):
                while not holds():
                    await self.pilot.pause()
        except TimeoutError:
            raise AssertionError(f"{what}; on the screen:\n{self.screen()}") from None

    async def shows(self, *texts: str) -> None:
        """Wait until all this is on the screen, wherever lines end."""
        for text in texts:
            await self.until(lambda text=text: text in self.said(), f"{text!r} is not shown")

    def screen(self) -> str:
        """The rows of the terminal."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    def said(self) -> str:
        """What the views of this screen say in full, scrolled or not, and the buttons."""
        views = [plain(line) for view in self.app.screen.query(LineView) for line in view.shown]
        titles = [str(view.border_title or "") for view in self.app.screen.query("*")]
        return " ".join(" ".join([*titles, *views]).split())

    def told(self) -> list[str]:
        """The notices."""
        return [notice.message for notice in self.app._notifications]

    def buttons(self) -> list[str]:
        """What can be pressed, the one with the focus in brackets."""
        row = self.app.screen.query_one(Choices)
        marked = row.choices[row.marked] if row.has_focus else None
        able = [choice for choice in row.choices if choice.able]
        return [f"[{choice.label}]" if choice is marked else choice.label for choice in able]


@asynccontextmanager
async def seat(
    operator: CannedOperator | None = None,
    *,
    host: HostView = UP,
    size: tuple[int, int] = (120, 40),
    glyphs: Glyphs = UNICODE,
) -> AsyncIterator[Seat]:
    """A console of that size with the canned host and this operator."""
    feed = Feed((*EVERYTHING, host))
    operator = operator or CannedOperator()
    app = console(feed, operator, glyphs)
    async with app.run_test(size=size) as pilot:
        taken = Seat(app, pilot, feed, operator)
        await taken.until(lambda: feed.drained, "updates were not taken")
        await pilot.pause()
        yield taken


def console(feed: Feed, operator: CannedOperator | None, glyphs: Glyphs = UNICODE) -> ConsoleApp:
    """The console with an operator."""
    return ConsoleApp(
        feed, themes=load_themes().themes, theme=DEFAULT_THEME, glyphs=glyphs, operator=operator
    )
