"""`dsv4-console explain FILE|-`: a saved log, told as what happened, why, and what to do next."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec

from console.cli.target import Given
from console.domain.errors import UsageError
from console.domain.incident import Incident
from console.domain.logline import LogLine
from console.domain.printable import printable
from console.domain.server import Role
from console.domain.timeline import Entry, RunStory, Story
from console.services.explain import Explainer, advice, ending, record, summary
from console.settings import load_settings

CHUNK = 1 << 20
SHOWN = 200
"""Characters of a log line that are quoted."""
SHOWN_LINES = 12
"""Of a traceback: its first line and its last ones."""


def explain_log(given: Given, source: str, role: Role | None, *, as_json: bool) -> int:
    """Print the explanation; returns the exit code.

    Raises UsageError when the file cannot be read, SettingsError.
    """
    patterns = load_settings(given.config).log_patterns
    explainer = Explainer(role, [pattern.line_pattern for pattern in patterns])
    name = "stdin" if source == "-" else printable(source)
    for lines in _settled(source, name, explainer):
        if as_json:
            _print_records(lines)
    story = explainer.story()
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode({"summary": summary(story)}) + b"\n")
        sys.stdout.buffer.flush()
    else:
        for text in told(name, story, explainer):
            print(text)
    return 0


def _settled(source: str, name: str, explainer: Explainer) -> Iterator[list[LogLine]]:
    try:
        with nullcontext(sys.stdin.buffer) if source == "-" else open(source, "rb") as file:
            for data in _chunks(file):
                yield explainer.feed(data)
    except OSError as error:
        cause = error.strerror or str(error)
        raise UsageError(
            f"{name} cannot be read", cause=cause, next_step="give a log file, or - for stdin"
        ) from error
    yield explainer.end()


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while data := file.read(CHUNK):
        yield data


def _print_records(lines: list[LogLine]) -> None:
    encode = msgspec.json.Encoder().encode_lines
    sys.stdout.buffer.write(encode([record(line) for line in lines]))


def told(name: str, story: Story, explainer: Explainer) -> Iterator[str]:
    """The story for people."""
    if not story.last.last:
        yield f"{name}: empty"
        return
    runs = len(story.runs) + story.earlier_runs
    yield f"{name}: {_counted(story.last.last, 'line')}, {_counted(runs, 'run')}"
    if story.earlier_runs:
        yield f"The first {story.earlier_runs} runs are not shown."
    for run in story.runs:
        yield ""
        yield from _run(run)
        note = ending(run, unfinished=explainer.unfinished)
        yield from [note] if note else []
        yield f"Next: {advice(run)}."


def _run(run: RunStory) -> Iterator[str]:
    state, reason, _ = run.conclusion
    yield f"{run.role or 'server'}, lines {run.first}-{run.last}, {_span(run)}: {state.upper()}"
    half = len(run.entries) // 2
    clock = _clock(run)
    for index, entry in enumerate(run.entries):
        if run.left_out and index == half:
            yield f"  … {run.left_out} more"
        yield _entry(entry, clock)
    if run.incident is not None:
        yield from _cause(run.incident, over=state in ("failed", "crashed"))
    elif reason and state in ("failed", "crashed", "unknown"):
        yield f"{_capitalised(reason)}."


def _span(run: RunStory) -> str:
    if run.first_at is None or run.last_at is None:
        return "without dates"
    begin, end = _moment(run.first_at), _moment(run.last_at)
    last = f"{end:%H:%M:%S}" if begin.date() == end.date() else f"{end:%Y-%m-%d %H:%M:%S}"
    return f"{begin:%Y-%m-%d %H:%M:%S} to {last}"


def _clock(run: RunStory) -> str:
    """The format of times: with the day where a run has seen more than one."""
    days = {int(at // 86_400) for at in (run.first_at, run.last_at) if at is not None}
    return "%m-%d %H:%M:%S" if len(days) > 1 else "%H:%M:%S"


def _entry(entry: Entry, clock: str) -> str:
    time = "" if entry.at is None else _moment(entry.at).strftime(clock)
    return f"  {time:8}  line {entry.number:<7} {entry.word:<16} {_cut(entry.text)}".rstrip()


def _moment(at: float) -> datetime:
    """The log's clock has no zone, and neither has what is shown."""
    return datetime.fromtimestamp(at, UTC)


def _cause(incident: Incident, *, over: bool) -> Iterator[str]:
    cause = incident.cause
    title = "First cause" if over else "Not resolved"
    yield f"{title}: {cause.sentence if cause else 'not a known one'}"
    lines = incident.lines
    if len(lines) > SHOWN_LINES:
        lines = (lines[0], *lines[-SHOWN_LINES + 1 :])
    for line in lines:
        if line.text.strip():
            yield f"  {line.number:>7}  {_cut(line.text)}"
    for consequence in incident.consequences:
        times = "once" if consequence.count == 1 else f"{consequence.count:,} times"
        yield f"  then {times}, from line {consequence.first.number}: {_cut(consequence.first.text)}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
