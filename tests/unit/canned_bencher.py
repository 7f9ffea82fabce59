"""A bencher that measures nothing: results as values, and events when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
from textual.pilot import Pilot

from console.domain.bench.benching import BenchAsk, BenchEvent, BenchPhase, BenchPlan
from console.domain.bench.figures import figures
from console.domain.bench.load import FailureKind, LoadRequests, LoadSecond, RequestTiming
from console.domain.bench.result import BenchResult, Client, Context
from console.domain.errors import ConsoleError, ReadOnly, UsageError
from console.domain.host_view import HostView
from console.ui.app import ConsoleApp
from console.ui.themes import DEFAULT_THEME, load_themes
from console.ui.widgets.meter import UNICODE, Glyphs
from tests.unit.canned import EVERYTHING, NOW, UP, Feed
from tests.unit.canned_operator import CannedOperator, Seat

KEPT = "what was measured is kept, marked partial"
TARGET = "router :8000 of pd-ll"
TOKENS = 64


def request(
    index: int, concurrency: int, pace: float = 0.016, failure: FailureKind | None = None
) -> RequestTiming:
    """One of a wave of `concurrency`, a chunk a token every `pace` seconds, a little apart from the next."""
    sent = (index // concurrency) * (0.2 + pace * TOKENS)
    # Seven and three share no factor with the waves: the values are spread, and the same every time.
    first = sent + 0.3 + 0.02 * (index * 7 % 11)
    chunks = tuple(first + pace * number * (1 + 0.02 * (index * 3 % 7)) for number in range(TOKENS))
    if failure is not None:
        return RequestTiming(index=index, sent=sent, chunks=chunks[:3], ended=chunks[2], failure=failure)
    return RequestTiming(
        index=index,
        sent=sent,
        chunks=chunks,
        ended=chunks[-1],
        prompt_tokens=1024,
        completion_tokens=TOKENS,
        finish_reason="length",
        status=200,
    )


def requests(
    concurrency: int, count: int, pace: float = 0.016, failures: Sequence[FailureKind] = ()
) -> tuple[RequestTiming, ...]:
    """So many; the first of them fail."""
    kinds = [*failures, *([None] * count)]
    return tuple(request(index, concurrency, pace, kinds[index]) for index in range(count))


def result(
    id: str = "0123456789ab",
    *,
    concurrency: int = 16,
    count: int = 96,
    pace: float = 0.016,
    failures: Sequence[FailureKind] = (),
    at: float = NOW,
    context: dict[str, object] | None = None,
    limited: str | None = None,
    partial: str | None = None,
    label: str = "",
) -> BenchResult:
    """What measuring those requests comes to; `context` are fields of its context."""
    timings = requests(concurrency, count, pace, failures)
    found = figures(timings)
    known: dict[str, object] = {
        "host": "ct200",
        "profile": "pd-ll",
        "settings": {"decode flag max-running-requests": "256"},
        "verified": True,
        "versions": {"sglang": "0.5.23", "driver": "580.95.05"},
        "model": "dsv4",
        "input_tokens": 1024,
        "output_tokens": TOKENS,
        "max_concurrency": concurrency,
        "prompts": count,
        "seed": 42,
        "other_load": 0.0,
        "gpu": {
            "sm_pct": 61.0,
            "power_w": 3320.0,
            "dram_pct": 38.0,
            "clock_mhz": 2400.0,
            "energy_j": 26000.0,
        },
        "kv_transfer_gb_s": 4.2,
        "server_tokens": found.total_output_tokens,
    }
    client = Client(
        where="host",
        name="httpx 0.28.1 on Python 3.11.7",
        workers=1,
        cpu_pct=23.0,
        lag_p95_ms=0.3,
        lag_max_ms=1.5,
        limited=limited,
    )
    return BenchResult(
        id=id,
        at=at,
        series=f"s-{id}",
        label=label,
        context=msgspec.convert(known | (context or {}), Context),
        figures=found,
        client=client,
        partial=partial,
        requests=timings,
    )


def second(number: int, done: int, of: int = 96, **fields: float) -> LoadSecond:
    """One second of a load at 16."""
    told: dict[str, float] = {"chunks": 900 + 40 * (number % 5), "in_flight": 16, "failed": 0}
    told |= {"lag_ms": 0.4, "cpu_pct": 34.0}
    return msgspec.convert({"second": number, "done": done, "of": of} | told | fields, LoadSecond)


LAST = result("aaaa11112222", pace=0.0165, at=NOW - 7300)
BEST = result("bbbb33334444", pace=0.0158, at=NOW - 90_000)
ALONE = result("cccc55556666", concurrency=1, count=10, pace=0.009, at=NOW - 5000)
CUT = result("dddd77778888", pace=0.03, count=40, at=NOW - 3000, partial="aborted by me@laptop")
UNTUNED = result("eeee99990000", pace=0.024, at=NOW - 200_000, context={"profile": "pd-untuned"})
HISTORY = (CUT, ALONE, LAST, BEST, UNTUNED)
LIVE: tuple[BenchEvent, ...] = (
    BenchPhase(text="warming up", concurrency=16),
    second(-1, 4, 16),
    BenchPhase(text="measuring", concurrency=16),
    *(second(number, 4 * number) for number in range(12)),
    LoadRequests(items=requests(16, 44)),
)


class CannedRun:
    """Yields what it is told to; `fed` None ends it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[BenchEvent | ConsoleError | None] = asyncio.Queue()
        self.aborts = 0

    def feed(self, *events: BenchEvent | ConsoleError | None) -> None:
        """Yield, raise or end."""
        for event in events:
            self._queue.put_nowait(event)

    async def events(self) -> AsyncGenerator[BenchEvent, None]:
        while (event := await self._queue.get()) is not None:
            if isinstance(event, ConsoleError):
                raise event
            yield event

    def abort(self) -> str:
        self.aborts += 1
        return KEPT


class CannedBencher:
    """Every answer is an attribute that a test may set."""

    def __init__(self, results: Sequence[BenchResult] = HISTORY) -> None:
        self.results = list(results)
        self.why_not: str | None = None
        self.serving: int | None = 0
        self.warnings: tuple[str, ...] = ()
        self.failure: ConsoleError | None = None
        """Of the next plan."""
        self.history_failure: ConsoleError | None = None
        self.asked: list[BenchAsk] = []
        self.begun: list[BenchPlan] = []
        self.under_way = CannedRun()

    def refusal(self) -> str | None:
        return self.why_not

    async def plan(self, ask: BenchAsk) -> BenchPlan:
        self.asked.append(ask)
        if self.failure is not None:
            raise self.failure
        concurrency = ask.concurrency or (1, 16)
        if max(concurrency) > 1024:
            raise UsageError(f"concurrency must be from 1 to 1024, not {max(concurrency)}")
        return BenchPlan(
            ask=msgspec.structs.replace(
                ask,
                concurrency=concurrency,
                input_tokens=ask.input_tokens or 1024,
                output_tokens=ask.output_tokens or TOKENS,
                seed=41 + len(self.asked) if ask.seed is None else ask.seed,
            ),
            host="ct200",
            target=TARGET,
            url="http://127.0.0.1:8000",
            model="dsv4",
            profile="pd-ll",
            serving=self.serving,
            seconds=120.0,
            warnings=self.warnings,
        )

    def run(self, plan: BenchPlan) -> CannedRun:
        if self.why_not is not None:
            raise ReadOnly(self.why_not)
        self.begun.append(plan)
        self.under_way = CannedRun()
        return self.under_way

    async def history(
        self, *, host: str | None = None, profile: str | None = None, limit: int = 100
    ) -> tuple[BenchResult, ...]:
        if self.history_failure is not None:
            raise self.history_failure
        found = [each for each in self.results if profile in (None, each.context.profile)]
        newest = sorted(found, key=lambda each: -each.at)[:limit]
        return tuple(msgspec.structs.replace(each, requests=()) for each in newest)

    async def result(self, id: str) -> BenchResult:
        found = [each for each in self.results if each.id.startswith(id)]
        if len(found) != 1:
            raise UsageError(f"no result {id}")
        return found[0]

    async def delete(self, id: str) -> None:
        self.results.remove(await self.result(id))


def bench_console(
    feed: Feed, bencher: CannedBencher | None, glyphs: Glyphs = UNICODE, theme: str = DEFAULT_THEME
) -> ConsoleApp:
    """The console with an operator and a bencher."""
    themes = load_themes().themes
    return ConsoleApp(
        feed, themes=themes, theme=theme, glyphs=glyphs, operator=CannedOperator(), bencher=bencher
    )


class BenchSeat(Seat):
    """A console with a bencher, under test."""

    def __init__(
        self, app: ConsoleApp, pilot: Pilot[BaseException], feed: Feed, bencher: CannedBencher
    ) -> None:
        super().__init__(app, pilot, feed, CannedOperator())
        self.bencher = bencher

    async def gone(self, text: str) -> None:
        """Wait until this is no longer on the screen."""
        await self.until(lambda: text not in self.said(), f"{text!r} is still shown")


@asynccontextmanager
async def bench_seat(
    bencher: CannedBencher | None = None,
    *,
    host: HostView = UP,
    size: tuple[int, int] = (120, 40),
    glyphs: Glyphs = UNICODE,
    theme: str = DEFAULT_THEME,
) -> AsyncIterator[BenchSeat]:
    """A console of that size with the canned host and this bencher."""
    feed = Feed((*EVERYTHING, host))
    bencher = bencher or CannedBencher()
    app = bench_console(feed, bencher, glyphs, theme)
    async with app.run_test(size=size) as pilot:
        taken = BenchSeat(app, pilot, feed, bencher)
        await taken.until(lambda: feed.drained, "updates were not taken")
        await pilot.pause()
        yield taken
