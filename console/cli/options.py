"""The options that every verb takes, before it or after it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click
import msgspec

from console.cli.target import Given

NAMES = Given.__struct_fields__
P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS = (
    click.option("--host", metavar="NAME", help="A host of config.toml, a name of ~/.ssh/config, or local."),
    click.option("--demo", is_flag=True, help="A simulated 8-GPU host behind a real SSH server."),
    click.option("--readonly", is_flag=True, help="Refuse everything that would change the host."),
    click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Another config.toml."),
)


def host_options(command: Callable[Concatenate[Given, P], R]) -> Callable[P, R]:
    """Give a command the host options; it gets them as one `Given`, completed by those before the verb."""

    @functools.wraps(command)
    def with_given(*args: P.args, **kwargs: P.kwargs) -> R:
        given = msgspec.convert({name: kwargs.pop(name) for name in NAMES}, Given)
        context = click.get_current_context()
        outer = context.parent.obj if context.parent is not None else None
        if isinstance(outer, Given):
            given = given.over(outer)
        return command(given, *args, **kwargs)

    decorated: Callable[P, R] = with_given
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
