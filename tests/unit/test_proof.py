"""The proof: when a request counts as having gone all the way, and what is said when it did not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from console.domain.counter_moves import Counted
from console.domain.metrics import Reading
from console.domain.profile import Profile, RouterSpec, ServerSpec
from console.domain.proof import Answer, Judgement, Look, RouterLook, hindrance, judge, sent_by_role
from console.remote.sglang import SglangClient
from console.services.proving import prove

SINGLE = Profile(
    name="one",
    file="one.toml",
    title="",
    why="",
    source="",
    kind="single",
    model="/m",
    servers=(ServerSpec(name="main", port=30000, nccl_port=31000),),
)
ROUTER = RouterSpec(port=8000, metrics_port=29000)
PAIR = msgspec.structs.replace(
    SINGLE,
    kind="pd",
    servers=(
        ServerSpec(name="prefill", port=30000, nccl_port=31000, bootstrap_port=8998),
        ServerSpec(name="decode", port=30001, nccl_port=31001),
    ),
    router=ROUTER,
)
REPLICAS = msgspec.structs.replace(
    SINGLE,
    kind="replicas",
    servers=(
        ServerSpec(name="a", port=30000, nccl_port=31000),
        ServerSpec(name="b", port=30001, nccl_port=31001),
    ),
    router=ROUTER,
)
READY = RouterLook(state="green", prefill=1, decode=1, regular=0, open_breakers=0)
ANSWER = Answer(seconds=0.7, status=200, prompt_tokens=1028, completion_tokens=16)
SILENCE = Answer(seconds=60.0, silent=True, error="no answer from port 8000 within 60 s")


def counted(**fields: float) -> Counted:
    return Counted(reading=Reading(at=0.0, **fields))


def pair_look(prefill: Counted, decode: Counted, router: RouterLook = READY) -> Look:
    return Look(servers={"prefill": prefill, "decode": decode}, router=router)


BEFORE = pair_look(counted(prompt_tokens=6.0), counted(gen_tokens=7.0))
"""As after the start: a warm-up and two health checks."""
MOVED = pair_look(counted(prompt_tokens=1034.0, transfers=1.0, transferred_mb=1.0), counted(gen_tokens=22.0))


def judged(before: Look, after: Look, answer: Answer = ANSWER, profile: Profile = PAIR) -> Judgement:
    return judge(before, after, answer, profile, page=256)


class TestPair:
    def test_an_answer_and_both_roles_moved(self) -> None:
        assert judged(BEFORE, MOVED) == (
            True,
            "1028 prompt and 16 new tokens through the router in 0.7 s; prefill computed 1028 tokens, decode "
            "generated 15 tokens; 1 KV transfer of 1.0 MB, no failure counted",
        )

    @pytest.mark.parametrize(
        ("after", "sentence"),
        [
            (
                # A health check's token is no prompt.
                pair_look(counted(prompt_tokens=7.0, transfers=1.0), MOVED.servers["decode"]),
                "an answer came, but prefill computed 1 of 1028 tokens",
            ),
            (
                pair_look(MOVED.servers["prefill"], counted(gen_tokens=7.0)),
                "an answer came, but decode generated nothing",
            ),
            (
                pair_look(counted(prompt_tokens=1034.0, transfers=0.0), MOVED.servers["decode"]),
                "an answer came, but no KV transfer was counted",
            ),
            (
                pair_look(
                    counted(prompt_tokens=1034.0, transfers=1.0, transfer_failures=1.0),
                    MOVED.servers["decode"],
                ),
                "an answer came, but 1 KV transfer failed at prefill",
            ),
            (
                pair_look(MOVED.servers["prefill"], counted(gen_tokens=22.0, bootstrap_failures=2.0)),
                "an answer came, but 2 KV transfers failed at decode",
            ),
            (
                pair_look(MOVED.servers["prefill"], counted(gen_tokens=22.0, process_start=9.0)),
                "decode was restarted meanwhile",
            ),
        ],
    )
    def test_counters_that_speak_against_it(self, after: Look, sentence: str) -> None:
        assert judged(BEFORE, after) == (False, sentence)

    def test_failures_of_before_do_not(self) -> None:
        old = counted(prompt_tokens=6.0, transfer_failures=3.0, transfers=4.0)
        new = counted(prompt_tokens=1034.0, transfer_failures=3.0, transfers=5.0)
        before, after = (
            pair_look(prefill, look.servers["decode"]) for prefill, look in ((old, BEFORE), (new, MOVED))
        )
        assert judged(before, after).passed

    def test_counters_that_cannot_be_seen_are_not_said_to_have_moved(self) -> None:
        unseen = Counted(note="metrics are off")
        before, after = (pair_look(look.servers["prefill"], unseen) for look in (BEFORE, MOVED))
        passed, sentence = judged(before, after)
        assert passed
        assert "the counters of decode could not be seen (metrics are off)" in sentence
        assert "decode generated" not in sentence

    def test_transfers_that_the_version_does_not_count_are_not_said_to_be_none(self) -> None:
        after = pair_look(counted(prompt_tokens=1034.0), MOVED.servers["decode"])
        passed, sentence = judged(BEFORE, after)
        assert passed
        assert sentence.endswith("; KV transfers are not counted by this version")

    @pytest.mark.parametrize(
        ("answer", "sentence"),
        [
            (
                msgspec.structs.replace(ANSWER, completion_tokens=1),
                "too few tokens came (1): one can be prefill's alone",
            ),
            (
                msgspec.structs.replace(ANSWER, prompt_tokens=256),
                "the prompt had 256 tokens, which is not more than a page of 256",
            ),
            (
                Answer(seconds=0.1, status=200, error="the answer is no completion with a usage"),
                "the answer is no completion with a usage",
            ),
            (
                Answer(seconds=0.1, status=401, error="Unauthorized"),
                "the router refuses the request: 401 Unauthorized",
            ),
            (
                Answer(seconds=0.1, error="nothing listens on port 8000"),
                "no answer through the router: nothing listens on port 8000",
            ),
        ],
    )
    def test_answers_that_prove_nothing(self, answer: Answer, sentence: str) -> None:
        assert judged(BEFORE, MOVED, answer) == (False, sentence)


class TestCases:
    """Cases D01, D03, D06, D08, D09: every health check is green."""

    # 7: a health check's token is none of the request's.
    @pytest.mark.parametrize("prompt_tokens", [6.0, 7.0, 1034.0])
    def test_no_token_from_a_pair_that_says_it_is_healthy(self, prompt_tokens: float) -> None:
        after = pair_look(counted(prompt_tokens=prompt_tokens), counted(gen_tokens=7.0))
        passed, sentence = judged(BEFORE, after, SILENCE)
        did = "computed nothing" if prompt_tokens < 256 else "computed 1028 tokens"
        assert not passed
        assert sentence == (
            "no token through the router within 60 s although the router says that both roles are healthy "
            f"(prefill {did}, decode generated nothing): the pair is broken, restart both"
        )

    def test_an_answer_that_began_is_not_called_no_token(self) -> None:
        _, sentence = judged(BEFORE, MOVED, SILENCE)
        assert sentence.startswith("no answer through the router within 60 s although ")

    def test_nor_one_of_which_nothing_is_known(self) -> None:
        unseen = Counted(note="metrics are off")
        look = pair_look(unseen, unseen)
        assert judged(look, look, SILENCE).sentence.startswith("no answer through the router within 60 s ")

    def test_health_is_not_claimed_of_a_router_that_takes_it_back(self) -> None:
        after = msgspec.structs.replace(BEFORE, router=RouterLook(state="red", note="no decode worker"))
        assert "although" not in judged(BEFORE, after, SILENCE).sentence

    @pytest.mark.parametrize(
        "error", ["502 decode_server_error: x", "503 server_selection_failed: no prefill", "500 None"]
    )
    def test_a_5xx_is_told_with_its_code(self, error: str) -> None:
        status, _, words = error.partition(" ")
        passed, sentence = judged(BEFORE, BEFORE, Answer(seconds=0.1, status=int(status), error=words))
        assert not passed
        assert sentence == (
            f"the router answers {error} although the router says that both roles are healthy: "
            "the pair is broken, restart both"
        )

    def test_an_open_circuit_breaker_points_at_the_router(self) -> None:
        router = msgspec.structs.replace(READY, open_breakers=1)
        after = msgspec.structs.replace(BEFORE, router=router)
        assert judged(BEFORE, after, SILENCE).sentence.endswith(
            ": 1 circuit breaker is open in the router: restart the router first"
        )

    def test_also_when_it_answers_with_an_error(self) -> None:
        after = msgspec.structs.replace(BEFORE, router=msgspec.structs.replace(READY, open_breakers=2))
        assert judged(BEFORE, after, Answer(seconds=0.1, status=503, error="none")).sentence == (
            "the router answers 503 none: 2 circuit breakers are open in the router: restart the router first"
        )

    def test_so_does_a_request_that_went_to_one_role(self) -> None:
        before, after = (
            msgspec.structs.replace(BEFORE, router=msgspec.structs.replace(READY, sent=sent))
            for sent in ({"prefill": 4.0, "decode": 4.0}, {"prefill": 4.0, "decode": 5.0})
        )
        assert judged(before, after, SILENCE).sentence.endswith(
            ": the router sent it to decode alone: restart the router first"
        )

    def test_a_request_that_went_to_both_does_not(self) -> None:
        after = msgspec.structs.replace(
            BEFORE, router=msgspec.structs.replace(READY, sent={"prefill": 1.0, "decode": 1.0})
        )
        assert judged(BEFORE, after, SILENCE).sentence.endswith(": the pair is broken, restart both")

    def test_selections_are_read_off_the_routers_page(self) -> None:
        page = (
            'smg_worker_selection_total{worker_type="prefill",model="m",policy="random"} 3\n'
            'smg_worker_selection_total{worker_type="decode",model="m",policy="random"} 2\n'
            'smg_worker_selection_total{worker_type="decode",model="n",policy="random"} 5\n'
        )
        assert sent_by_role(page) == {"prefill": 3.0, "decode": 7.0}


class TestOtherKinds:
    def test_single(self) -> None:
        before, after = (
            Look(servers={"main": counted(prompt_tokens=prompt, gen_tokens=gen)})
            for prompt, gen in ((4.0, 8.0), (1032.0, 23.0))
        )
        assert judged(before, after, profile=SINGLE) == (
            True,
            "1028 prompt and 16 new tokens from the server in 0.7 s; "
            "main computed 1028 tokens and generated 15 tokens",
        )
        assert judged(before, before, profile=SINGLE) == (
            False,
            "an answer came, but no counter moved as it should: main computed nothing and generated nothing",
        )
        assert judged(before, before, SILENCE, SINGLE).sentence == (
            "no token from the server within 60 s (main computed nothing and generated nothing): "
            "restart the deployment"
        )

    def test_one_of_the_replicas_did_it(self) -> None:
        router = RouterLook(state="green", prefill=0, decode=0, regular=2)
        idle, worked = (
            counted(prompt_tokens=4.0, gen_tokens=8.0),
            counted(prompt_tokens=1032.0, gen_tokens=24.0),
        )
        before = Look(servers={"a": idle, "b": idle}, router=router)
        after = Look(servers={"a": idle, "b": worked}, router=router)
        passed, sentence = judged(before, after, profile=REPLICAS)
        assert passed
        assert "a computed nothing and generated nothing, b computed 1028 tokens" in sentence
        assert not judged(before, before, profile=REPLICAS).passed


class TestHindrance:
    def test_none(self) -> None:
        assert hindrance(BEFORE, PAIR) is None

    @pytest.mark.parametrize(
        ("router", "reason"),
        [
            (
                RouterLook(state="red", note="No decode workers"),
                "the router is not ready: No decode workers",
            ),
            (RouterLook(state="silent"), "the router is not ready: silent"),
            (
                RouterLook(state="red", note="x", open_breakers=2),
                "the router is not ready: x; 2 circuit breakers are open: restart the router first",
            ),
            (
                msgspec.structs.replace(READY, unhealthy=("http://127.0.0.1:30001",)),
                "the router calls http://127.0.0.1:30001 unhealthy",
            ),
            (
                msgspec.structs.replace(READY, decode=2),
                "the router has 1 prefill + 2 decode instead of 1 prefill + 1 decode",
            ),
            (
                RouterLook(state="green", prefill=0, decode=0, regular=2),
                "the router has 2 regular workers instead of 1 prefill + 1 decode",
            ),
        ],
    )
    def test_a_router_that_would_not_serve(self, router: RouterLook, reason: str) -> None:
        assert hindrance(msgspec.structs.replace(BEFORE, router=router), PAIR) == reason

    def test_a_server_that_is_gone(self) -> None:
        gone = Counted(note="nothing listens on port 30001", refused=True)
        look = pair_look(BEFORE.servers["prefill"], gone)
        assert hindrance(look, PAIR) == "decode is not there: nothing listens on port 30001"

    def test_workers_that_it_does_not_tell_are_not_missed(self) -> None:
        assert hindrance(msgspec.structs.replace(BEFORE, router=RouterLook(state="green")), PAIR) is None


class Pair:
    """A pair and its router over HTTP. Counters move at the answer, or some looks later."""

    def __init__(self, lag: int = 0, complete: Callable[[], httpx.Response] | None = None) -> None:
        self.lag = lag
        self.complete = complete or self._tokens
        self.answered = False
        self.prompt = ""
        self.client = SglangClient(httpx.MockTransport(self._answer))

    def _tokens(self) -> httpx.Response:
        self.answered = True
        return httpx.Response(200, json={"usage": {"prompt_tokens": 1028, "completion_tokens": 16}})

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        match request.url.port, request.url.path:
            case 8000, "/v1/completions":
                self.prompt = json.loads(request.content)["prompt"]
                return self.complete()
            case 8000, "/readiness":
                return httpx.Response(200, json={"status": "ready", "healthy_workers": 2, "total_workers": 2})
            case 8000, "/workers":
                kinds = (("prefill", 30000), ("decode", 30001))
                return httpx.Response(200, json={"workers": [worker(*kind) for kind in kinds]})
            case 29000, "/metrics":
                return httpx.Response(200, text='smg_worker_cb_state{worker="http://127.0.0.1:30000"} 0\n')
            case 30000, "/metrics":
                return httpx.Response(200, text=self._page("prefill_compute", 6, 1034))
            case 30001, "/metrics":
                return httpx.Response(200, text=self._page("decode", 7, 22))
        return httpx.Response(404)

    def _page(self, mode: str, before: int, after: int) -> str:
        self.lag -= self.answered
        moved = self.answered and self.lag < 0
        count = f'sglang:realtime_tokens_total{{mode="{mode}"}} {after if moved else before}\n'
        return count + ("sglang:kv_transfer_latency_ms_count 1\n" if moved and mode != "decode" else "")


def worker(kind: str, port: int) -> dict[str, Any]:
    return {"url": f"http://127.0.0.1:{port}", "worker_type": kind, "is_healthy": True}


class TestProve:
    async def test_passes(self) -> None:
        pair = Pair()
        proof = await prove(pair.client, PAIR, lambda: 1234.5, poll_s=0.0)
        assert proof.passed, proof.sentence
        assert (proof.at, proof.prompt_tokens, proof.completion_tokens) == (1234.5, 1028, 16)
        assert proof.seconds is not None

    async def test_no_prompt_begins_as_another(self) -> None:
        pair = Pair()
        prompts = set()
        for _ in range(3):
            await prove(pair.client, PAIR, lambda: 0.0, poll_s=0.0)
            prompts.add(pair.prompt[:8])
            pair.answered = False
        assert len(prompts) == 3

    async def test_counters_that_lag_are_waited_for(self) -> None:
        pair = Pair(lag=20)
        assert (await prove(pair.client, PAIR, lambda: 0.0, poll_s=0.0)).passed
        assert pair.lag < 0

    async def test_but_not_for_ever(self) -> None:
        proof = await prove(Pair(lag=10**9).client, PAIR, lambda: 0.0, limit_s=0.3, poll_s=0.01)
        assert proof.sentence == "an answer came, but prefill computed 0 of 1028 tokens"

    async def test_a_request_that_hangs_is_cut(self) -> None:
        async def hang(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/v1/completions":
                await asyncio.Event().wait()
            return await pair._answer(request)

        pair = Pair()
        async with asyncio.timeout(5.0):
            proof = await prove(
                SglangClient(httpx.MockTransport(hang)), PAIR, lambda: 0.0, limit_s=0.4, poll_s=0.0
            )
        assert not proof.passed
        assert proof.seconds is None
        assert proof.sentence.endswith(
            "(prefill computed nothing, decode generated nothing): the pair is broken, restart both"
        )

    async def test_pages_that_hang_are_cut_too(self) -> None:
        async def hang(request: httpx.Request) -> httpx.Response:
            if request.url.port in (30000, 30001):
                await asyncio.Event().wait()
            return await pair._answer(request)

        pair = Pair()
        async with asyncio.timeout(5.0):
            proof = await prove(
                SglangClient(httpx.MockTransport(hang)), PAIR, lambda: 0.0, limit_s=0.4, poll_s=0.0
            )
        assert proof.passed
        assert "the counters of prefill could not be seen (no page of metrics in time)" in proof.sentence

    async def test_a_refusal_is_not_waited_on(self) -> None:
        body = {"error": {"code": "server_selection_failed", "message": "No prefill workers"}}
        pair = Pair(complete=lambda: httpx.Response(503, json=body))
        proof = await prove(pair.client, PAIR, lambda: 0.0)
        assert proof.sentence.startswith(
            "the router answers 503 server_selection_failed: No prefill workers "
        )

    async def test_no_request_is_sent_to_a_server_that_is_gone(self) -> None:
        def refuse(request: httpx.Request) -> httpx.Response:
            asked.append(request.url.path)
            raise httpx.ConnectError("Connection refused")

        asked: list[str] = []
        proof = await prove(SglangClient(httpx.MockTransport(refuse)), PAIR, lambda: 0.0)
        assert proof.sentence == "prefill is not there: nothing listens on port 30000"
        assert "/v1/completions" not in asked
