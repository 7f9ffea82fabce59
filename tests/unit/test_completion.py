"""A completion: what is asked, and everything that can come back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from console.domain.proof import Answer
from console.remote.sglang import SglangClient

USAGE = {"prompt_tokens": 1028, "total_tokens": 1044, "completion_tokens": 16}
WHOLE = {"object": "text_completion", "choices": [{"index": 0, "text": "...."}], "usage": USAGE}


class Entry:
    """A port that answers one request, and what it was asked."""

    def __init__(self, status: int, body: dict[str, Any] | str) -> None:
        self.status, self.body = status, body
        self.request: httpx.Request | None = None
        self.client = SglangClient(httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.request = request
        return httpx.Response(
            self.status, text=self.body if isinstance(self.body, str) else json.dumps(self.body)
        )

    async def complete(self, api_key: str | None = None) -> Answer:
        return await self.client.complete(8000, "two words", 16, 5.0, api_key)


async def test_tokens_are_those_of_the_usage() -> None:
    answer = await Entry(200, WHOLE).complete()
    assert (answer.status, answer.prompt_tokens, answer.completion_tokens) == (200, 1028, 16)
    assert (answer.silent, answer.error) == (False, None)


async def test_the_number_of_tokens_does_not_depend_on_what_the_model_says() -> None:
    entry = Entry(200, WHOLE)
    await entry.complete(api_key="sesame")
    assert entry.request is not None
    assert (entry.request.method, entry.request.url.path) == ("POST", "/v1/completions")
    assert json.loads(entry.request.content) == {
        "model": "default",
        "prompt": "two words",
        "max_tokens": 16,
        "temperature": 0,
        "ignore_eos": True,
    }
    assert entry.request.headers["authorization"] == "Bearer sesame"


async def test_without_a_key_none_is_sent() -> None:
    entry = Entry(200, WHOLE)
    await entry.complete()
    assert entry.request is not None
    assert "authorization" not in entry.request.headers


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        # The router's own, and one that it passes on.
        (
            503,
            {"error": {"type": "Service Unavailable", "code": "server_selection_failed", "message": "none"}},
            "server_selection_failed: none",
        ),
        (502, {"error": {"code": "decode_server_error", "message": "x"}}, "decode_server_error: x"),
        # A server's.
        (
            400,
            {"object": "error", "message": "too long", "type": "BadRequestError", "param": None, "code": 400},
            "BadRequestError: too long",
        ),
        (401, {"error": "Unauthorized"}, '{"error": "Unauthorized"}'),
        (500, "Internal Server Error", "Internal Server Error"),
        (500, "", None),
        (502, "\x1b[2Jred " + "x" * 500, "red " + "x" * 192),
    ],
)
async def test_another_status_comes_with_its_words(
    status: int, body: dict[str, Any] | str, error: str | None
) -> None:
    answer = await Entry(status, body).complete()
    assert (answer.status, answer.error, answer.completion_tokens) == (status, error, None)


@pytest.mark.parametrize("body", ["<html>", "{}", '{"usage": null}', '{"usage": {"prompt_tokens": "9"}}'])
async def test_a_200_without_a_usage_counts_nothing(body: str) -> None:
    answer = await Entry(200, body).complete()
    assert (answer.status, answer.completion_tokens) == (200, None)
    assert answer.error == "the answer is no completion with a usage"


async def test_silence_is_cut_at_the_limit() -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    answer = await SglangClient(httpx.MockTransport(never)).complete(8000, "x", 16, 0.05)
    assert (answer.status, answer.silent) == (None, True)
    assert 0.05 <= answer.seconds < 5.0


async def test_a_refused_connection_is_no_silence() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused")

    answer = await SglangClient(httpx.MockTransport(refuse)).complete(8000, "x", 16, 5.0)
    assert (answer.status, answer.silent, answer.error) == (None, False, "nothing listens on port 8000")
