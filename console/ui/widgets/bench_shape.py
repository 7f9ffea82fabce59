"""What is sent, in words, and the fields of it that a person may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import msgspec

from console.domain.bench.benching import BenchAsk, BenchPlan, Cache
from console.domain.errors import UsageError

from .bench_progress import requests_at
from .progress import stretch

CACHES: tuple[Cache, ...] = get_args(Cache)
CACHE_WORDS = {
    "nonce": "no two prompts begin alike, so no prefix cache serves them",
    "flushed": "caches are emptied before, and no two prompts begin alike",
    "warm": "the prefix cache serves them, on purpose",
}


class Field(NamedTuple):
    """One field of a BenchAsk."""

    name: str
    label: str
    explained: str


FIELDS = (
    Field("concurrency", "concurrency", "requests in flight; 1,4,16 make a sweep"),
    Field("prompts", "requests", "at each concurrency; empty: six rounds, 10 at least"),
    Field("input_tokens", "input tokens", "of each request"),
    Field("output_tokens", "output tokens", "of each request, whatever the model would say"),
    Field("cache", "cache", "enter: the next of nonce, flushed, warm"),
    Field("repeats", "repeats", "of the whole: 3 make a comparison believable"),
    Field("seed", "seed", "a cache may know the prompts of one used before"),
)


def load_words(ask: BenchAsk) -> str:
    """`16 requests at a time, 96 in all`, `1, 16 requests at a time in turn, 106 in all`."""
    loads = ask.concurrency or ()
    unit = "request" if loads == (1,) else "requests"
    turns = " in turn" if len(loads) > 1 else ""
    total = sum(requests_at(ask, each) for each in loads)
    times = "" if ask.repeats == 1 else f", {ask.repeats} times over"
    return f"{', '.join(map(str, loads))} {unit} at a time{turns}, {total:,} in all{times}"


def plan_words(plan: BenchPlan) -> str:
    """The load and about how long it takes."""
    long = "how long is not known" if plan.seconds is None else about(plan.seconds)
    return f"{load_words(plan.ask)}, {long}"


def about(seconds: float) -> str:
    """`about 38 s`, `about 2m`: to the second, for it is an estimate."""
    whole = max(1, round(seconds))
    return f"about {whole} s" if whole < 60 else f"about {stretch(whole)}"


def concurrencies(values: Sequence[int] | None) -> str:
    """`C=1`, `C=1, 4, 16`."""
    return f"C={', '.join(map(str, values or ()))}"


def value_of(ask: BenchAsk, field: Field) -> str:
    """A field as it would be typed; empty for one that is left to the default."""
    value = getattr(ask, field.name)
    if value is None:
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def shown_value(plan: BenchPlan, field: Field) -> str:
    """The same, with the defaults filled in."""
    if field.name == "prompts" and plan.ask.prompts is None:
        return ", ".join(str(requests_at(plan.ask, each)) for each in plan.ask.concurrency or ())
    return value_of(plan.ask, field).replace(",", ", ")


def changed(ask: BenchAsk, field: Field, typed: str) -> BenchAsk:
    """With another value; an empty one asks for the default. Raises UsageError."""
    default = getattr(BenchAsk(), field.name)
    if not typed.strip():
        return msgspec.structs.replace(ask, **{field.name: default})
    if field.name == "cache":
        if typed not in CACHES:
            raise UsageError(f"cache is one of {', '.join(CACHES)}")
        return msgspec.structs.replace(ask, cache=typed)
    numbers = _numbers(field, typed)
    value = tuple(dict.fromkeys(numbers)) if field.name == "concurrency" else numbers[0]
    return msgspec.structs.replace(ask, **{field.name: value})


def _numbers(field: Field, typed: str) -> list[int]:
    several = field.name == "concurrency"
    words = typed.replace(",", " ").split() if several else [typed.strip()]
    least = 0 if field.name == "seed" else 1
    # isdecimal alone takes digits of every script, which int() takes too.
    if not words or not all(word.isascii() and word.isdecimal() and int(word) >= least for word in words):
        wanted = "whole numbers from 1, as 1,4,16" if several else f"a whole number from {least}"
        raise UsageError(f"{field.label}: {wanted}")
    return [int(word) for word in words]


def next_cache(cache: Cache) -> Cache:
    """The one after it."""
    return CACHES[(CACHES.index(cache) + 1) % len(CACHES)]
