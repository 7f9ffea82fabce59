"""`dsv4-console profiles …` on the command line; what its verbs do is in console.cli.profiles."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem

from console.cli.options import host_options
from console.cli.target import Given

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_VERSION = click.option(
    "--sglang",
    "version",
    metavar="VERSION",
    help="As this version of SGLang takes it; else the newest known.",
)


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of profiles, or files where the word is none of them."""
    from console.cli.profiles import names

    found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


@click.group("profiles", short_help="Descriptions of deployments.")
@host_options
def profiles(given: Given) -> None:
    """Descriptions of deployments: what there is, what each launches, what is wrong, how two differ."""
    click.get_current_context().obj = given


@profiles.command("list")
@host_options
@_JSON
def list_(given: Given, as_json: bool) -> None:
    """All profiles. With --demo those of the demo host, with --host those for another."""
    from console.cli.profiles import list_profiles

    sys.exit(list_profiles(given, as_json=as_json))


@profiles.command()
@host_options
@click.argument("profile", metavar="NAME|FILE", shell_complete=_names)
@_VERSION
@_JSON
def show(given: Given, profile: str, version: str | None, as_json: bool) -> None:
    """All of one profile, and the commands that it stands for."""
    from console.cli.profiles import show_profile

    sys.exit(show_profile(profile, version, as_json=as_json))


@profiles.command(short_help="Can these profiles be used, or all of them?")
@host_options
@click.argument("profiles", metavar="[NAME|FILE]…", nargs=-1, shell_complete=_names)
@_VERSION
@_JSON
def check(given: Given, profiles: tuple[str, ...], version: str | None, as_json: bool) -> None:
    """Can these profiles be used, or all of them? Exit code 2 when one cannot."""
    from console.cli.profiles import check_profiles

    sys.exit(check_profiles(profiles, version, as_json=as_json))


@profiles.command()
@host_options
@click.argument("old", metavar="OLD", shell_complete=_names)
@click.argument("new", metavar="NEW", shell_complete=_names)
@_VERSION
@_JSON
def diff(given: Given, old: str, new: str, version: str | None, as_json: bool) -> None:
    """What would change from profile OLD to profile NEW."""
    from console.cli.profiles import diff_profiles

    sys.exit(diff_profiles(old, new, version, as_json=as_json))
