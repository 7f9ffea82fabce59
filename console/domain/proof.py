"""Whether a request went all the way: what came back for it, and what the servers counted meanwhile.

See counter_moves.py for which counters move, when and where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from .counter_moves import Counted, Move, move_between, total
from .exposition import read_page
from .profile import Profile
from .readiness import Health

_SELECTIONS = "smg_worker_selection_total"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for the request."""

    seconds: float
    status: int | None = None
    """None: no answer."""
    silent: bool = False
    """There was none within the limit."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None
    """The code and words of the body of another status than 200, or why there is no answer."""


class RouterLook(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the router: what it says of itself and its workers. None is what it does not say."""

    state: Health = "unknown"
    note: str | None = None
    prefill: int | None = None
    decode: int | None = None
    regular: int | None = None
    unhealthy: tuple[str, ...] = ()
    """URLs."""
    open_breakers: int | None = None
    """Workers that it sends nothing to for now."""
    sent: Mapping[str, float] = {}
    """Requests that it chose a worker for, by the worker's role; empty when it does not say."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The whole deployment at one instant."""

    servers: Mapping[str, Counted]
    """By name in the profile."""
    router: RouterLook | None = None
    """None where the profile has none."""


class Judgement(NamedTuple):
    """Whether the request went all the way, in one sentence."""

    passed: bool
    sentence: str


def hindrance(look: Look, profile: Profile) -> str | None:
    """Why a request would not go all the way, so that none need be sent; None: nothing speaks against it."""
    for name, counted in look.servers.items():
        if counted.refused:
            return f"{name} is not there: {counted.note}"
    router = look.router
    if router is None:
        return None
    if router.state != "green":
        breakers = f"; {_breakers(router)}: restart the router first" if router.open_breakers else ""
        return f"the router is not ready: {router.note or router.state}{breakers}"
    if router.unhealthy:
        return f"the router calls {', '.join(router.unhealthy)} unhealthy"
    count = len(profile.servers)
    wanted = (1, 1, 0) if profile.kind == "pd" else (0, 0, count)
    seen = (router.prefill, router.decode, router.regular)
    if None not in seen and seen != wanted:
        return f"the router has {_workers(*seen)} instead of {_workers(*wanted)}"
    return None


def sent_by_role(page: str) -> dict[str, float]:
    """Requests by the role of the worker, on a router's page of metrics."""
    sent: dict[str, float] = {}
    for sample in read_page(page, frozenset({_SELECTIONS})).samples:
        role = sample.labels.get("worker_type", "")
        sent[role] = sent.get(role, 0.0) + sample.value
    return sent


def judge(before: Look, after: Look, answer: Answer, profile: Profile, page: int) -> Judgement:
    """The verdict on a request between two looks. `page` is the size in tokens that its prompt must exceed.

    A verdict that fails on counters may be early: they can move after the answer.
    """
    names = [server.name for server in profile.servers]
    moves = {name: move_between(name, before.servers[name], after.servers[name]) for name in names}
    failure = (
        _unanswered(
            answer, before, after, {name: move.of_request(page) for name, move in moves.items()}, profile
        )
        or _too_short(answer, page)
        or _against(moves, profile, answer, page)
    )
    if failure:
        return Judgement(False, failure)
    tokens = f"{answer.prompt_tokens} prompt and {answer.completion_tokens} new tokens"
    parts = [f"{tokens} {_way(profile)} in {answer.seconds:.1f} s", *_seen(moves, profile)]
    return Judgement(True, "; ".join(parts))


def _unanswered(
    answer: Answer, before: Look, after: Look, moves: Mapping[str, Move], profile: Profile
) -> str | None:
    if answer.silent:
        return _silence(answer, before, after, moves, profile)
    if answer.status is None:
        return f"no answer {_way(profile)}: {answer.error}"
    said = f"{answer.status}" + (f" {answer.error}" if answer.error else "")
    if answer.status >= 500:
        fault = _routers_fault(before.router, after.router)
        return f"{_who(profile)} answers {said}" + (fault or f"{_although(after, profile)}{_advice(profile)}")
    if answer.status != 200:
        return f"{_who(profile)} refuses the request: {said}"
    return answer.error


def _silence(answer: Answer, before: Look, after: Look, moves: Mapping[str, Move], profile: Profile) -> str:
    said = f"no answer {_way(profile)}"
    if not any(move.generated or move.generated is None for move in _generators(moves, profile)):
        said = f"no token {_way(profile)}"
    said = f"{said} within {answer.seconds:.0f} s"
    facts = ", ".join(map(str, moves.values()))
    if blame := _routers_fault(before.router, after.router):
        return f"{said} ({facts}){blame}"
    return f"{said}{_although(after, profile)} ({facts}){_advice(profile)}"


def _routers_fault(before: RouterLook | None, after: RouterLook | None) -> str | None:
    """A router that sends to one role alone: nothing reaches the other, however healthy it is."""
    if before is None or after is None:
        return None
    if after.open_breakers:
        return f": {_breakers(after)} in the router: restart the router first"
    sent = {role: count - before.sent.get(role, 0.0) for role, count in after.sent.items()}
    roles = {role for role, count in sent.items() if count}
    if len(roles) == 1 and roles <= {"prefill", "decode"}:
        return f": the router sent it to {roles.pop()} alone: restart the router first"
    return None


def _although(after: Look, profile: Profile) -> str:
    router = after.router
    if router is None or router.state != "green" or router.unhealthy:
        return ""
    roles = "both roles" if profile.kind == "pd" else "all servers"
    return f" although the router says that {roles} are healthy"


def _advice(profile: Profile) -> str:
    if profile.kind == "pd":
        return ": the pair is broken, restart both"
    return ": restart the deployment"


def _too_short(answer: Answer, page: int) -> str | None:
    if answer.completion_tokens is None or answer.prompt_tokens is None:
        return "the answer does not count its tokens"
    if answer.completion_tokens < 2:
        return f"too few tokens came ({answer.completion_tokens}): one can be prefill's alone"
    if answer.prompt_tokens <= page:
        return f"the prompt had {answer.prompt_tokens} tokens, which is not more than a page of {page}"
    return None


def _against(moves: Mapping[str, Move], profile: Profile, answer: Answer, page: int) -> str | None:
    """What the counters say against an answer that looks right."""
    for move in moves.values():
        if move.restarted:
            return f"{move.name} was restarted meanwhile"
        if move.failures:
            return f"an answer came, but {_transfers(move.failures)} failed at {move.name}"
    if profile.kind == "pd":
        return _against_pair(moves["prefill"], moves["decode"], answer, page)
    counting = [move for move in moves.values() if move.note is None]
    if len(counting) == len(moves) and all(_is_behind(move, page) for move in counting):
        return f"an answer came, but no counter moved as it should: {', '.join(map(str, counting))}"
    return None


def _is_behind(move: Move, page: int) -> bool:
    computed = move.prompt is None or move.prompt > page
    return not computed or move.generated == 0


def _against_pair(prefill: Move, decode: Move, answer: Answer, page: int) -> str | None:
    if prefill.prompt is not None and prefill.prompt <= page:
        return f"an answer came, but prefill computed {prefill.prompt:.0f} of {answer.prompt_tokens} tokens"
    if decode.generated == 0:
        return "an answer came, but decode generated nothing"
    if total(prefill.transfers, decode.transfers) == 0:
        return "an answer came, but no KV transfer was counted"
    return None


def _seen(moves: Mapping[str, Move], profile: Profile) -> Iterator[str]:
    """What the counters say for it, and what they do not say."""
    yield ", ".join(map(str, moves.values()))
    if profile.kind != "pd":
        return
    count = total(*(move.transfers for move in moves.values()))
    if count is not None:
        size = total(*(move.transferred_mb for move in moves.values()))
        megabytes = "" if size is None else f" of {size:.1f} MB"
        yield f"{_transfers(count)}{megabytes}, no failure counted"
    elif all(move.note is None for move in moves.values()):
        yield "KV transfers are not counted by this version"


def _transfers(count: float) -> str:
    return f"{count:.0f} KV {'transfer' if count == 1 else 'transfers'}"


def _generators(moves: Mapping[str, Move], profile: Profile) -> list[Move]:
    return [moves["decode"]] if profile.kind == "pd" else list(moves.values())


def _way(profile: Profile) -> str:
    return "through the router" if profile.router else "from the server"


def _who(profile: Profile) -> str:
    return "the router" if profile.router else "the server"


def _workers(prefill: int | None, decode: int | None, regular: int | None) -> str:
    if prefill or decode:
        return f"{prefill} prefill + {decode} decode" + (f" + {regular} regular" if regular else "")
    return f"{regular} regular workers"


def _breakers(router: RouterLook) -> str:
    count = router.open_breakers
    return f"{count} circuit {'breaker is' if count == 1 else 'breakers are'} open"
