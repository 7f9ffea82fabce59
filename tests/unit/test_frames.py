"""The wire format, both ends of it."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import frames as agent_frames
from console.domain.errors import AgentFailed
from console.domain.gpu import Sample
from console.domain.run_record import HostRecords
from console.remote.frames import FrameBuffer, LogBytes, ServersFound, TailEvent, decode, encode

LOG = {"kind": "log", "tail": "7.9", "dev": 1, "inode": 2, "offset": 3}
SAMPLE = {
    "kind": "sample",
    "seq": 1,
    "host": {"hostname": "h", "time": 1.0},
    "gpu": {"source": "none", "gpus": []},
}


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 40))
def test_log_chunks_survive_any_chunking(bodies: list[bytes], size: int) -> None:
    wire = b"".join(agent_frames.encode(LOG, body) for body in bodies)
    buffer = FrameBuffer()
    seen = [frame for i in range(0, len(wire), size) for frame in buffer.feed(wire[i : i + size])]
    assert [frame.data for frame in seen if isinstance(frame, LogBytes)] == bodies


@given(st.integers(1, 30))
def test_orders_reach_the_agent_in_any_chunking(size: int) -> None:
    wire = encode({"op": "beat", "id": 1}) + encode({"op": "tail", "tail": "a", "path": "/x y"})
    reader = agent_frames.FrameReader()
    seen = [frame for i in range(0, len(wire), size) for frame in reader.feed(wire[i : i + size])]
    assert [header["op"] for header, _ in seen] == ["beat", "tail"]


def test_each_kind_becomes_its_value() -> None:
    process = {
        "pid": 5,
        "start_ticks": 6,
        "start_time": 7.0,
        "role": "decode",
        "log": {"kind": "file", "path": "/l"},
    }
    wire = (
        agent_frames.encode(SAMPLE)
        + agent_frames.encode({"kind": "servers", "servers": [process], "time": 1.0})
        + agent_frames.encode({"kind": "tail", "tail": "a", "event": "missing"})
    )
    sample, servers, event = FrameBuffer().feed(wire)
    assert isinstance(sample, Sample)
    assert sample.host.load1 is None
    assert isinstance(servers, ServersFound)
    assert servers.servers[0].key == (5, 6)
    assert event == TailEvent("a", "missing")


@pytest.mark.parametrize(
    "noise", [b"HTTP/1.1 400 Bad Request\r\n\r\n", agent_frames.encode({"kind": "poem"})]
)
def test_nonsense_is_told_as_such(noise: bytes) -> None:
    with pytest.raises(AgentFailed):
        list(FrameBuffer().feed(noise))


@pytest.mark.parametrize(
    "noise", [b"\xff" * 8, agent_frames.LENGTHS.pack(2, 0) + b"[]", agent_frames.LENGTHS.pack(1, 0) + b"{"]
)
def test_the_agent_refuses_nonsense(noise: bytes) -> None:
    with pytest.raises(agent_frames.BrokenFrame):
        list(agent_frames.FrameReader().feed(noise))


class Pipe:
    """A pipe whose write end does not block and whose read end is drained on request."""

    def __init__(self) -> None:
        self.out, self.fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self.out, False)

    def drain(self) -> bytes:
        """Everything that is in the pipe."""
        data = b""
        try:
            while piece := os.read(self.out, 1 << 20):
                data += piece
        except BlockingIOError:
            pass
        return data


@pytest.fixture
def pipe():
    pipe = Pipe()
    yield pipe
    os.close(pipe.out)
    os.close(pipe.fd)


def test_a_partial_write_is_finished_before_the_next_frame(pipe: Pipe) -> None:
    writer = agent_frames.FrameWriter(pipe.fd)
    writer.put(LOG, b"x" * 900_000)
    writer.flush()
    writer.put_sample(SAMPLE)
    assert not writer.idle
    got = b""
    while not writer.idle:
        got += pipe.drain()
        writer.flush()
    kinds = [type(frame).__name__ for frame in FrameBuffer().feed(got + pipe.drain())]
    assert kinds == ["LogBytes", "Sample"]


def test_telemetry_goes_first_and_only_the_newest_is_kept(pipe: Pipe) -> None:
    writer = agent_frames.FrameWriter(pipe.fd)
    writer.put(LOG, b"x")
    for seq in (1, 2, 3):
        writer.put_sample(dict(SAMPLE, seq=seq))
    writer.flush()
    first, second = FrameBuffer().feed(pipe.drain())
    assert isinstance(first, Sample)
    assert first.seq == 3
    assert writer.dropped == 2
    assert isinstance(second, LogBytes)


def test_records_of_another_version_are_a_note() -> None:
    """They must not end the link: the servers are still to be watched."""
    frame = decode(b'{"kind": "records", "deployment": {"id": "x", "shape": "new"}}', b"")
    assert isinstance(frame, HostRecords)
    assert frame.deployment is None
    assert frame.note is not None
    assert "another version" in frame.note
