"""How hard the GPUs of the deployment work, one line a role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from console.domain.gpu import GpuReport, GpuSample
from console.domain.ownership import Owner, OwnerRole

from .lines import Span
from .meter import NA, Glyphs, count, percent, sparkline
from .paragraphs import Paragraph
from .profile_list import gpus_in_words

ROLES: tuple[OwnerRole, ...] = ("single", "prefill", "decode")
ROLE_WIDTH = 8


def gpu_paragraphs(report: GpuReport, owners: Mapping[int, Owner], glyphs: Glyphs) -> list[Paragraph]:
    """`prefill  0-3  SM ▆▆▆▆ 81%  power ▆▆▆▆ 2,166 W`; a level is one GPU."""
    by_role = {role: [gpu for gpu in report.gpus if _role(gpu, owners) == role] for role in ROLES}
    return [_paragraph(role, gpus, glyphs) for role, gpus in by_role.items() if gpus]


def _role(gpu: GpuSample, owners: Mapping[int, Owner]) -> OwnerRole:
    owner = owners.get(gpu.index)
    return "unknown" if owner is None else owner.role


def _paragraph(role: OwnerRole, gpus: Sequence[GpuSample], glyphs: Glyphs) -> Paragraph:
    activity, power = _known(gpu.sm_pct for gpu in gpus), _known(gpu.power_w for gpu in gpus)
    head = (
        Span(f"{role:<{ROLE_WIDTH}} ", f"role-{role}"),
        Span("GPU ", "muted"),
        Span(gpus_in_words([gpu.index for gpu in gpus])),
        Span("  SM ", "muted"),
        Span(_levels([gpu.sm_pct for gpu in gpus], glyphs), f"spark-{role}"),
        Span(f" {percent(fmean(activity)) if activity else NA:>4}"),
        Span("  power ", "muted"),
        Span(_levels([gpu.power_share_pct for gpu in gpus], glyphs), f"spark-{role}"),
        Span(f" {count(sum(power)) if power else NA:>5} W"),
    )
    return Paragraph(head=head)


def _levels(shares: Sequence[float | None], glyphs: Glyphs) -> str:
    return sparkline(shares, len(shares), glyphs=glyphs)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
