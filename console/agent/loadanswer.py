"""What came of one request: the events of /v1/completions or /v1/chat/completions, and how it ended."""

from __future__ import annotations

import json
from typing import Any, Dict

DONE = b"[DONE]"
REASON_CHARS = 300
COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")

Content = Dict[str, Any]


class Answer:
    """One request from its dispatch on. Times are those of the clock that the caller reads.

    Of several failures the first is kept, and after [DONE] there is none any more.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.sent = self.ended = 0.0
        self.chunks: list[float] = []
        """When each chunk with text arrived."""
        self.status: int | None = None
        self.failure: str | None = None
        """One of console.domain.bench.load.FailureKind."""
        self._reason: str | None = None
        self._finish_reason: str | None = None
        self._usage: dict[str, int | None] = dict.fromkeys(COUNTS)
        self._done = False

    @property
    def over(self) -> bool:
        """True when it makes no sense to read on."""
        return self.failure is not None

    def take(self, event: bytes, at: float) -> bool:
        """One event; whether it had text."""
        if self._done:
            return False
        self.ended = at
        if event == DONE:
            self._done = True
            return False
        try:
            return self._take_content(json.loads(event.decode()), at)
        except (ValueError, AttributeError, TypeError):
            self._fail_midway(f"an event that is no chunk of a completion: {plain(event)}", at)
            return False

    def fail(self, kind: str, reason: str, at: float) -> None:
        """It failed, for a reason in one sentence."""
        if self.failure is None and not self._done:
            self.failure, self._reason, self.ended = kind, reason[:REASON_CHARS], at

    def close(self, at: float) -> None:
        """Nothing more comes: find out whether it succeeded."""
        if self.failure is not None:
            return
        complete, self._done = self._done, False
        if self._finish_reason == "abort":
            self.fail("aborted", f"the server aborted it {self._how_far()}", self.ended)
        elif not complete:
            self.fail("cut off", f"the stream ended without [DONE] {self._how_far()}", at)
        elif not self.chunks:
            self.fail("empty", "the stream ended without any text", self.ended)

    def timing(self) -> Content:
        """The fields of console.domain.bench.load.RequestTiming but `worker` and `chunks`."""
        return {
            "index": self.index,
            "sent": self.sent,
            "ended": self.ended,
            **self._usage,
            "finish_reason": self._finish_reason,
            "status": self.status,
            "failure": self.failure,
            "reason": self._reason,
        }

    def _take_content(self, content: Content, at: float) -> bool:
        if content.get("error") or content.get("object") == "error":
            self._fail_midway(error_in(content), at)
            return False
        self._take_usage(content.get("usage"))
        has_text = False
        for choice in content.get("choices") or ():
            has_text = has_text or bool(text_of(choice))
            reason = choice.get("finish_reason")
            self._finish_reason = reason if isinstance(reason, str) else self._finish_reason
        if has_text:
            self.chunks.append(at)
        return has_text

    def _take_usage(self, usage: Content | None) -> None:
        if usage:
            details = usage.get("prompt_tokens_details") or {}
            found = dict(usage, cached_tokens=details.get("cached_tokens"))
            counts = {name: found.get(name) for name in COUNTS}
            self._usage = {name: n if isinstance(n, int) else None for name, n in counts.items()}

    def _fail_midway(self, reason: str, at: float) -> None:
        if self.chunks:
            self.fail("error", f"{reason} {self._how_far()}", at)
        else:
            self.fail("rejected", reason, at)

    def _how_far(self) -> str:
        return f"(after {len(self.chunks)} chunks with text)"


def text_of(choice: Content) -> str | None:
    """What a choice adds; reasoning is text too."""
    delta = choice.get("delta") or {}
    return choice.get("text") or delta.get("content") or delta.get("reasoning_content")


def error_in(content: Content) -> str:
    """An error object, as OpenAI, SGLang or FastAPI put it, in words."""
    error = content.get("error") or content
    if not isinstance(error, dict):
        return str(error)
    said = str(error.get("message") or error.get("detail") or error)
    code = error.get("code")
    return said if code is None else f"{said} (code {code})"


def refusal(status: int, body: bytes) -> str:
    """A response that is not 200, in words."""
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    said = error_in(content) if isinstance(content, dict) else plain(body)
    return f"HTTP {status}: {said}" if said else f"HTTP {status}"


def plain(data: bytes) -> str:
    """Bytes as one short line."""
    return " ".join(data.decode("utf-8", "replace").split())[:REASON_CHARS]
