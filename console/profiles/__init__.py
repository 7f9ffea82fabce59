"""profiles/*.toml as `Profile` values: the shipped ones and the user's.

A file is named after its profile and has the keys of `Profile` and of the tables in it, whose manual are the
strings in console/domain/profile.py; each server is a table [servers.NAME]. Beside them:

    extends = "pd-untuned"            What this file leaves out comes from there; tables merge key by key.
    extends = ["pd-untuned", "_ll"]   Of several, a later one goes before an earlier one.
    [variables]                       NAME = "text" stands where another value has $NAME or ${NAME}.

A user's file takes the place of the shipped one of its name, also where others extend that name; within
itself the name means the shipped one. A file whose name begins with _ is only there to be extended.

A variable whose name begins with DSV4_ may also be set in the console's own environment, which goes before
the files: paths differ from host to host. No other is looked for there, for $HOME here is not $HOME on the
host. `$$` is a dollar. A text that becomes a whole number by its variables is that number, so that ports may
be given in this way too.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from console.domain.errors import ProfileError
from console.domain.profile import Profile
from console.domain.profile_problems import problems

from .draft import Draft, error_at, nearest


class Folders(NamedTuple):
    """Where profiles are looked for."""

    shipped: Path
    user: Path | None = None

    def find(self, name: str, asked_by: Path | None = None) -> Path | None:
        """The file of that name, the user's first. To a file that bears the name, it means the other one."""
        places = (folder / f"{name}.toml" for folder in (self.user, self.shipped) if folder)
        return next((file for file in places if file != asked_by and os.path.lexists(file)), None)

    def names(self) -> set[str]:
        """The names of all profiles. Raises ProfileError."""
        return {name for folder in self if folder for name in _names_in(folder)}


class Profiles(NamedTuple):
    """What was found. A profile that cannot be used is no profile but an error, even where one is shipped."""

    profiles: dict[str, Profile]
    errors: tuple[ProfileError, ...]


def load_profiles(folders: Folders) -> Profiles:
    """All profiles by name, in the order of the names, and an error for each that is refused."""
    profiles: dict[str, Profile] = {}
    names: set[str] = set()
    errors: list[ProfileError] = []
    for folder in filter(None, folders):
        with _collected(errors):
            names |= _names_in(folder)
    for name in sorted(names):
        with _collected(errors):
            profiles[name] = load_profile(name, folders)
    return Profiles(profiles, tuple(errors))


def for_host(found: Profiles, demo: bool) -> Profiles:
    """Those that can run on the host: on the demo host its own, elsewhere all others. Errors stay."""
    profiles = found.profiles.items()
    return found._replace(profiles={name: each for name, each in profiles if is_demo(name) == demo})


def is_demo(name: str) -> bool:
    """Is it, by its name, a profile of simulated servers?"""
    return name.startswith("demo-")


def load_profile(name: str, folders: Folders) -> Profile:
    """The profile of that name, or in that file when it is written as a path. Raises ProfileError."""
    if "/" in name or name.endswith(".toml"):
        return _loaded(Path(name), folders)
    file = folders.find(name)
    if file is None:
        raise ProfileError(f"no profile {name!r}", next_step=nearest(name, sorted(folders.names() - {name})))
    return _loaded(file, folders)


@contextmanager
def _collected(errors: list[ProfileError]) -> Iterator[None]:
    try:
        yield
    except ProfileError as error:
        errors.append(error)


def _names_in(folder: Path) -> set[str]:
    """Names of the profiles in a folder, files that are only there to be extended left out."""
    try:
        files = [file for file in folder.iterdir() if file.suffix == ".toml"]
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise ProfileError("cannot be listed", where=str(folder), cause=str(error.strerror)) from error
    return {file.stem for file in files if not file.stem.startswith("_")}


def _loaded(file: Path, folders: Folders) -> Profile:
    if not file.stem.isprintable():
        raise ProfileError("the file's name holds control characters", where=repr(str(file)))
    draft = Draft(file)
    layers: dict[Path, dict[str, Any]] = {}
    _collect(file, folders, layers)
    for layer, table in layers.items():
        draft.lay(table, layer)
    draft.expand()
    profile = draft.converted()
    if found := problems(profile):
        raise ProfileError("; ".join(found), where=str(file), next_step="correct that file")
    return profile


def _collect(
    file: Path, folders: Folders, layers: dict[Path, dict[str, Any]], below: tuple[Path, ...] = ()
) -> None:
    """Read a file and what it extends into `layers`, the extended ones first, each file once."""
    if file in below:
        raise error_at(file, ("extends",), "comes back to this file", "break the circle")
    if file in layers:
        return
    table = _read(file)
    for name in _extended(table.pop("extends", []), file):
        base = folders.find(name, asked_by=file)
        if base is None:
            others = sorted(folders.names() - {name})
            raise error_at(file, ("extends",), f"no profile {name!r}", nearest(name, others))
        _collect(base, folders, layers, (*below, file))
    layers[file] = table


def _extended(value: object, file: Path) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise error_at(file, ("extends",), "expected the name of a profile, or an array of names")
    return names


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ProfileError("cannot be read", where=str(file), cause=str(error.strerror)) from error
    except (ValueError, RecursionError) as error:  # TOML, UTF-8, and arrays in arrays without end
        raise ProfileError(f"not TOML: {error}", where=str(file), next_step="correct that line") from error
