"""One real request from its prompt to its last token."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple
from uuid import uuid4

from sglang.engine import PREFILL_TOK_S, Finished
from sglang.prefix_cache import PrefixCache, count_tokens
from sglang.serving import Serving
from sglang.transfer import ComputedPrompt, Outbox, fetch

_WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "on",
    "with",
    "by",
    "are",
    "this",
    "be",
    "from",
    "at",
    "or",
    "an",
    "which",
    "but",
    "not",
    "have",
    "one",
    "had",
    "they",
    "you",
    "were",
    "all",
    "their",
    "there",
    "when",
    "can",
    "more",
    "if",
    "no",
    "out",
    "so",
    "what",
    "up",
    "its",
    "about",
    "into",
    "than",
    "them",
    "only",
    "some",
    "time",
    "could",
    "these",
    "two",
    "may",
    "then",
    "do",
    "first",
    "any",
    "like",
    "my",
    "now",
    "over",
    "such",
    "our",
    "man",
    "me",
    "even",
    "most",
    "made",
    "after",
    "also",
    "did",
    "many",
    "must",
    "before",
    "back",
    "through",
    "years",
    "where",
    "much",
    "your",
    "way",
    "well",
    "down",
    "should",
    "because",
    "each",
    "just",
    "those",
    "people",
    "state",
    "good",
]
_FIRST_STEP_S = 0.045
_USUAL_ANSWER = (60, 420)
"""Tokens after which an answer ends by itself, unless it is told to ignore that."""


class RequestError(Exception):
    """The request cannot be served; the text says why."""


class Asked(NamedTuple):
    """What a client asks for."""

    rid: str
    prompt: str
    max_tokens: int
    ignore_eos: bool
    bootstrap: tuple[str, int, int] | None
    """Host, port and room, which the router put in."""

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return count_tokens(self.prompt)


class Piece(NamedTuple):
    """Some tokens; the last piece says why it is the last."""

    text: str
    tokens: int
    finish_reason: str | None = None


class Generator:
    """Serves requests at the engine's speed."""

    def __init__(self, serving: Serving, cache: PrefixCache, outbox: Outbox) -> None:
        self._serving, self._cache, self._outbox = serving, cache, outbox
        self._args, self._engine = serving.args, serving.engine

    async def pieces(self, asked: Asked) -> AsyncGenerator[tuple[ComputedPrompt, Piece], None]:
        """Tokens as they come, with what is known about the prompt. Raises RequestError and TransferError."""
        self._check(asked)
        began = time.monotonic()
        with self._serving.occupied():
            prompt = await self._prompt(asked)
            ttft, generated = 0.0, 0
            async for piece in self._decode(asked):
                ttft = ttft or time.monotonic() - began
                generated += piece.tokens
                yield prompt, piece
        latency = time.monotonic() - began
        self._engine.finish(Finished(*prompt, generated, ttft, latency))

    def _check(self, asked: Asked) -> None:
        if self._args.role != "single" and asked.bootstrap is None:
            raise RequestError(
                "Invalid request: Disaggregated request received without bootstrap room id. "
                f"req.rid='{asked.rid}'"
            )

    async def _prompt(self, asked: Asked) -> ComputedPrompt:
        if self._args.role == "decode" and asked.bootstrap:
            return await fetch(*asked.bootstrap)
        cached = min(self._cache.take(asked.prompt), asked.prompt_tokens - 1)
        fresh = asked.prompt_tokens - cached
        await asyncio.sleep(_FIRST_STEP_S + fresh / PREFILL_TOK_S)
        self._engine.count_prefilled(fresh, cached)
        computed = ComputedPrompt(asked.prompt_tokens, cached)
        if self._args.role == "prefill" and asked.bootstrap:
            await self._outbox.deliver(asked.bootstrap[2], computed)
        return computed

    async def _decode(self, asked: Asked) -> AsyncGenerator[Piece, None]:
        if self._args.role == "prefill":
            yield Piece(_WORDS[0], 1, "length")
            return
        words = random.Random(asked.prompt)
        wanted = (
            asked.max_tokens if asked.ignore_eos else min(asked.max_tokens, words.randint(*_USUAL_ANSWER))
        )
        done, due = 0, time.monotonic()
        while done < wanted:
            count = min(wanted - done, self._step(words))
            due += count / self._engine.tok_s_each
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            done += count
            self._engine.count_decoded(count)
            ended = None if done < wanted else "length" if wanted == asked.max_tokens else "stop"
            yield Piece("".join(f" {words.choice(_WORDS)}" for _ in range(count)), count, ended)

    def _step(self, dice: random.Random) -> int:
        """Tokens until the next piece goes out."""
        count = int(self._args.resolved["stream_interval"])
        if self._args.speculates:
            count *= max(1, round(dice.gauss(self._args.accept_length, 0.9)))
        return count


def asked_from(body: dict[str, Any], prompt: object, max_tokens: object, ignore_eos: bool) -> Asked:
    """Read what the three ways of asking have in common. Raises RequestError."""
    if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        prompt = " ".join(map(str, prompt))
    if not isinstance(prompt, str) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise RequestError("The prompt must be one text, and max_tokens a number from 1")
    bootstrap = None
    if body.get("bootstrap_room") is not None:
        bootstrap = (str(body["bootstrap_host"]), int(body["bootstrap_port"]), int(body["bootstrap_room"]))
    return Asked(str(body.get("rid") or uuid4().hex), prompt, max_tokens, ignore_eos, bootstrap)
