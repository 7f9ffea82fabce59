"""One completion, whole and not streamed: an answer then has one status, and its usage always."""

from __future__ import annotations

import asyncio

import httpx
import msgspec

from console.domain.printable import printable
from console.domain.proof import Answer
from console.remote.reply import Reply, ask

MODEL = "default"
"""A router's parser wants a model to be named; 0.3.2 and SGLang take any name for the one that they have."""

_SHOWN = 200
"""Characters of a server's own words."""


async def complete(
    http: httpx.AsyncClient, port: int, prompt: str, max_tokens: int, limit_s: float, api_key: str | None
) -> Answer:
    """POST /v1/completions. Cut at the limit, the connection closes, and the servers drop the request."""
    clock = asyncio.get_running_loop().time
    began = clock()
    asked = {"model": MODEL, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    reply = await ask(http, "POST", port, "/v1/completions", limit_s, json=asked, headers=headers)
    return _answer(reply, clock() - began)


def _answer(reply: Reply, seconds: float) -> Answer:
    if reply.status is None:
        return Answer(seconds=seconds, silent=reply.state == "silent", error=reply.note)
    if reply.status != 200:
        return Answer(seconds=seconds, status=reply.status, error=_error(reply))
    said = reply.decoded(_Body)
    if said is None:
        return Answer(seconds=seconds, status=200, error="the answer is no completion with a usage")
    return Answer(
        seconds=seconds,
        status=200,
        prompt_tokens=said.usage.prompt_tokens,
        completion_tokens=said.usage.completion_tokens,
    )


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class _Body(msgspec.Struct):
    usage: _Usage


class _Error(msgspec.Struct):
    message: str = ""
    type: str | None = None
    code: str | int | None = None


class _Wrapped(msgspec.Struct):
    error: _Error


def _error(reply: Reply) -> str | None:
    """Code and message: a router's are in {"error": {…}}, a server's are not wrapped; else the text."""
    assert reply.status is not None
    wrapped = reply.decoded(_Wrapped, (reply.status,))
    said = wrapped.error if wrapped else reply.decoded(_Error, (reply.status,))
    if said is None or not said.message:
        return printable(reply.body[:_SHOWN].decode(errors="replace")) or None
    # A server's code is the status once more.
    name = said.code if isinstance(said.code, str) else said.type
    return printable(f"{name}: {said.message}" if name else said.message)[:_SHOWN]
