"""The Python on the host, the packages in it, and what its SGLang says to the flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console.domain.host_facts import FlagCheck, FlagChecks, HostFacts, PythonFact
from console.domain.launch import Launch
from console.domain.profile import Profile, server_flags
from console.domain.sglang_flags import FlagNote, current_name
from console.domain.version import allows

from .check import Check, ok, refusal, warning


def check_python(profile: Profile, path: str, facts: HostFacts) -> Iterator[Check]:
    """It runs, and holds an SGLang that the profile is for."""
    python = facts.pythons.get(path)
    if python is None or not python.usable:
        yield refusal(
            "python",
            f"{path} cannot be run on the host",
            f"correct `python` in {profile.file}, or of the host in config.toml",
        )
        return
    yield _sglang(profile, python)
    yield from _companions(profile, python)


def _sglang(profile: Profile, python: PythonFact) -> Check:
    version = _installed(python, "sglang")
    if version is None:
        return _not_installed("sglang", "SGLang", python)
    found = f"SGLang {version} in {python.path}"
    fits = allows(profile.requires, version)
    if fits is False:
        return refusal(
            "sglang",
            f"{found}; the profile is for {profile.requires}",
            f"install a version that fits, or change `requires` in {profile.file}",
        )
    if fits is None and profile.requires:
        return warning("sglang", f"{found}, which cannot be compared with {profile.requires}")
    return ok("sglang", found)


def _companions(profile: Profile, python: PythonFact) -> Iterator[Check]:
    """Packages that only some profiles need."""
    if profile.router:
        yield _companion("sglang-router", "the router", python)
    if profile.kind == "pd" and _transfer(profile) == "nixl":
        yield _companion("nixl", "NIXL", python)


def _transfer(profile: Profile) -> object:
    """By what KV moves; both roles agree on it, or the profile is refused for that."""
    flags = server_flags(profile, profile.servers[0])
    return {current_name(flag): value for flag, value in flags.items()}.get("disaggregation-transfer-backend")


def _companion(package: str, title: str, python: PythonFact) -> Check:
    version = _installed(python, package)
    return ok(package, f"{package} {version}") if version else _not_installed(package, title, python)


def _installed(python: PythonFact, package: str) -> str | None:
    # NIXL's wheels are also called after their CUDA: nixl-cu12, nixl-cu13.
    return next(
        (
            version
            for name, version in python.packages.items()
            if name.replace("_", "-") == package or (package == "nixl" and name.startswith("nixl-cu"))
        ),
        None,
    )


def _not_installed(package: str, title: str, python: PythonFact) -> Check:
    return refusal(
        package, f"{title} is not installed in {python.path}", f"{python.path} -m pip install {package}"
    )


def check_flags(launches: Sequence[Launch], flags: FlagChecks) -> Iterator[Check]:
    """`flags.lines` answers for the launches in their order; the router, which comes last, may be left out.

    What is true of several servers is told once.
    """
    servers = [launch for launch in launches if launch.role != "router"]
    if len(flags.lines) < len(servers):
        yield refusal(
            "flags",
            f"cannot be checked: {flags.note or 'the parser of its SGLang did not answer'}",
            "see that this SGLang starts at all: run its command line with --help on the host",
        )
        return
    found: dict[Check, list[str]] = {}
    for launch, line in zip(launches, flags.lines, strict=False):
        for check in _flags_of(launch, line):
            found.setdefault(check, []).append(launch.name)
    for check, names in found.items():
        subject = f"flags of {' and '.join(names)}"
        yield Check(subject=subject, outcome=check.outcome, sentence=check.sentence, next=check.next)


def _flags_of(launch: Launch, line: FlagCheck) -> Iterator[Check]:
    if line.refused is None:
        yield ok("flags", "taken by the parser of the host's own version")
    else:
        yield refusal("flags", line.refused, "correct them in the profile")
    for note in launch.notes:
        yield _note(note)
    for text in line.warnings:
        yield warning("flags", text)


def _note(note: FlagNote) -> Check:
    return ok("flags", note.text) if note.kind == "renamed" else warning("flags", note.text)
