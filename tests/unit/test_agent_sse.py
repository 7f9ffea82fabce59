"""Events out of bytes: however the network cuts them, the same comes out."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent.sse import EventReader

MIXED = (
    b'data: {"choices":[{"delta":{"content":"\xc3\xa9"}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"caf\xc3\xa9"}}]}\r\n\r\n'
    b'data:{"choices":[{"delta":{"content":"x"}}]}\n\n'
    b"data: [DONE]\n\n"
)


def read(stream: bytes, cuts: list[int]) -> list[bytes]:
    reader = EventReader()
    edges = [0, *sorted(cuts), len(stream)]
    return [event for a, b in pairwise(edges) for event in reader.feed(stream[a:b])]


def contents(events: list[bytes]) -> list[str]:
    return [json.loads(event)["choices"][0]["delta"]["content"] for event in events]


@pytest.mark.parametrize("cuts", [[80, 91, 147, 156], [], list(range(1, len(MIXED)))])
def test_reads_do_not_match_events(cuts: list[int]) -> None:
    *chunks, done = read(MIXED, cuts)
    assert contents(chunks) == ["é", "café", "x"]
    assert done == b"[DONE]"


def test_an_event_is_complete_at_its_blank_line_not_before() -> None:
    reader = EventReader()
    assert reader.feed(b"data: a\r\n\r") == []
    assert reader.feed(b"\n") == [b"a"]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b": keep-alive\n\ndata: a\n\n", [b"a"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\ndata:\n\n\n\n", []),
        (b"data:  two spaces\n\n", [b" two spaces"]),
        (b"data: left unfinished\n", []),
        (b"database: a\n\n", []),
    ],
)
def test_what_is_an_event_and_what_is_not(stream: bytes, events: list[bytes]) -> None:
    assert read(stream, []) == events


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes], list[int]]:
    """A stream, its events, and where it is cut."""
    datas = draw(
        st.lists(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1),
            max_size=6,
        )
    )
    stream = b""
    for data in datas:
        ending = draw(st.sampled_from([b"\n", b"\r\n"]))
        noise = draw(st.sampled_from([b"", b": keep-alive" + ending, b"id: 7" + ending, ending]))
        stream += noise + b"data: " + data.encode() + ending + ending
    cuts = draw(st.lists(st.integers(0, len(stream))))
    return stream, [data.encode() for data in datas], cuts


@given(streams())
def test_any_cut_gives_the_same(case: tuple[bytes, list[bytes], list[int]]) -> None:
    stream, events, cuts = case
    assert read(stream, cuts) == events
