"""Asking for text: /generate, /v1/completions and /v1/chat/completions, whole or streamed."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

from demohost.webserver import Request, Response, json_response

from sglang.generation import Asked, Generator, Piece, RequestError, asked_from
from sglang.log import ServerLog
from sglang.metrics import Metrics
from sglang.reporter import too_long
from sglang.server_args import ServerArgs
from sglang.transfer import ComputedPrompt, TransferError

_CHAT_DEFAULT_TOKENS, _COMPLETION_DEFAULT_TOKENS, _NATIVE_DEFAULT_TOKENS = 4096, 16, 128

Encoder = Callable[["Progress", Piece], dict[str, Any]]
"""A piece as one streamed event."""


class Progress:
    """What was generated so far for one request."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.began = time.time()
        self.text = ""
        self.tokens = 0
        self.prompt = ComputedPrompt(asked.prompt_tokens, 0)
        self.finish_reason: str | None = None

    def add(self, prompt: ComputedPrompt, piece: Piece) -> None:
        """One more piece."""
        self.prompt, self.finish_reason = prompt, piece.finish_reason
        self.text += piece.text
        self.tokens += piece.tokens


class _Form(NamedTuple):
    """How one endpoint speaks."""

    asked: Callable[[dict[str, Any]], Asked]
    event: Encoder
    whole: Callable[[Progress], dict[str, Any]]
    error: Callable[[str, int], dict[str, Any]]
    opening: Callable[[Progress], dict[str, Any]] | None = None
    """An event before the first piece."""


class Completions:
    """Answers requests for text."""

    def __init__(self, args: ServerArgs, generator: Generator, metrics: Metrics, log: ServerLog) -> None:
        self._args, self._generator, self._metrics, self._log = args, generator, metrics, log
        self._native = _Form(_native_asked, _native_event, _native_whole, _native_error)
        self._text = _Form(_text_asked, self._text_event, self._text_whole, _openai_error)
        self._chat = _Form(_chat_asked, self._chat_event, self._chat_whole, _openai_error, self._chat_opening)

    async def generate(self, request: Request) -> Response:
        """POST /generate."""
        return await self._serve(request, self._native)

    async def complete(self, request: Request) -> Response:
        """POST /v1/completions."""
        return await self._serve(request, self._text)

    async def chat(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        return await self._serve(request, self._chat)

    async def _serve(self, request: Request, form: _Form) -> Response:
        try:
            body = request.json()
            asked = form.asked(body)
            self._fit(asked)
            if body.get("stream"):
                return await self._streamed(form, asked, body.get("stream_options") or {})
            return await self._whole(form, asked)
        except (RequestError, ValueError) as error:
            self._log.line(f"[http_server] Error: {error}")
            return json_response(form.error(str(error), 400), 400)
        except TransferError as error:
            self._report_failure(asked, error)
            return json_response(form.error(str(error), 500), 500)

    def _fit(self, asked: Asked) -> None:
        context_length = int(self._args.resolved["context_length"])
        if asked.prompt_tokens + asked.max_tokens > context_length:
            raise RequestError(too_long(context_length, asked.prompt_tokens, asked.max_tokens))

    async def _whole(self, form: _Form, asked: Asked) -> Response:
        progress = Progress(asked)
        async with aclosing(self._generator.pieces(asked)) as pieces:
            async for prompt, piece in pieces:
                progress.add(prompt, piece)
        return json_response(form.whole(progress))

    async def _streamed(self, form: _Form, asked: Asked, options: dict[str, Any]) -> Response:
        """The first piece is awaited before the answer begins, so that what fails until then has a status."""
        progress, pieces = Progress(asked), self._generator.pieces(asked)
        first = await anext(pieces)
        events = self._events(form, progress, first, pieces, options)
        return Response(200, events, "text/event-stream; charset=utf-8")

    async def _events(
        self,
        form: _Form,
        progress: Progress,
        first: tuple[ComputedPrompt, Piece],
        rest: AsyncGenerator[tuple[ComputedPrompt, Piece], None],
        options: dict[str, Any],
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(rest):
            if form.opening:
                yield _event(form.opening(progress))
            progress.add(*first)
            yield _event(self._with_usage(form.event(progress, first[1]), progress, options))
            async for prompt, piece in rest:
                progress.add(prompt, piece)
                yield _event(self._with_usage(form.event(progress, piece), progress, options))
            if options.get("include_usage") and form is not self._native:
                final = form.event(progress, Piece("", 0))
                yield _event({**final, "choices": [], "usage": self._usage(progress)})
            yield b"data: [DONE]\n\n"

    def _with_usage(
        self, event: dict[str, Any], progress: Progress, options: dict[str, Any]
    ) -> dict[str, Any]:
        if options.get("continuous_usage_stats"):
            event["usage"] = self._usage(progress)
        return event

    def _usage(self, progress: Progress) -> dict[str, Any]:
        cached = {"cached_tokens": progress.prompt.cached_tokens}
        return {
            "prompt_tokens": progress.prompt.tokens,
            "total_tokens": progress.prompt.tokens + progress.tokens,
            "completion_tokens": progress.tokens,
            "prompt_tokens_details": cached if self._args.resolved["enable_cache_report"] else None,
            "reasoning_tokens": 0,
        }

    def _head(self, progress: Progress, kind: str) -> dict[str, Any]:
        return {
            "id": progress.asked.rid,
            "object": kind,
            "created": int(progress.began),
            "model": self._args.served_model_name,
        }

    def _text_event(self, progress: Progress, piece: Piece) -> dict[str, Any]:
        choice = {"index": 0, "text": piece.text, "logprobs": None, **_ending(piece.finish_reason)}
        return {**self._head(progress, "text_completion"), "choices": [choice], "usage": None}

    def _text_whole(self, progress: Progress) -> dict[str, Any]:
        choice = {"index": 0, "text": progress.text, "logprobs": None, **_ending(progress.finish_reason)}
        usage = self._usage(progress)
        return {**self._head(progress, "text_completion"), "choices": [choice], "usage": usage}

    def _chat_opening(self, progress: Progress) -> dict[str, Any]:
        return self._chat_chunk(progress, {"role": "assistant", "content": ""}, None)

    def _chat_event(self, progress: Progress, piece: Piece) -> dict[str, Any]:
        return self._chat_chunk(progress, {"role": None, "content": piece.text}, piece.finish_reason)

    def _chat_chunk(self, progress: Progress, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": {**delta, "reasoning_content": None}, **_ending(finish)}
        return {**self._head(progress, "chat.completion.chunk"), "choices": [choice], "usage": None}

    def _chat_whole(self, progress: Progress) -> dict[str, Any]:
        message = {"role": "assistant", "content": progress.text, "reasoning_content": None}
        choice = {"index": 0, "message": message, "logprobs": None, **_ending(progress.finish_reason)}
        usage = self._usage(progress)
        return {**self._head(progress, "chat.completion"), "choices": [choice], "usage": usage}

    def _report_failure(self, asked: Asked, error: TransferError) -> None:
        room = asked.bootstrap[2] if asked.bootstrap else None
        if self._args.role == "prefill":
            self._metrics.bootstrap_failed.add(1)
            what, name = "Prefill bootstrap", "req"
        else:
            self._metrics.transfer_failed.add(1)
            what, name = "Decode transfer", "decode_req.req"
        self._log.line(
            f"{what} failed for request rank=0 {name}.rid='{asked.rid}' {name}.bootstrap_room={room} "
            f"with exception KVTransferError(bootstrap_room={room}): {error}",
            rank=0,
        )


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def _ending(reason: str | None) -> dict[str, Any]:
    return {"finish_reason": reason, "matched_stop": None}


def _native_asked(body: dict[str, Any]) -> Asked:
    sampling = body.get("sampling_params") or {}
    prompt = body.get("text", body.get("input_ids"))
    most = sampling.get("max_new_tokens", _NATIVE_DEFAULT_TOKENS)
    return asked_from(body, prompt, most, bool(sampling.get("ignore_eos")))


def _text_asked(body: dict[str, Any]) -> Asked:
    most = body.get("max_tokens") or _COMPLETION_DEFAULT_TOKENS
    return asked_from(body, body.get("prompt"), most, bool(body.get("ignore_eos")))


def _chat_asked(body: dict[str, Any]) -> Asked:
    said = [str(message.get("content")) for message in body.get("messages") or []]
    most = body.get("max_completion_tokens") or body.get("max_tokens") or _CHAT_DEFAULT_TOKENS
    return asked_from(body, "\n".join(said) or None, most, bool(body.get("ignore_eos")))


def _native_event(progress: Progress, piece: Piece) -> dict[str, Any]:
    """Native events hold all text so far, not what is new."""
    return _native_whole(progress)


def _native_whole(progress: Progress) -> dict[str, Any]:
    reason = progress.finish_reason
    return {
        "text": progress.text,
        "meta_info": {
            "id": progress.asked.rid,
            "finish_reason": reason and {"type": reason, "length": progress.tokens},
            "prompt_tokens": progress.prompt.tokens,
            "completion_tokens": progress.tokens,
            "cached_tokens": progress.prompt.cached_tokens,
            "e2e_latency": time.time() - progress.began,
        },
    }


def _native_error(message: str, status: int) -> dict[str, Any]:
    return {"error": {"message": message}}


def _openai_error(message: str, status: int) -> dict[str, Any]:
    kind = "BadRequestError" if status == 400 else "InternalServerError"
    return {"object": "error", "message": message, "type": kind, "param": None, "code": status}
