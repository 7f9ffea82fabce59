"""What a profile is, and how it differs from the one that runs: a diff with signs."""

from __future__ import annotations

from collections.abc import Iterator

from console.domain.operating import ProfileEntry
from console.domain.profile import Profile
from console.domain.profile_diff import as_lines, differences

from .lines import Span
from .meter import Glyphs
from .paragraphs import Paragraph
from .profile_list import EXPERIMENTAL, gpus_in_words, last_tone, last_words

TONES = {"+": "added", "-": "removed", " ": ""}
LABEL_WIDTH = 8


def profile_paragraphs(
    entry: ProfileEntry | None, running: Profile | None, now: float, glyphs: Glyphs
) -> list[Paragraph]:
    """Everything about one entry of the list."""
    if entry is None:
        return []
    if entry.profile is None:
        head = (Span(f"{glyphs.failed} ", "state-failed"),)
        return [
            Paragraph(f"{entry.name} cannot be used", "state-failed", head=head),
            Paragraph(entry.error or "it cannot be read"),
        ]
    last = _labelled("last", last_words(entry.last, now), last_tone(entry.last))
    return [*_about(entry.profile), last, Paragraph(), *_difference(entry, entry.profile, running)]


def _about(profile: Profile) -> Iterator[Paragraph]:
    yield Paragraph(profile.title, "strong")
    count = len(profile.servers)
    servers = f"{count} servers" if count > 1 else "1 server"
    where = f"GPUs {gpus_in_words(profile.gpus)}" if profile.gpus else "the CPU"
    yield Paragraph(f"{profile.name}: {profile.kind}, {servers} on {where}", "muted")
    yield _labelled("why", profile.why)
    yield _labelled("source", profile.source)
    if profile.requires:
        yield _labelled("needs", f"SGLang {profile.requires}")
    if profile.known_failure:
        head = (Span(f"! {EXPERIMENTAL}  ", "warning"),)
        yield Paragraph(profile.known_failure, "warning", head=head, indent=LABEL_WIDTH)


def _labelled(label: str, text: str, tone: str = "") -> Paragraph:
    return Paragraph(text, tone, head=(Span(label.ljust(LABEL_WIDTH), "muted"),))


def _difference(entry: ProfileEntry, profile: Profile, running: Profile | None) -> Iterator[Paragraph]:
    if entry.running:
        yield Paragraph("This is what runs.", "state-ready")
        return
    if running is None:
        yield Paragraph("Nothing runs that was launched from a profile: no difference to show.", "muted")
        return
    lines = as_lines(differences(running, profile))
    said = "Difference to" if lines else "No difference to"
    yield Paragraph(f"{said} {running.name}, which runs", "strong")
    for sign, text in lines:
        yield Paragraph(text, TONES[sign], head=(Span(f"{sign} ", TONES[sign]),))
