"""What a plan is about to do, in a few lines, and whose servers it ends."""

from __future__ import annotations

from collections.abc import Iterator

from console.domain.host_view import HostView
from console.domain.plan import Plan, Target

from .lines import Span
from .paragraphs import Paragraph
from .profile_list import gpus_in_words

WARNS = (Span("! ", "warning"),)


def plan_heading(plan: Plan, host: HostView, interrupted: str | None) -> Iterator[Paragraph]:
    """Host and verb, the consequence, and what is out of the ordinary."""
    address = f" ({host.address})" if host.address and host.address != host.name else ""
    title = plan.title
    yield Paragraph(f"{title[:1].upper()}{title[1:]} on {host.name}{address}", "strong")
    yield Paragraph(plan.consequence)
    if interrupted is not None:
        yield Paragraph(interrupted, "warning", head=WARNS)
    if plan.foreign:
        names = ", ".join(target.name for target in plan.foreign)
        yield Paragraph(f"No console launched {names}: that is asked once more.", "warning", head=WARNS)


def foreign_paragraphs(plan: Plan) -> Iterator[Paragraph]:
    """Every process that somebody else launched and that the plan ends."""
    yield Paragraph("No console launched these; somebody may need them:")
    for target in plan.foreign:
        yield Paragraph(_named(target), head=(Span("  ! ", "warning"),))


def _named(target: Target) -> str:
    """`decode :30001: pid 41873 41931, port 30001, GPUs 4-7, of mallory`."""
    pids = " ".join(map(str, target.pids))
    port = "no port" if target.port is None else f"port {target.port}"
    gpus = f", GPUs {gpus_in_words(target.gpus)}" if target.gpus else ""
    owner = target.owner or "a user who cannot be read"
    return f"{target.name}: pid {pids}, {port}{gpus}, of {owner}"
