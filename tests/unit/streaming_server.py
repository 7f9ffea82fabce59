"""A server that streams at known times, in a process of its own: `with StreamingServer() as server`.

What a request gets is in its prompt, see `paced` and `scripted`; any other prompt gets as many tokens as it
asks for, 312 a second. When everything was written is kept for `server.log()`. It paces with select(2), whose
waits are exact to microseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import selectors
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

JsonObject = dict[str, Any]

HEAD = b"HTTP/1.1 %d X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def paced(name: str, chunks: int, gap_s: float, first_s: float = 0.0, bundle: int = 1) -> str:
    """A prompt answered by `chunks` chunks of `bundle` tokens each, the first after `first_s`."""
    return json.dumps({"name": name, "chunks": chunks, "gap_s": gap_s, "first_s": first_s, "bundle": bundle})


def scripted(name: str, *pieces: str | float, status: int = 200, end: str = "whole") -> str:
    """A prompt answered by these pieces as they are, each in a write of its own; a number is a pause.

    `end`: `whole` as HTTP wants it, `closed`, or `never`.
    """
    return json.dumps({"name": name, "pieces": pieces, "status": status, "end": end})


def text(content: str, finish: str | None = None) -> str:
    """One event with text, as /v1/completions writes it."""
    choice = {"index": 0, "text": content, "logprobs": None, "finish_reason": finish, "matched_stop": None}
    return event({"id": "a1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]})


def usage(prompt: int, completion: int, cached: int | None = None) -> str:
    """The last event before [DONE]."""
    details = None if cached is None else {"cached_tokens": cached}
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}
    return event({"id": "a1", "object": "text_completion", "choices": [], "usage": counts})


def event(content: JsonObject) -> str:
    """Any event."""
    return f"data: {json.dumps(content)}\n\n"


DONE = "data: [DONE]\n\n"


class StreamingServer:
    """The process. `port` is where it listens."""

    def __enter__(self) -> StreamingServer:
        command = [sys.executable, "-m", "tests.unit.streaming_server"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/v1/completions"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> dict[str, JsonObject]:
        """What happened to each request, by its name: `body`, `headers`, `received`, `written`, `in_flight`;
        times of the monotonic clock."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/log", timeout=10) as response:
            return {entry["name"]: entry for entry in json.load(response)}


class _Requests:
    def __init__(self) -> None:
        self.log: list[JsonObject] = []
        self.in_flight = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._serve_one(reader, writer):
                pass
        writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if lines[0].startswith("GET"):
            content = json.dumps(self.log).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(content))
            writer.write(content)
            return False
        return await self._answer(json.loads(body), headers, writer)

    async def _answer(self, body: JsonObject, headers: JsonObject, writer: asyncio.StreamWriter) -> bool:
        asked = _asked(body)
        self.in_flight += 1
        written: list[float] = []
        entry = {"name": asked["name"], "body": body, "headers": headers, "written": written}
        self.log.append(entry | {"received": time.monotonic(), "in_flight": self.in_flight})
        writer.write(HEAD % asked.get("status", 200))
        try:
            async for data in _pieces(asked, time.monotonic()):
                written.append(time.monotonic())
                writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                await writer.drain()
        finally:
            self.in_flight -= 1
        end = asked.get("end", "whole")
        if end == "whole":
            writer.write(b"0\r\n\r\n")
        elif end == "never":
            await asyncio.get_running_loop().create_future()
        return bool(end == "whole")


def _asked(body: JsonObject) -> JsonObject:
    prompt = body["prompt"]
    wants_usage = body.get("stream_options", {}).get("include_usage", False)
    if isinstance(prompt, str) and prompt.startswith("{"):
        asked: JsonObject = json.loads(prompt)
        return asked | {"usage": wants_usage}
    pace = {"gap_s": 0.0032, "first_s": 0.0, "bundle": 1, "usage": wants_usage}
    return {"name": "any", "chunks": body["max_tokens"], **pace}


async def _pieces(asked: JsonObject, begun: float) -> AsyncIterator[bytes]:
    if "pieces" in asked:
        for piece in asked["pieces"]:
            if isinstance(piece, str):
                # Surrogates stand for bytes that are no UTF-8, or for half of a character.
                yield piece.encode("utf-8", "surrogateescape")
            else:
                await asyncio.sleep(piece)
        return
    chunk = text(" tok" * asked["bundle"]).encode()
    for number in range(asked["chunks"]):
        due = begun + asked["first_s"] + number * asked["gap_s"]
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        yield chunk
    last = usage(7, asked["chunks"] * asked["bundle"]) if asked["usage"] else ""
    yield (last + DONE).encode()


async def _main() -> None:
    requests = _Requests()
    server = await asyncio.start_server(requests.serve, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The life line: whoever started it ends it, or dies.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    loop.run_until_complete(_main())
