"""The proof of a deployment: one real request all the way, between two looks at everybody's counters."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from console.domain.counter_moves import Counted
from console.domain.metrics import Reading, parse_reading, parse_router_reading
from console.domain.profile import Profile, RouterSpec
from console.domain.proof import Answer, Judgement, Look, RouterLook, hindrance, judge, sent_by_role
from console.domain.run_record import Proof
from console.remote.sglang import MetricsPage, Readiness, SglangClient

_T = TypeVar("_T")

NEW_TOKENS = 16
LOOK_S = 5.0
"""The longest look, at most a quarter of the limit. Measured: 0.02 to 0.3 s on a busy CPU."""
SETTLE_S = 5.0
"""Until counters have followed the answer. Measured: 0.1 s."""
_TOKENS_A_SENTENCE = 6
"""At least, of ` 12 plus 13 is 25.`; the byte-level tokenizer of the CPU's model makes 18 of it."""


async def prove(
    client: SglangClient,
    profile: Profile,
    wall: Callable[[], float],
    limit_s: float = 60.0,
    page: int = 256,
    poll_s: float = 0.2,
) -> Proof:
    """Send a request through the entry of the deployment and see that it went all the way.

    `wall` gives seconds since the epoch on the host's clock. All of it ends within `limit_s`. `page` is the
    size in tokens of a page of KV, which the prompt exceeds. Never raises: what went wrong is the proof's
    sentence.
    """
    clock = asyncio.get_running_loop().time
    end, look_s = clock() + limit_s, min(LOOK_S, limit_s / 4)
    before = await _look(client, profile, look_s)
    if reason := hindrance(before, profile):
        return Proof(passed=False, at=wall(), sentence=reason)
    answer = await client.complete(
        _entry_port(profile), _prompt(page), NEW_TOKENS, end - look_s - clock(), profile.api_key
    )
    end = min(end, clock() + SETTLE_S)
    while True:
        after = await _look(client, profile, min(look_s, max(end - clock(), 0.1)))
        judgement = judge(before, after, answer, profile, page)
        if judgement.passed or answer.status != 200 or clock() >= end:
            return _proof(judgement, answer, wall())
        await asyncio.sleep(poll_s)


def _proof(judgement: Judgement, answer: Answer, at: float) -> Proof:
    return Proof(
        passed=judgement.passed,
        at=at,
        seconds=answer.seconds if answer.completion_tokens else None,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        sentence=judgement.sentence,
    )


def _entry_port(profile: Profile) -> int:
    return profile.router.port if profile.router else profile.servers[0].port


def _prompt(page: int) -> str:
    """Longer than a page by half, and new from its first token on, so that no prefix cache has any of it."""
    count = page * 3 // 2 // _TOKENS_A_SENTENCE
    return secrets.token_hex(8) + "".join(f" {n} plus {n + 1} is {2 * n + 1}." for n in range(10, 10 + count))


async def _look(client: SglangClient, profile: Profile, limit_s: float) -> Look:
    names = [server.name for server in profile.servers]
    pages = [_within(client.metrics(server.port), limit_s) for server in profile.servers]
    servers, router = await asyncio.gather(
        asyncio.gather(*pages), _router_look(client, profile.router, limit_s)
    )
    return Look(servers=dict(zip(names, map(_counted, servers), strict=True)), router=router)


def _counted(page: MetricsPage | None) -> Counted:
    if page is None:
        return Counted(note="no page of metrics in time")
    if page.text is None:
        return Counted(note=page.note, refused=page.refused)
    reading = parse_reading(page.text, at=0.0)
    if reading == Reading(at=0.0, note=reading.note):
        return Counted(note=reading.note or "a page without SGLang's counters")
    return Counted(reading=reading)


async def _router_look(client: SglangClient, router: RouterSpec | None, limit_s: float) -> RouterLook | None:
    if router is None:
        return None
    said, workers, page = await asyncio.gather(
        _within(client.readiness(router.port), limit_s),
        _within(client.workers(router.port), limit_s),
        _within(client.metrics(router.metrics_port), limit_s),
    )
    said = said or Readiness(state="silent", note="it does not answer")
    text = page.text if page and page.text else ""
    look = RouterLook(
        state=said.state,
        note=said.note,
        open_breakers=parse_router_reading(text, at=0.0).open_breakers,
        sent=sent_by_role(text),
    )
    if workers is None:
        return look
    return msgspec.structs.replace(
        look,
        prefill=workers.prefill,
        decode=workers.decode,
        regular=workers.regular,
        unhealthy=workers.unhealthy,
    )


async def _within(asked: Awaitable[_T], limit_s: float) -> _T | None:
    try:
        async with asyncio.timeout(limit_s):
            return await asked
    except TimeoutError:
        return None
