"""The agent's loop by itself: orders in, frames out, and when it gives up."""

from pathlib import Path

import pytest

from console.agent import service
from console.agent.frames import Header
from console.agent.logreader import LogReader


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

    def bodies(self, kind: str) -> list[bytes]:
        return [body for header, body in self.seen if header["kind"] == kind]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def identity(path: Path) -> dict[str, int]:
    """The fields by which an order names a file."""
    status = path.stat()
    return {"dev": status.st_dev, "inode": status.st_ino}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def frames() -> Frames:
    return Frames()


@pytest.fixture
def agent(frames: Frames, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Agent:
    monkeypatch.setenv("DSV4_AGENT_STATE", str(tmp_path / "state"))
    options = {"interval": 1.0, "only_env": "DSV4_TEST=nobody"}
    return service.Agent(options, frames, clock=clock)  # type: ignore[arg-type] # the methods that are used


def test_hello_comes_first_then_servers_records_and_a_sample(agent: service.Agent, frames: Frames) -> None:
    agent.start()
    agent.step()
    assert frames.kinds() == ["hello", "servers", "records", "sample"]
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


def test_lines_before_an_offset_are_read_on_request(
    agent: service.Agent, frames: Frames, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\ntwo\nthree\n")
    agent.obey({"op": "read", "id": 7, "path": str(log), "before": 8} | identity(log))
    agent.step()
    assert frames.bodies("page") == [b"one\ntwo\n"]
    assert [(header["id"], header["offset"], header["more"]) for header in frames.of_kind("page")] == [
        (7, 0, False)
    ]
    agent.step()
    assert len(frames.of_kind("page")) == 1


def test_what_a_tail_holds_open_is_read_though_it_has_no_name(
    agent: service.Agent, frames: Frames, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\ntwo\n")
    file = identity(log)
    agent.obey({"op": "tail", "tail": "a", "path": str(log)})
    agent.step()
    log.unlink()
    agent.obey({"op": "read", "id": 1, "path": str(log), "before": 8} | file)
    agent.step()
    assert frames.bodies("page") == [b"one\ntwo\n"]


def test_a_log_that_was_rotated_is_read_under_its_new_name_and_one_that_is_gone_is_told(
    agent: service.Agent, frames: Frames, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\ntwo\n")
    order = {"op": "read", "path": str(log), "before": 4} | identity(log)
    log.rename(tmp_path / "server.log.1")
    log.write_bytes(b"other\n")
    agent.obey(dict(order, id=1))
    agent.step()
    assert frames.bodies("page") == [b"one\n"]
    (tmp_path / "server.log.1").rename(tmp_path / "elsewhere")
    agent.obey(dict(order, id=2))
    agent.step()
    assert frames.of_kind("reply")[-1] == {
        "kind": "reply",
        "id": 2,
        "error": "the log file is no longer there",
        "more": False,
    }


def test_a_log_that_was_truncated_is_told(agent: service.Agent, frames: Frames, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\n")
    agent.obey({"op": "read", "id": 1, "path": str(log), "before": 99} | identity(log))
    agent.step()
    assert "truncated" in frames.of_kind("reply")[-1]["error"]


def test_a_page_and_a_tail_take_turns(agent: service.Agent, frames: Frames, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"x" * 59 + b"\n" + b"y" * 200_000)
    agent.obey({"op": "tail", "tail": "a", "path": str(log)})
    agent.obey({"op": "read", "id": 1, "path": str(log), "before": 200_060} | identity(log))
    for _ in range(3):
        assert agent.step() == 0.0
    logs_and_pages = [kind for kind in frames.kinds() if kind in ("log", "page")]
    assert logs_and_pages == ["log", "page", "log", "page", "log", "page"]


def test_a_search_is_waited_for_at_its_descriptor_and_can_be_cancelled(
    agent: service.Agent, frames: Frames, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"a" * 64 + b"!\n")
    agent.obey({"op": "search", "id": 5, "path": str(log), "pattern": "^(a+)+$"})
    assert agent.step() > 0.0, "it must wait, not spin"
    assert len(agent.readable()) == 1
    agent.obey({"op": "cancel", "id": 5})
    assert agent.readable() == []
    agent.obey({"op": "cancel", "id": 5})
    agent.step()
    assert frames.of_kind("matches") == []


def test_no_part_is_read_while_the_connection_is_full(
    agent: service.Agent, frames: Frames, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\n")
    agent.obey({"op": "search", "id": 1, "path": str(log), "pattern": "one"})
    agent.obey({"op": "read", "id": 2, "path": str(log), "before": 4})
    frames.idle = False
    assert agent.step() > 0.0
    assert agent.readable() == []
    assert frames.of_kind("page") == []
    agent.obey({"op": "cancel", "id": 1})


def test_too_many_questions_at_once_are_refused(agent: service.Agent, frames: Frames, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\n")
    for number in range(9):
        agent.obey({"op": "read", "id": number, "path": str(log), "before": 4})
    assert [reply["id"] for reply in frames.of_kind("reply")] == [8]
    agent.step()
    assert len(frames.of_kind("page")) == 8


def test_a_full_disk_under_a_log_is_told_once_and_its_end_too(
    agent: service.Agent, frames: Frames, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\n")
    left = [100, 100, 1 << 30]
    monkeypatch.setattr(LogReader, "space", lambda reader: left.pop(0))
    agent.obey({"op": "tail", "tail": "a", "path": str(log)})
    while left:
        clock.now += 6
        agent.step()
    clock.now += 1
    agent.step()
    events = [header["event"] for header in frames.of_kind("tail")]
    assert events == ["opened", "full", "space"]
    assert frames.of_kind("tail")[1]["detail"] == "100 bytes left"
