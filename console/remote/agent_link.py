"""The conversation with the agent: start it, keep it alive, take its frames.

One channel carries everything, so sshd's MaxSessions is no limit. The console beats every 3 s; an agent
that hears nothing for 10 s ends itself, and an agent that says nothing for three intervals and 10 s counts
as lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

import msgspec

from console.domain.errors import AgentFailed, ConnectionLost, HostRefused
from console.remote import frames
from console.remote.agent_parcel import AgentOptions, parcel, start_script
from console.remote.frames import Answer, Frame, FrameBuffer, Hello, Matches, Page, Reply, Value
from console.remote.host import ByteChannel, Host

_T = TypeVar("_T")

PROTOCOL = 1
START_LIMIT_S = 15.0
BEAT_S = 3.0
SILENCE_S = 10.0
ANSWER_S = 15.0
"""The longest wait for a part of an answer."""
CANCEL_S = 1.0
READ_SIZE = 262144
LONGEST_BANNER = 1 << 20


class AgentLink:
    """A running agent. Use `async with await AgentLink.start(host, options)`."""

    def __init__(self, channel: ByteChannel, hello: Hello, buffer: FrameBuffer, early: list[Frame]) -> None:
        self._channel = channel
        self._buffer = buffer
        self._early = early
        self._beats = asyncio.create_task(self._beat(), name="agent beats")
        self._beaten: tuple[int, float] = (0, 0.0)
        self._asked: dict[int, asyncio.Queue[Answer | None]] = {}
        self._ids = itertools.count(1)
        self._over = False
        self.hello = hello
        self.rtt_s: float | None = None
        """The last measured way to the agent and back, in seconds."""

    @classmethod
    async def start(cls, host: Host, options: AgentOptions, python: str | None = None) -> AgentLink:
        """Start the agent on a connected host.

        Raises AgentFailed when no Python can be used or the agent does not answer within 15 s, ConnectionLost
        when the connection ends meanwhile.
        """
        channel = await host.run_shell()
        try:
            async with asyncio.timeout(START_LIMIT_S):
                rest = await _boot(channel, host, options, python)
                return await cls._greet(channel, host, rest)
        except TimeoutError as error:
            channel.close()
            raise AgentFailed(
                "the agent did not start within 15 s",
                where=host.name,
                cause="the host is overloaded, or its login shell does not run commands",
                next_step=f"try `ssh {host.name} python3 -V` by hand",
            ) from error
        except BaseException:
            channel.close()
            raise

    @classmethod
    async def _greet(cls, channel: ByteChannel, host: Host, rest: bytes) -> AgentLink:
        buffer = FrameBuffer()
        seen = list(buffer.feed(rest))
        while not seen:
            seen = list(buffer.feed(await _more(channel, host)))
        hello = seen.pop(0)
        if not isinstance(hello, Hello) or hello.protocol != PROTOCOL:
            raise AgentFailed("the agent speaks another protocol", where=host.name)
        return cls(channel, hello, buffer, seen)

    async def __aenter__(self) -> AgentLink:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def frames(self, silence_s: float = SILENCE_S) -> AsyncGenerator[Frame, None]:
        """Every frame but answers, until the link ends. Raises ConnectionLost or AgentFailed then."""
        try:
            for frame in self._early:
                yield frame
            while True:
                for frame in self._buffer.feed(await self._receive(silence_s)):
                    if isinstance(frame, Reply | Page | Matches | Value):
                        self._take_answer(frame)
                    else:
                        yield frame
        finally:
            self._over = True
            for parts in self._asked.values():
                parts.put_nowait(None)

    async def _receive(self, silence_s: float) -> bytes:
        try:
            async with asyncio.timeout(silence_s):
                data = await self._channel.read(READ_SIZE)
        except TimeoutError as error:
            raise ConnectionLost(
                f"the agent was silent for {silence_s:.0f} s",
                cause="the host or the network stands still",
            ) from error
        if not data:
            raise ConnectionLost("the agent ended", cause=await self._channel.ended())
        return data

    async def ask(
        self, op: str, stop: asyncio.Event | None = None, /, **fields: object
    ) -> AsyncGenerator[Answer, None]:
        """Give an order and yield the parts of its answer. Who leaves before the last one cancels the rest.

        `stop`, once set, tells the agent to come to an end, whose parts are still to be taken. Somebody
        has to take the `frames` meanwhile. Raises ConnectionLost, also when no part comes for 15 s.
        """
        number = next(self._ids)
        parts = self._asked[number] = asyncio.Queue()
        stopping = None if stop is None else asyncio.create_task(self._cancel_when(stop, number))
        try:
            await self.send(op, id=number, **fields)
            while True:
                part = await self._part(parts)
                if not part.more:
                    del self._asked[number]
                yield part
                if not part.more:
                    return
        finally:
            if stopping is not None:
                stopping.cancel()
            if self._asked.pop(number, None) is not None:
                await self._cancel(number)

    async def _cancel_when(self, stop: asyncio.Event, number: int) -> None:
        await stop.wait()
        await self._cancel(number)

    async def value(self, kind: type[_T], op: str, **fields: object) -> _T:
        """Give an order and return what it asked for.

        Raises ConnectionLost, and HostRefused with the agent's own words when it does not obey.
        """
        async with aclosing(self.ask(op, **fields)) as answers:
            async for answer in answers:
                if isinstance(answer, Reply) and answer.error is not None:
                    raise HostRefused(f"the host refused to {op}", cause=answer.error)
                if isinstance(answer, Value) and not answer.more:
                    return _decoded(answer, kind)
        raise AgentFailed(f"the agent gave no answer to {op}")

    async def obey(self, op: str, **fields: object) -> None:
        """Give an order that asks for nothing, and wait until it is carried out. Raises as `value` does."""
        async with aclosing(self.ask(op, **fields)) as answers:
            async for answer in answers:
                if isinstance(answer, Reply) and answer.error is not None:
                    raise HostRefused(f"the host refused to {op}", cause=answer.error)

    async def _part(self, parts: asyncio.Queue[Answer | None]) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_S):
                part = None if self._over and parts.empty() else await parts.get()
        except TimeoutError as error:
            raise ConnectionLost(f"the agent did not answer within {ANSWER_S:.0f} s") from error
        if part is None:
            raise ConnectionLost("the connection was lost before the answer came")
        return part

    async def _cancel(self, number: int) -> None:
        """Tell the agent that nobody waits any more; a link that takes nothing needs not be told."""
        with contextlib.suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(CANCEL_S):
                await self.send("cancel", id=number)

    async def send(self, op: str, **fields: object) -> None:
        """Give an order. Raises ConnectionLost."""
        await self._channel.write(frames.encode({"op": op, **fields}))

    async def close(self) -> None:
        """End the agent: its stdin ends, and so does it."""
        self._beats.cancel()
        self._channel.close()
        # Awaited as such, its cancellation could not be told from one of whoever closes.
        await asyncio.wait({self._beats})

    async def _beat(self) -> None:
        with contextlib.suppress(ConnectionLost):
            while True:
                number = next(self._ids)
                self._beaten = (number, time.monotonic())
                await self.send("beat", id=number)
                await asyncio.sleep(BEAT_S)

    def _take_answer(self, answer: Answer) -> None:
        """Hand an answer to whoever asked; nobody does any more when it was cancelled."""
        number, at = self._beaten
        if answer.id == number:
            self.rtt_s = time.monotonic() - at
        elif answer.id in self._asked:
            self._asked[answer.id].put_nowait(answer)


def _decoded(answer: Value, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(answer.value, type=kind)
    except msgspec.DecodeError as error:
        raise AgentFailed("the agent gave an answer of another kind", cause=str(error)) from error


async def _boot(channel: ByteChannel, host: Host, options: AgentOptions, python: str | None) -> bytes:
    """Start Python and send the parcel; returns what came after the mark."""
    mark = f"dsv4-{secrets.token_hex(8)}"
    await channel.write(start_script(mark, python))
    answer, rest = await _answer_after(mark.encode(), channel, host)
    if answer == b"none":
        raise AgentFailed(
            "no usable Python on the host",
            where=host.name,
            cause="neither a running SGLang server nor PATH has a Python of 3.8 or later",
            next_step=f'name one in config.toml: [hosts.{host.name}] python = "/path/to/python3"',
        )
    if answer == b"unusable":
        raise AgentFailed(
            f"{python} is not a usable Python of 3.8 or later",
            where=host.name,
            next_step=f"correct `python` under [hosts.{host.name}] in config.toml, or leave it out",
        )
    await channel.write(parcel(options))
    return rest


async def _answer_after(mark: bytes, channel: ByteChannel, host: Host) -> tuple[bytes, bytes]:
    """The word behind the mark, past whatever start-up files printed, and the bytes after its line."""
    seen = b""
    while True:
        _, found, tail = seen.partition(b"\n" + mark + b" ")
        word, ended, rest = tail.partition(b"\n")
        if found and ended:
            return word, rest
        if len(seen) > LONGEST_BANNER:
            raise AgentFailed(
                "the login shell prints without end",
                where=host.name,
                next_step="make its start-up files silent for commands",
            )
        seen += await _more(channel, host)


async def _more(channel: ByteChannel, host: Host) -> bytes:
    data = await channel.read(READ_SIZE)
    if not data:
        raise AgentFailed(
            "the agent could not be started",
            where=host.name,
            cause=await channel.ended(),
            next_step=f"try `ssh {host.name} /bin/sh` by hand: its start-up files may end the shell",
        )
    return data
