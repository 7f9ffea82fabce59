"""The servers of the host: one line each, state first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from console.domain.server_view import ServerView

from .line_view import LineView
from .lines import Line, Span, fit, fit_line, joined, width_of
from .meter import NA, Glyphs, duration, percent, rate

NONE_FOUND = "No SGLang server runs on this host."

DETAIL_WIDTH = 28
"""Least cells for what a server does, before its age, pid and version may have any."""

WORDS = {
    "unknown": "starting",
    "capturing graphs": "capturing",
    "ready": "READY",
    "degraded": "DEGRADED",
    "stalled": "STALLED",
    "failed": "FAILED",
    "crashed": "CRASHED",
}
"""How a phase is said where its own name is too long or too quiet."""
ALARMING = ("degraded", "stalled")


class ServerPanel(LineView):
    """Shows servers in the order given."""

    DEFAULT_CSS = """
    ServerPanel { height: auto; }
    """

    _views: tuple[ServerView, ...] = ()
    _now: float | None = None
    _nothing = NONE_FOUND

    def update_servers(
        self, views: Sequence[ServerView], now: float | None, nothing: str = NONE_FOUND
    ) -> None:
        """Show the servers; `now` is the host's clock, `nothing` what to say when there are none."""
        self._views, self._now, self._nothing = tuple(views), now, nothing
        self.redraw()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        if not self._views:
            return [fit_line((Span(self.glyphs.safe(self._nothing), "muted"),), width, self.glyphs)]
        return server_lines(self._views, self._now, width, self.glyphs)


class Texts(NamedTuple):
    """What a line says of a server besides its state, in fields that are as wide on every line."""

    load: str
    age: str
    pid: str
    rates: str
    version: str


BY_RANK = ("age", "pid", "rates", "version")
"""Fields by importance: where it is narrow the last goes first."""


def server_lines(views: Sequence[ServerView], now: float | None, width: int, glyphs: Glyphs) -> list[Line]:
    """One line a server."""
    texts = _aligned([_texts(view, now, glyphs) for view in views])
    word_width = max(8, *(len(_word(view)) for view in views))
    heads = [_head(view, word_width, glyphs) for view in views]
    kept = _kept(texts[0], width - width_of(heads[0]))
    return [
        _line(head, view, _only(text, kept), width, glyphs)
        for head, view, text in zip(heads, views, texts, strict=True)
    ]


def _line(head: Line, view: ServerView, texts: Texts, width: int, glyphs: Glyphs) -> Line:
    loads = [(Span(text),) for text in (texts.load, texts.rates) if text.strip()]
    said = joined([*_reason(view, glyphs), *loads, *_notes(view, glyphs)])
    identity = [text for text in (texts.age, texts.pid, texts.version) if text]
    tail = tuple(Span(f"  {text}", "muted") for text in identity)
    room = width - width_of(head) - width_of(tail)
    # Why a server does not serve is worth more than its pid.
    if view.reason and width_of(said) > room:
        return fit_line((*head, *said), width, glyphs)
    return fit_line((*head, *fit_line(said, max(room, 0), glyphs), *tail), width, glyphs)


def _word(view: ServerView) -> str:
    phase = view.phase or view.state
    return WORDS.get(phase, phase)


def _head(view: ServerView, word_width: int, glyphs: Glyphs) -> Line:
    process = view.process
    alarming = view.phase in ALARMING
    sign: str = "!" if alarming else getattr(glyphs, view.state)
    return (
        Span(f"{sign} {_word(view):<{word_width}} ", "warning" if alarming else f"state-{view.state}"),
        Span(f"{process.role:<7} ", f"role-{process.role}"),
        Span(f"{'' if process.port is None else f':{process.port}':<6}  "),
    )


def _texts(view: ServerView, now: float | None, glyphs: Glyphs) -> Texts:
    process = view.process
    return Texts(
        load=_load(view) if view.state == "ready" else "",
        age=(NA if now is None else duration(now - process.start_time)).rjust(6),
        pid=f"pid {process.pid}",
        rates=_rates(view) if view.state == "ready" else "",
        version=glyphs.safe(process.version or ""),
    )


def _aligned(rows: Sequence[Texts]) -> list[Texts]:
    columns = [[fit(text, max(map(len, texts))) for text in texts] for texts in zip(*rows, strict=True)]
    return [Texts(*row) for row in zip(*columns, strict=True)]


def _kept(texts: Texts, room: int) -> set[str]:
    room -= max(len(texts.load), DETAIL_WIDTH)
    kept = set()
    for name in BY_RANK:
        needed = len(getattr(texts, name)) + 2
        if 2 < needed <= room:
            room -= needed
            kept.add(name)
    return kept


def _only(texts: Texts, kept: set[str]) -> Texts:
    return texts._replace(**{name: "" for name in BY_RANK if name not in kept})


def _reason(view: ServerView, glyphs: Glyphs) -> list[Line]:
    return [(Span(glyphs.safe(view.reason)),)] if view.reason else []


def _notes(view: ServerView, glyphs: Glyphs) -> list[Line]:
    toned = ((view.health_note, "warning"), (view.metrics_note, "muted"), (view.log_note, "muted"))
    return [(Span(glyphs.safe(note), tone),) for note, tone in toned if note]


def _load(view: ServerView) -> str:
    if view.process.role == "router":
        return f"{view.workers or NA} workers"
    if view.metrics_note and view.running is None:
        return ""
    return f"run {_whole(view.running):>3}  queue {_whole(view.queued):>2}  kv {percent(view.kv_pct):>4}"


def _rates(view: ServerView) -> str:
    rates = (("gen", view.gen_tok_s), ("prompt", view.prompt_tok_s))
    return "  ".join(f"{name} {rate(value):>6} tok/s" for name, value in rates if value is not None)


def _whole(value: int | None) -> str:
    return NA if value is None else str(value)
