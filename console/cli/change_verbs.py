"""The verbs that change a host: switch, restart, stop."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click
import msgspec

from console.cli.options import host_options
from console.cli.target import Given

if TYPE_CHECKING:
    from console.cli.change import MakePlan
    from console.cli.wish import Wish

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS = (
    click.option("--dry-run", is_flag=True, help="Print the plan, its checks and commands; change nothing."),
    click.option("--yes", is_flag=True, help="Do not ask."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end."),
    click.option(
        "--end",
        "end_pids",
        metavar="PID",
        type=int,
        multiple=True,
        help="A server that was not launched from here may be ended; once for each.",
    ),
    click.option("--confirm", metavar="NAME", help="The name of a protected host."),
)


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from console.cli.profiles import names

    return [name for name in names() if name.startswith(incomplete)]


def change_options(command: Callable[Concatenate[Wish, P], R]) -> Callable[P, R]:
    """Give a command the options of changes; it gets them as one Wish."""

    @functools.wraps(command)
    def with_wish(*args: P.args, **kwargs: P.kwargs) -> R:
        from console.cli.wish import Wish

        fields = {name: kwargs.pop(name) for name in Wish.__struct_fields__ if name in kwargs}
        return command(msgspec.convert(fields, Wish), *args, **kwargs)

    decorated: Callable[P, R] = with_wish
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


@click.command(short_help="Launch a profile in the place of what runs.")
@host_options
@change_options
@click.option("--rollback", is_flag=True, help="When it fails, go back to the last verified profile.")
@click.argument("profile", shell_complete=_names)
def switch(wish: Wish, given: Given, profile: str) -> None:
    """Launch PROFILE in the place of what runs: checked before, proven and compared after."""
    _change(given, lambda operator: operator.switch_plan(profile), wish)


@click.command(short_help="Launch the deployment anew, all of its roles.")
@host_options
@change_options
def restart(wish: Wish, given: Given) -> None:
    """Launch the deployment anew, all of its roles; or finish a plan that was interrupted."""
    _change(given, lambda operator: operator.restart_plan(), wish)


@click.command(short_help="End the deployment.")
@host_options
@change_options
def stop(wish: Wish, given: Given) -> None:
    """End the deployment, or where there is none every server, and see that nothing of it is left."""
    _change(given, lambda operator: operator.stop_plan(), wish)


def _change(given: Given, make: MakePlan, wish: Wish) -> None:
    from console.cli.change import change

    sys.exit(change(given, make, wish))
