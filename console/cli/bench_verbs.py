"""`dsv4-console bench …` on the command line; what its verbs do is in the modules beside."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click
import msgspec
from click.core import ParameterSource

from console.cli.options import host_options
from console.cli.target import Given

if TYPE_CHECKING:
    from console.domain.bench.benching import BenchAsk
    from console.domain.bench.run_values import Metric

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

SWEEP = "1,2,4,8,16,32"
_METRICS = ("output_throughput", "ttft", "tpot", "itl", "e2e")

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
_YES = click.option("--yes", is_flag=True, help="Do not ask.")
_COUNT = click.IntRange(1)


def _counts(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """`1,16` as (1, 16): each once, in the order given."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise click.BadParameter(f"{text!r} is no list of counts such as 1,16", context, parameter)
    return tuple(dict.fromkeys(map(int, words)))


_CONCURRENCY = click.option(
    "-c",
    "concurrency",
    metavar="C,…",
    callback=_counts,
    help="Requests in flight, a result for each. Default: the profile's.",
)


def _repeats(default: int) -> Callable[[F], F]:
    return click.option(
        "--repeats", type=_COUNT, default=default, show_default=True, metavar="N", help="How often each."
    )


_SHAPE = (
    click.option("--input", "input_tokens", type=_COUNT, metavar="N", help="Tokens of a prompt."),
    click.option(
        "--output", "output_tokens", type=click.IntRange(2), metavar="N", help="Tokens of an answer."
    ),
    click.option("--prompts", type=_COUNT, metavar="N", help="Requests at each concurrency."),
    click.option(
        "--cache",
        type=click.Choice(["nonce", "flushed", "warm"]),
        default="nonce",
        show_default=True,
        help="nonce: no two prompts begin alike; flushed: and caches are emptied; warm: one prompt for all.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0),
        metavar="N",
        help="Of the prompts: that of a result gives its prompts again. Default: new ones.",
    ),
    click.option(
        "--limit",
        "total_limit_s",
        type=click.FloatRange(min=1),
        metavar="SECONDS",
        help="Cut each measurement after so long.",
    ),
)


def ask_options(command: Callable[Concatenate[BenchAsk, P], R]) -> Callable[P, R]:
    """Give a command the options that say what is measured; it gets them as one BenchAsk."""

    @functools.wraps(command)
    def with_ask(*args: P.args, **kwargs: P.kwargs) -> R:
        from console.domain.bench.benching import BenchAsk

        fields = {name: kwargs.pop(name) for name in BenchAsk.__struct_fields__ if name in kwargs}
        return command(msgspec.convert(fields, BenchAsk), *args, **kwargs)

    decorated: Callable[P, R] = with_ask
    for option in reversed(_SHAPE):
        decorated = option(decorated)
    return decorated


def _ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from console.cli.bench_history import known_ids

    return known_ids(incomplete)


def _profiles(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from console.cli.profiles import names

    return [name for name in names() if name.startswith(incomplete)]


@click.group("bench", invoke_without_command=True)
@host_options
@ask_options
@_CONCURRENCY
@_repeats(1)
@_YES
@_JSON
def bench(ask: BenchAsk, given: Given, yes: bool, as_json: bool) -> None:
    """Measure what runs, or look at what was measured.

    Exit codes: 0 measured, 1 it was cut off or nothing succeeded, 3 nothing is ready, 4 host unreachable,
    130 interrupted (what was measured is kept).
    """
    context = click.get_current_context()
    context.obj = given
    if context.invoked_subcommand is None:
        _measure(given, ask, yes=yes, as_json=as_json, chart=False)
    for name in context.params.keys() - set(Given.__struct_fields__):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"options of {context.invoked_subcommand} go after it", context)


@bench.command(short_help="Measure at several concurrencies.")
@host_options
@ask_options
@_repeats(1)
@click.option(
    "-c",
    "concurrency",
    metavar="C,…",
    callback=_counts,
    default=SWEEP,
    show_default=True,
    help="Requests in flight, a result for each.",
)
@_YES
@_JSON
def sweep(ask: BenchAsk, given: Given, yes: bool, as_json: bool) -> None:
    """Measure at several concurrencies, with a chart of throughput against latency."""
    _measure(given, ask, yes=yes, as_json=as_json, chart=True)


def _measure(given: Given, ask: BenchAsk, *, yes: bool, as_json: bool, chart: bool) -> None:
    from console.cli.bench import BenchWish, measure

    sys.exit(measure(given, ask, BenchWish(yes=yes, as_json=as_json, chart=chart)))


@bench.command(short_help="Launch, measure and compare two profiles.")
@host_options
@ask_options
@_CONCURRENCY
@_repeats(3)
@click.option("--confirm", metavar="NAME", help="The name of a protected host.")
@click.option("--end", "end_pids", metavar="PID", type=int, multiple=True, help="As of switch.")
@_YES
@_JSON
@click.argument("profile_a", metavar="PROFILE_A", shell_complete=_profiles)
@click.argument("profile_b", metavar="PROFILE_B", shell_complete=_profiles)
def ab(
    ask: BenchAsk,
    given: Given,
    confirm: str | None,
    end_pids: tuple[int, ...],
    yes: bool,
    as_json: bool,
    profile_a: str,
    profile_b: str,
) -> None:
    """Launch and measure two profiles in turn, A B B A …, compare them, and run again what ran before.

    Exit code 1 when that was cut short, when they cannot be compared, or when what ran before runs no more.
    """
    from console.cli.bench_ab import compare_profiles
    from console.cli.wish import Wish

    wish = Wish(yes=yes, as_json=as_json, end_pids=end_pids, confirm=confirm)
    sys.exit(compare_profiles(given, profile_a, profile_b, ask, wish))


@bench.command("list")
@host_options
@click.option("--profile", metavar="NAME", help="Only results of this profile.", shell_complete=_profiles)
@click.option("--limit", metavar="N", default=20, show_default=True, type=_COUNT, help="How many.")
@_JSON
def list_(given: Given, profile: str | None, limit: int, as_json: bool) -> None:
    """Results, the newest first; with --host of that host alone."""
    from console.cli.bench_history import list_results

    sys.exit(list_results(given, profile, limit, as_json=as_json))


@bench.command(short_help="All of one result, or of a series.")
@host_options
@click.argument("id", metavar="ID", shell_complete=_ids)
@_JSON
def show(given: Given, id: str, as_json: bool) -> None:
    """All of one result, by the beginning of its id; of a series, all of its results."""
    from console.cli.bench_history import show_results

    sys.exit(show_results(id, as_json=as_json))


@bench.command()
@host_options
@click.argument("a", metavar="A", shell_complete=_ids)
@click.argument("b", metavar="B", shell_complete=_ids)
@click.option("--anyway", is_flag=True, help="Also what cannot be compared, without a verdict.")
@click.option(
    "--metric", "metrics", type=click.Choice(_METRICS), multiple=True, help="Only this; once for each."
)
@_JSON
def compare(given: Given, a: str, b: str, anyway: bool, metrics: tuple[Metric, ...], as_json: bool) -> None:
    """Is B faster than A? Each a result or a series. Exit code 1 when they cannot be compared."""
    from console.cli.bench_compare import compare_results

    sys.exit(compare_results(a, b, metrics, anyway=anyway, as_json=as_json))


@bench.command()
@host_options
@click.argument("id", metavar="ID", shell_complete=_ids)
@_YES
def delete(given: Given, id: str, yes: bool) -> None:
    """Forget one result for good."""
    from console.cli.bench_history import delete_result

    sys.exit(delete_result(id, yes=yes))


@bench.command(short_help="Write results to stdout.")
@host_options
@click.argument("ids", metavar="[ID]…", nargs=-1, shell_complete=_ids)
@click.option("--jsonl", "form", flag_value="jsonl", default="jsonl", help="As sglang's client writes it.")
@click.option("--csv", "form", flag_value="csv", help="For a spreadsheet.")
@click.option("--details", is_flag=True, help="With the times of every request (JSONL).")
def export(given: Given, ids: tuple[str, ...], form: str, details: bool) -> None:
    """Write results to stdout, the oldest first; all of them where none is named."""
    from console.cli.bench_files import export_results

    sys.exit(export_results(given, ids, as_csv=form == "csv", details=details))


@bench.command("import", short_help="Take in results of sglang's client.")
@host_options
@click.argument("file", metavar="FILE|-", type=click.Path(path_type=Path, allow_dash=True))
def import_(given: Given, file: Path) -> None:
    """Take in results that sglang's client (or export) wrote as JSONL: all of the file, or nothing."""
    from console.cli.bench_files import import_results

    sys.exit(import_results(given, file))
