"""Settings that are nobody's business: their values are blotted out before a profile is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from .profile import Profile, RouterSpec, ServerSpec

_Owner = TypeVar("_Owner", Profile, ServerSpec, RouterSpec)

BLOT = "********"
_SECRET = re.compile(r"api_?key|password|secret|(?:^|_)token$")


def is_secret(name: str) -> bool:
    """Is the value of this flag or variable one? `max-total-tokens` is none, `HF_TOKEN` is one."""
    return _SECRET.search(name.lower().replace("-", "_")) is not None


def blotted(profile: Profile) -> Profile:
    """The profile as it may be shown: not to be launched."""
    router = profile.router
    shown = {
        "servers": tuple(_without_secrets(server) for server in profile.servers),
        "router": router and _without_secrets(router),
    }
    return msgspec.structs.replace(_without_secrets(profile), **shown)


def _without_secrets(owner: _Owner) -> _Owner:
    """A profile, server or router, with its own flags and variables blotted."""
    tables = {name: _blotted(getattr(owner, name)) for name in ("flags", "environment")}
    return msgspec.structs.replace(owner, **tables)


def _blotted(table: Mapping[str, object]) -> dict[str, object]:
    """`false` is no value but its absence, and stays."""
    return {name: BLOT if is_secret(name) and value is not False else value for name, value in table.items()}
