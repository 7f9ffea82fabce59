"""Questions to the agent and their answers, which come between everything else on one channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from console.agent import frames as agent_frames
from console.domain.errors import ConnectionLost
from console.remote import agent_link
from console.remote.agent_link import AgentLink
from console.remote.frames import Answer, Frame, FrameBuffer, Hello, Match, Matches, Page, Reply, TailEvent
from tests.integration.waiting import eventually

HELLO = Hello(1, 2, "python3", "3.11", "root", 0, "gpu-box", 0.0)


class Channel:
    """The agent's end of a link: what it was told, and what it says."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []
        self.news: asyncio.Queue[bytes] = asyncio.Queue()
        self.taken = asyncio.Condition()

    async def read(self, limit: int) -> bytes:
        return await self.news.get()

    async def write(self, data: bytes) -> None:
        reader = agent_frames.FrameReader()
        async with self.taken:
            self.orders += [header for header, _ in reader.feed(data)]
            self.taken.notify_all()

    def at_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.news.put_nowait(b"")

    async def ended(self) -> str:
        return "exited with 0"

    def say(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.news.put_nowait(agent_frames.encode(header, body))

    async def told(self, op: str) -> dict[str, Any]:
        """The first order of this kind."""
        async with asyncio.timeout(5), self.taken:
            await self.taken.wait_for(lambda: any(order["op"] == op for order in self.orders))
        return next(order for order in self.orders if order["op"] == op)


class Talk:
    """A link, and the frames that it passes on."""

    def __init__(self) -> None:
        self.channel = Channel()
        self.link = AgentLink(self.channel, HELLO, FrameBuffer(), [])
        self.frames: list[Frame] = []
        self.passing = asyncio.create_task(self._pass_on())

    async def _pass_on(self) -> None:
        async for frame in self.link.frames():
            self.frames.append(frame)

    async def answer(self) -> list[Answer]:
        async with aclosing(self.link.ask("read", path="/log", before=9)) as parts:
            return [part async for part in parts]


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    talk = Talk()
    yield talk
    await talk.link.close()
    with pytest.raises(ConnectionLost):
        await talk.passing


async def test_an_answer_comes_in_parts_between_other_frames(talk: Talk) -> None:
    asking = asyncio.create_task(talk.answer())
    order = await talk.channel.told("read")
    assert (order["path"], order["before"]) == ("/log", 9)
    talk.channel.say({"kind": "page", "id": order["id"], "offset": 0, "more": True}, b"one\n")
    talk.channel.say({"kind": "tail", "tail": "a", "event": "missing"})
    talk.channel.say({"kind": "page", "id": order["id"], "offset": 4, "more": False}, b"two\n")
    number = order["id"]
    assert await asking == [Page(number, 0, True, b"one\n"), Page(number, 4, False, b"two\n")]
    assert talk.frames == [TailEvent("a", "missing")]
    assert not any(order["op"] == "cancel" for order in talk.channel.orders)


async def test_two_questions_at_once_get_their_own_answers(talk: Talk) -> None:
    first, second = asyncio.create_task(talk.answer()), asyncio.create_task(talk.answer())
    async with asyncio.timeout(5), talk.channel.taken:
        await talk.channel.taken.wait_for(lambda: sum(o["op"] == "read" for o in talk.channel.orders) == 2)
    numbers = [order["id"] for order in talk.channel.orders if order["op"] == "read"]
    for number in reversed(numbers):
        talk.channel.say({"kind": "reply", "id": number, "error": f"no {number}"})
    assert [await first, await second] == [[Reply(number, f"no {number}")] for number in numbers]


async def test_leaving_early_cancels_on_the_host(talk: Talk) -> None:
    asking = asyncio.create_task(talk.answer())
    order = await talk.channel.told("read")
    asking.cancel()
    assert (await talk.channel.told("cancel"))["id"] == order["id"]
    talk.channel.say({"kind": "page", "id": order["id"], "offset": 0, "more": False}, b"too late")
    talk.channel.say({"kind": "tail", "tail": "a", "event": "missing"})
    await eventually(lambda: talk.frames, "no frame came")


async def test_no_answer_in_time_is_an_error(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_link, "ANSWER_S", 0.05)
    with pytest.raises(ConnectionLost, match="did not answer"):
        await talk.answer()
    await talk.channel.told("cancel")


async def test_the_end_of_the_link_ends_every_question(talk: Talk) -> None:
    asking = asyncio.create_task(talk.answer())
    await talk.channel.told("read")
    talk.channel.close()
    with pytest.raises(ConnectionLost, match="before the answer"):
        await asking
    with pytest.raises(ConnectionLost, match="before the answer"):
        await talk.answer()


async def test_a_beat_that_is_answered_tells_the_way_there_and_back(talk: Talk) -> None:
    beat = await talk.channel.told("beat")
    assert talk.link.rtt_s is None
    talk.channel.say({"kind": "reply", "id": beat["id"]})
    await eventually(lambda: talk.link.rtt_s is not None, "no answer was seen")
    assert talk.link.rtt_s is not None
    assert 0 < talk.link.rtt_s < 5


def test_every_part_of_a_search_becomes_its_value() -> None:
    found = {"matches": [{"offset": 1, "size": 2, "text": "x"}], "searched": 3, "size": 4, "cut_lines": 5}
    last = {"kind": "matches", "id": 9, "more": False, "complete": True, "note": None}
    (frame,) = FrameBuffer().feed(agent_frames.encode(last | found))
    assert frame == Matches(9, False, (Match(1, 2, "x"),), 3, 4, 5, True)


async def test_who_closes_a_link_can_be_cancelled(talk: Talk) -> None:
    """A watch that is ended while a lost connection is closed would otherwise connect again, for ever."""
    await talk.channel.told("beat")
    closing = asyncio.create_task(talk.link.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()
    with pytest.raises(ConnectionLost, match="the agent ended"):
        await talk.passing
