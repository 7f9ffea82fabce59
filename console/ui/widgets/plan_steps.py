"""The steps of a plan: before it runs with their commands, while it runs with their state."""

from __future__ import annotations

from collections.abc import Iterator

from console.domain.plan import Plan, Step

from .lines import Line, Span
from .meter import Glyphs
from .paragraphs import Paragraph
from .progress import Progress, StepState, stretch

TONES = {
    "waiting": "muted",
    "running": "state-starting",
    "done": "state-ready",
    "failed": "state-failed",
    "skipped": "state-gone",
}
INDENT = 4
STATE_INDENT = 6


def planned(plan: Plan) -> list[Paragraph]:
    """What will be done: each step with its limit, what it waits for and its commands."""
    found = []
    for number, step in enumerate(plan.steps, 1):
        tail = (Span(f"at most {stretch(step.limit_s)}", "muted"),)
        found.append(Paragraph(step.title, head=(_number(number),), tail=tail))
        found += _explained(step)
    return found


def _explained(step: Step) -> Iterator[Paragraph]:
    indent = (Span(" " * INDENT),)
    yield Paragraph(f"waits for {step.waits_for}", "muted", head=indent)
    if step.kind == "launch":
        for launch in step.launches:
            for note in launch.notes:
                yield Paragraph(
                    f"{launch.name}: {note.text}", "warning", head=(*indent, Span("! ", "warning"))
                )
    for command in step.commands:
        yield Paragraph(command, head=(*indent, Span("$ ", "muted")), indent=INDENT + 4)


def carried_out(progress: Progress, now: float, glyphs: Glyphs) -> list[Paragraph]:
    """How it goes: each step with its state in a word, the step under way with what it says."""
    found = []
    for number, step in enumerate(progress.steps, 1):
        found.append(_state(number, step, _words(step, progress, now), glyphs))
        found += _said(step)
    return found


def _words(step: StepState, progress: Progress, now: float) -> str:
    return "not begun" if step.state == "waiting" and not progress.running else state_words(step, now)


def _state(number: int, step: StepState, words: str, glyphs: Glyphs) -> Paragraph:
    sign = {
        "waiting": " ",
        "running": glyphs.starting,
        "done": glyphs.ready,
        "failed": glyphs.failed,
        "skipped": glyphs.gone,
    }[step.state]
    tone = TONES[step.state]
    head: Line = (Span(f"{sign} ", tone), _number(number))
    text_tone = {"waiting": "muted", "running": "strong"}.get(step.state, "")
    return Paragraph(step.title, text_tone, head=head, tail=(Span(words, tone),))


def steps_title(plan: Plan, progress: Progress | None, now: float) -> str:
    """`12 steps`, `5 of 12 steps done, 1m30s`."""
    if progress is None:
        return f"{len(plan.steps)} steps, and the commands that would do the same by hand"
    ended = sum(step.state in ("done", "skipped") for step in progress.steps)
    return f"{ended} of {len(progress.steps)} steps done, {stretch(progress.elapsed(now))}"


def is_step(paragraph: Paragraph, index: int | None) -> bool:
    """Whether a paragraph of `carried_out` is the title of that step."""
    return index is not None and len(paragraph.head) == 2 and paragraph.head[1] == _number(index + 1)


def _number(number: int) -> Span:
    return Span(f"{number:>2}  ", "muted")


def state_words(step: StepState, now: float) -> str:
    """`running 4.0 s of 1m`, `done in 6.1 s`."""
    took = stretch(step.elapsed(now))
    match step.state:
        case "running":
            return f"running {took}" + (f" of {stretch(step.limit_s)}" if step.limit_s else "")
        case "done":
            return f"done in {took}"
        case "failed":
            return f"failed after {took}"
    return step.state


def _said(step: StepState) -> Iterator[Paragraph]:
    indent = (Span(" " * STATE_INDENT),)
    if step.state in ("running", "failed"):
        for text in step.said:
            yield Paragraph(text, "muted", head=indent)
    if step.text:
        yield Paragraph(step.text, "state-failed" if step.state == "failed" else "muted", head=indent)
