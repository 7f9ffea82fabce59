"""The command line. A verb is imported when it is called, so that no first paint waits for another."""

from __future__ import annotations

import io
import sys

import click

from console import __version__
from console.cli.bench_verbs import bench
from console.cli.change_verbs import restart, stop, switch
from console.cli.options import host_options
from console.cli.profiles_group import profiles
from console.cli.target import Given
from console.domain.errors import ConsoleError
from console.domain.server import Role

INTERRUPTED = 130


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@host_options
@click.version_option(__version__, "-V", "--version", prog_name="dsv4-console")
@click.option(
    "--reset-terminal", is_flag=True, help="Put a terminal right that a killed console left behind."
)
def cli(given: Given, reset_terminal: bool) -> None:
    """Watch and run DeepSeek-V4-Flash on SGLang over SSH.

    Without a verb the console opens. Exit codes: 0 done, 1 failed, 2 usage or settings, 3 not running or not
    ready, 4 host unreachable, 130 interrupted.
    """
    context = click.get_current_context()
    context.obj = given
    if reset_terminal:
        from console.cli.reset_terminal import reset_terminal as reset

        reset()
    elif context.invoked_subcommand is None:
        from console.cli.view import view

        view(given)


@cli.command()
@host_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(given: Given, as_json: bool) -> None:
    """One snapshot: GPUs, servers, throughput. Exit code 3 when nothing is ready."""
    from console.cli.status import show_status

    sys.exit(show_status(given, as_json))


@cli.command(short_help="The log of one server.")
@host_options
@click.argument("role", metavar="ROLE")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on.")
@click.option(
    "-n",
    "--lines",
    metavar="N",
    default=2000,
    show_default=True,
    type=click.IntRange(0, 50_000),
    help="How far back.",
)
@click.option(
    "--class",
    "classes",
    metavar="CLASS,…",
    default="",
    help="Only lines of these classes: ready, error, fatal, warning, benign, stats, progress, config, plain.",
)
def logs(given: Given, role: str, follow: bool, lines: int, classes: str) -> None:
    """The log of the server with this ROLE: single, prefill, decode or router (or its port)."""
    from console.cli.logs import chosen_classes, show_logs

    only = chosen_classes(classes)
    sys.exit(show_logs(given, role, follow=follow, lines=lines, only=only))


@cli.command(short_help="What was done to hosts from this machine.")
@host_options
@click.option("--limit", metavar="N", default=50, show_default=True, type=click.IntRange(1), help="How many.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line, with steps and commands."
)
def journal(given: Given, limit: int, as_json: bool) -> None:
    """What was done to hosts from this machine, newest first; with --host to that host alone."""
    from console.cli.journal import show_journal

    sys.exit(show_journal(given, limit, as_json=as_json))


@cli.command()
@host_options
@click.argument("file", metavar="FILE|-")
@click.option(
    "--role",
    type=click.Choice(["single", "prefill", "decode", "router"]),
    help="What wrote the log, where it does not say so itself.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line of FILE, then a summary.")
def explain(given: Given, file: str, role: Role | None, as_json: bool) -> None:
    """A saved log: what happened, the first cause, what to do next."""
    from console.cli.explain import explain_log

    sys.exit(explain_log(given, file, role, as_json=as_json))


for verb in (profiles, switch, restart, stop, bench):
    cli.add_command(verb)


def main() -> None:
    """The entry point: errors become one sentence on stderr and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Where the locale is not UTF-8, a character that it lacks is no reason to say nothing.
            stream.reconfigure(errors="replace")
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except ConsoleError as error:
        print(f"dsv4-console: {error}", file=sys.stderr)
        code = error.exit_code
    except BrokenPipeError:
        # The reader (head, less) has what it wanted; python would complain once more at exit.
        sys.stderr.close()
        code = 0
    sys.exit(code)
