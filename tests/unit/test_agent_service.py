"""The agent's loop by itself: orders in, frames out, and when it gives up."""

from pathlib import Path

import pytest

from console.agent import service
from console.agent.frames import Header


class Frames:
    """Takes what the agent writes."""

    def __init__(self) -> None:
        self.seen: list[tuple[Header, bytes]] = []
        self.idle = True
        self.dropped = 0

    def put(self, header: Header, body: bytes = b"") -> None:
        self.seen.append((header, body))

    put_sample = put

    def flush(self) -> None:
        self.flushed = len(self.seen)

    def kinds(self) -> list[str]:
        return [header["kind"] for header, _ in self.seen]

    def of_kind(self, kind: str) -> list[Header]:
        return [header for header, _ in self.seen if header["kind"] == kind]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def frames() -> Frames:
    return Frames()


@pytest.fixture
def agent(frames: Frames, clock: Clock) -> service.Agent:
    options = {"interval": 1.0, "only_env": "DSV4_TEST=nobody"}
    return service.Agent(options, frames, clock=clock)  # type: ignore[arg-type] # the methods that are used


def test_hello_comes_first_then_servers_and_a_sample(agent: service.Agent, frames: Frames) -> None:
    agent.start()
    agent.step()
    assert frames.kinds() == ["hello", "servers", "sample"]
    hello = frames.seen[0][0]
    assert hello["protocol"] == 1
    assert hello["python"]


def test_samples_come_at_the_interval_and_a_stall_makes_no_burst(
    agent: service.Agent, frames: Frames, clock: Clock
) -> None:
    agent.step()
    clock.now += 0.5
    agent.step()
    assert len(frames.of_kind("sample")) == 1
    clock.now += 30.0
    agent.step()
    agent.step()
    assert len(frames.of_kind("sample")) == 2


def test_the_interval_can_be_changed_within_bounds(
    agent: service.Agent, frames: Frames, clock: Clock
) -> None:
    agent.step()
    agent.obey({"op": "interval", "seconds": 0.001})
    agent.step()
    clock.now += 0.21
    agent.step()
    assert len(frames.of_kind("sample")) == 3


def test_a_log_is_followed_chunk_by_chunk(
    agent: service.Agent, frames: Frames, clock: Clock, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\n\xff\xfe two\n")
    agent.obey({"op": "tail", "tail": "a", "path": str(log), "lines": 2000})
    agent.step()
    assert frames.of_kind("tail")[0]["event"] == "opened"
    assert [body for header, body in frames.seen if header["kind"] == "log"] == [b"one\n\xff\xfe two\n"]
    agent.obey({"op": "untail", "tail": "a"})
    log.write_bytes(b"one\n\xff\xfe two\nthree\n")
    clock.now += 5
    agent.step()
    assert len(frames.of_kind("log")) == 1


def test_each_tail_gets_its_turn(agent: service.Agent, frames: Frames, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(name.encode() + b"\n")
        agent.obey({"op": "tail", "tail": name, "path": str(tmp_path / name)})
    agent.step()
    assert [header["tail"] for header in frames.of_kind("log")] == ["a", "b", "c"]


def test_a_log_with_more_to_read_is_due_at_once(agent: service.Agent, frames: Frames, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x\n" * 100_000)
    agent.obey({"op": "tail", "tail": "a", "path": str(tmp_path / "big"), "lines": 100_000})
    assert agent.step() == 0.0
    assert frames.flushed == len(frames.seen), "what was read is on its way before the wait"


def test_no_log_is_read_while_the_connection_is_full(
    agent: service.Agent, frames: Frames, clock: Clock, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\n")
    agent.obey({"op": "tail", "tail": "a", "path": str(log)})
    frames.idle = False
    clock.now += 5
    due = agent.step()
    assert frames.of_kind("log") == []
    assert due > 0, "it must wait for the connection, not spin"


def test_a_beat_with_an_id_is_answered(agent: service.Agent, frames: Frames) -> None:
    agent.obey({"op": "beat", "id": 7})
    agent.obey({"op": "beat"})
    assert frames.of_kind("reply") == [{"kind": "reply", "id": 7}]


def test_an_unknown_order_is_answered_with_a_sentence(agent: service.Agent, frames: Frames) -> None:
    agent.obey({"op": "dance", "id": 1})
    assert "unknown order" in frames.of_kind("reply")[0]["error"]


def test_silence_for_more_than_ten_seconds_is_the_end(agent: service.Agent, clock: Clock) -> None:
    clock.now += 9.9
    assert not agent.abandoned()
    agent.obey({"op": "beat"})
    clock.now += 10.1
    assert agent.abandoned()


def test_a_fresh_reading_of_the_gpus_is_sent_at_once(
    agent: service.Agent, frames: Frames, clock: Clock
) -> None:
    agent.step()
    clock.now += 0.7
    agent.gpus_were_read()
    assert len(frames.of_kind("sample")) == 2
    clock.now += 1.1
    agent.step()
    assert len(frames.of_kind("sample")) == 2, "the clock waits for the next reading"
    clock.now += 0.5
    agent.step()
    assert len(frames.of_kind("sample")) == 3, "but not for ever"
