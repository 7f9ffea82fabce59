"""The environment that a server is launched with: the login's own, without what would tune it unasked."""

from __future__ import annotations

import os
from typing import Mapping, Sequence

TUNING_PREFIXES = ("NCCL_", "SGLANG_", "SGL_", "UCX_", "NIXL_", "OMP_", "PYTORCH_")
TUNING_NAMES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
LOGIN_LC_ALL = "DSV4_LOGIN_LC_ALL"
"""LC_ALL as it was before start_agent.sh set it to C for the agent; empty where it was not set."""
RUN = "DSV4_RUN"
"""The token of a run: its id, in the environment of everything that it starts."""


def tuning_names(environment: Mapping[str, str]) -> list[str]:
    """The variables that would tune a server behind its profile's back, sorted."""
    return sorted(name for name in environment if name.startswith(TUNING_PREFIXES) or name in TUNING_NAMES)


def launch_environment(
    login: Mapping[str, str], run: str, argv: Sequence[str], profile: Mapping[str, str]
) -> dict[str, str]:
    """What the process of a run gets, from the agent's own environment and that of the profile."""
    environment = dict(login)
    for name in tuning_names(login):
        del environment[name]
    restore_locale(environment)
    environment.update(given(login, run, argv, profile))
    return environment


def restore_locale(environment: dict[str, str]) -> None:
    """Undo what start_agent.sh did to LC_ALL."""
    before = environment.pop(LOGIN_LC_ALL, None)
    if before:
        environment["LC_ALL"] = before
    elif before is not None:
        environment.pop("LC_ALL", None)


def given(
    login: Mapping[str, str], run: str, argv: Sequence[str], profile: Mapping[str, str]
) -> dict[str, str]:
    """What is set whatever the login says. The Python's own folder goes first: SGLang runs tools by name."""
    folder = os.path.dirname(argv[0])
    path = login.get("PATH", os.defpath)
    return {"PATH": f"{folder}:{path}" if folder else path, RUN: run, **profile}
