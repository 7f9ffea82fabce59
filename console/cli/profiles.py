"""`dsv4-console profiles list|show|check|diff`: profiles without a screen, and without a host."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from console.cli.operator import profile_folders
from console.cli.target import Given
from console.domain.errors import ProfileError, UsageError
from console.domain.launch import Launch, in_shell, launches
from console.domain.plan import log_of
from console.domain.profile import Expectation, Profile
from console.domain.profile_diff import SettingChange, Sign, as_lines, differences
from console.domain.secrets import BLOT, blotted, is_secret
from console.domain.sglang_flags import NEWEST_KNOWN, FlagNote
from console.domain.version import allows, parse_version
from console.profiles import Folders, Profiles, for_host, load_profile, load_profiles
from console.settings import shipped_folder

DONE, WRONG = 0, 2
PYTHON = "python3"
"""Stands for the host's own Python, which only its settings know."""
_COLOURS: dict[Sign, str] = {"-": "red", "+": "green"}


def names() -> list[str]:
    """The names of all profiles, for completion in a shell; none where they cannot be listed."""
    try:
        return sorted(profile_folders().names())
    except ProfileError:
        return []


def list_profiles(given: Given, *, as_json: bool) -> int:
    """Print a line or an object for each; those that cannot be used go to stderr."""
    found = _asked_for(given, load_profiles(profile_folders()))
    for error in found.errors:
        print(f"dsv4-console: {error}", file=sys.stderr)
    listed = list(found.profiles.values())
    if as_json:
        _print_json([_entry(profile) for profile in listed])
    else:
        print("\n".join(_table(listed)))
    return DONE


def show_profile(name: str, version: str | None, *, as_json: bool) -> int:
    """Print all of one. Raises UsageError."""
    version = _known(version)
    profile = blotted(load_profile(name, profile_folders()))
    found = launches(profile, PYTHON, version)
    if as_json:
        shown = [{**msgspec.to_builtins(each), "shell": in_shell(each, log_of(each))} for each in found]
        _print_json({**msgspec.to_builtins(profile), "sglang": version, "launches": shown})
    else:
        print("\n".join([*_head(profile), *_commands(profile, found, version)]))
    return DONE


def check_profiles(asked: Sequence[str], version: str | None, *, as_json: bool) -> int:
    """Print what is to be said of each, of all where none is named. Raises UsageError."""
    wanted = version and _known(version)
    folders = profile_folders()
    checks = [_check(name, folders, wanted) for name in asked or sorted(folders.names())]
    for error in filter(None, (check["error"] for check in checks)):
        print(f"dsv4-console: {error}", file=sys.stderr)
    if as_json:
        _print_json(checks)
    else:
        for check in checks:
            _print_check(check)
    return WRONG if any(check["error"] for check in checks) else DONE


def diff_profiles(old: str, new: str, version: str | None, *, as_json: bool) -> int:
    """Print what differs. Raises UsageError."""
    version, folders = _known(version), profile_folders()
    found = differences(load_profile(old, folders), load_profile(new, folders), version)
    changes = [_without_secret(change) for change in found]
    if as_json:
        shown = [msgspec.to_builtins(change) for change in changes]
        _print_json({"old": old, "new": new, "sglang": version, "changes": shown})
    elif changes:
        _print_diff(changes)
    else:
        print(f"{old} and {new} launch the same.")
    return DONE


def _known(version: str | None) -> str:
    """The version asked for, else the newest one. Raises UsageError."""
    if version is not None and parse_version(version) is None:
        raise UsageError(f"{version!r} is no version of SGLang", next_step=f"write it as {NEWEST_KNOWN}")
    return version or NEWEST_KNOWN


def _asked_for(given: Given, found: Profiles) -> Profiles:
    demo = given.demo or given.host == "demo"
    return for_host(found, demo) if demo or given.host else found


def _entry(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "title": profile.title,
        "kind": profile.kind,
        "gpus": profile.gpus,
        "experimental": profile.known_failure is not None,
        "known_failure": profile.known_failure,
        "requires": profile.requires,
        "file": profile.file,
    }


def _table(listed: Sequence[Profile]) -> Iterator[str]:
    shipped = str(shipped_folder("profiles"))
    rows = [("NAME", "KIND", "GPUS", "TITLE")]
    rows += [(each.name, each.kind, _ranges(each.gpus), _title(each, shipped)) for each in listed]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _title(profile: Profile, shipped: str) -> str:
    """With what must be known of it: that it is known to fail, and a file that is the user's."""
    notes = ["known to fail"] if profile.known_failure else []
    notes += [] if profile.file.startswith(shipped) else [profile.file]
    return f"{profile.title} [{', '.join(notes)}]" if notes else profile.title


def _ranges(indices: Sequence[int]) -> str:
    """`0-3,6` for (0, 1, 2, 3, 6); `CPU` for none."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs) or "CPU"


def _head(profile: Profile) -> Iterator[str]:
    yield f"{profile.name}: {profile.title}"
    yield from _field("why", profile.why)
    yield from _field("known failure", profile.known_failure)
    yield from _field("source", profile.source)
    yield from _field("file", profile.file)
    yield from _field("kind", f"{profile.kind}, GPUs {_ranges(profile.gpus)}")
    yield from _field("model", profile.model)
    yield from _field("requires", f"SGLang {profile.requires}" if profile.requires else "")
    yield from _field(
        "ready", f"within {profile.limits.ceiling_s:g} s, progress every {profile.limits.stall_s:g} s"
    )
    yield from _expected("all servers", profile.expect)
    for server in profile.servers:
        yield from _expected(server.name, server.expect)
    yield from _field("benchmark", _bench(profile))


def _field(name: str, text: str | None) -> Iterator[str]:
    if text:
        yield f"  {name:<14}{text}"


def _expected(whose: str, expect: Expectation) -> Iterator[str]:
    texts = [f"/server_info says {name} = {value}" for name, value in expect.server_info.items()]
    texts += [f'the log says "{text}"' for text in expect.log]
    texts += [f'the log never says "{text}"' for text in expect.log_never]
    texts += [f"graphs captured up to batch {expect.largest_graph}"] if expect.largest_graph else []
    for text in texts:
        yield from _field("must be true", f"{whose}: {text}")


def _bench(profile: Profile) -> str:
    bench = profile.bench
    wanted = [f"{rate:g} tok/s at C={requests}" for requests, rate in bench.targets.items()]
    concurrency = ",".join(map(str, bench.concurrency))
    shape = f"{bench.input_tokens} tokens in, {bench.output_tokens} out, C={concurrency}"
    return f"{shape}; wanted: {', '.join(wanted)}" if wanted else shape


def _commands(profile: Profile, found: Sequence[Launch], version: str) -> Iterator[str]:
    yield ""
    yield f"On SGLang {version}:"
    if allows(profile.requires, version) is False:
        yield f"  (it is for SGLang {profile.requires}, and would be refused there)"
    if profile.python is None:
        yield f"  ({PYTHON} stands for the host's own Python)"
    for launch in found:
        yield ""
        yield f"{launch.name} :{launch.port}" + (f" on GPUs {_ranges(launch.gpus)}" if launch.gpus else "")
        yield from (f"  {note.text}" for note in launch.notes)
        yield f"  {in_shell(launch, log_of(launch))}"


def _check(name: str, folders: Folders, wanted: str | None) -> dict[str, Any]:
    """What is to be said of one profile; `wanted` is the version that it must be for, None: any."""
    try:
        profile = load_profile(name, folders)
    except ProfileError as error:
        return {"name": name, "file": error.where or None, "error": str(error), "notes": []}
    found = launches(profile, PYTHON, wanted or NEWEST_KNOWN)
    notes = [_note(launch.name, note) for launch in found for note in launch.notes]
    wrong = wanted is not None and allows(profile.requires, wanted) is False
    misfit = f"{profile.file}: it is for SGLang {profile.requires}, not {wanted}"
    return {
        "name": profile.name,
        "file": profile.file,
        "error": misfit if wrong else None,
        "notes": notes,
    }


def _note(server: str, note: FlagNote) -> dict[str, Any]:
    return {"server": server, **msgspec.to_builtins(note)}


def _print_check(check: dict[str, Any]) -> None:
    print(f"{check['name']}: {'refused' if check['error'] else 'consistent'}")
    for note in check["notes"]:
        print(f"  {note['server']}: {note['text']}")


def _without_secret(change: SettingChange) -> SettingChange:
    """That a key differs may be told, and not how."""
    if not is_secret(change.name):
        return change
    before, after = (None if value is None else BLOT for value in (change.before, change.after))
    return msgspec.structs.replace(change, before=before, after=after)


def _print_diff(changes: Sequence[SettingChange]) -> None:
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for sign, text in as_lines(changes):
        line = f"{sign} {text}".strip() if sign == " " else f"{sign} {text}"
        print(click.style(line, fg=_COLOURS.get(sign)) if coloured else line)


def _print_json(content: object) -> None:
    sys.stdout.write(msgspec.json.encode(content).decode() + "\n")
