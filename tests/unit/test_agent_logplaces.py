"""Where a server's output goes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_proc_fakes import PREFILL, FakeProc

from console.domain.server import LogPlace


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def test_a_file(proc: FakeProc, tmp_path: Path) -> None:
    log = tmp_path / "prefill.log"
    log.touch()
    proc.add(500, PREFILL, stdout=log)
    assert proc.only().log == LogPlace(kind="file", path=str(log))


def test_a_file_on_stderr_only(proc: FakeProc, tmp_path: Path) -> None:
    log = tmp_path / "prefill.err"
    log.touch()
    proc.add(500, PREFILL, fds={2: log})
    place = proc.only().log
    assert (place.kind, place.path) == ("file", str(log))
    assert place.detail == "only its stderr is a file; stdout is thrown away (/dev/null)"


def test_a_file_inside_a_container(proc: FakeProc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = proc.root / "500"
    inside = folder / "root/var/server.log"
    proc.add(500, PREFILL, mount="mnt:[2]", stdout=inside)
    inside.parent.mkdir(parents=True)
    inside.touch()
    reads_as(monkeypatch, "/500/fd/1", "/var/server.log")
    place = proc.only().log
    assert (place.kind, place.path) == ("file", str(inside))


def test_a_file_of_the_same_name_here_is_not_taken_for_it(
    proc: FakeProc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here.log", "there.log"):
        (tmp_path / name).touch()
    proc.add(500, PREFILL, mount="mnt:[2]", stdout=tmp_path / "there.log")
    reads_as(monkeypatch, "/500/fd/1", str(tmp_path / "here.log"))
    place = proc.only().log
    assert (place.kind, place.path) == ("file", f"{proc.root}/500/fd/1")
    assert place.detail == f"{tmp_path}/here.log cannot be reached by that name from here"


def test_a_deleted_file(proc: FakeProc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inode").touch()
    proc.add(500, PREFILL, stdout=tmp_path / "inode")
    reads_as(monkeypatch, "/500/fd/1", "/logs/server.log (deleted)")
    place = proc.only().log
    assert (place.kind, place.path) == ("deleted", f"{proc.root}/500/fd/1")
    assert place.detail is not None
    assert place.detail.startswith("/logs/server.log was deleted")


def test_a_name_that_only_ends_like_that(proc: FakeProc, tmp_path: Path) -> None:
    log = tmp_path / "server.log (deleted)"
    log.touch()
    proc.add(500, PREFILL, stdout=log)
    assert proc.only().log == LogPlace(kind="file", path=str(log))


def test_a_name_that_is_no_utf_8(proc: FakeProc, tmp_path: Path) -> None:
    log = Path(os.fsdecode(os.fsencode(tmp_path) + b"/server\xff.log"))
    log.touch()
    proc.add(500, PREFILL, stdout=log)
    place = proc.only().log
    assert (place.kind, place.path) == ("file", f"{proc.root}/500/fd/1")


@pytest.mark.parametrize(
    ("target", "kind", "words"),
    [
        ("/dev/null", "null", "thrown away"),
        ("/dev/pts/3", "terminal", "/dev/pts/3"),
        ("/dev/tty1", "terminal", "kept nowhere"),
        ("socket:[77]", "socket", "journalctl _PID=500"),
        ("pipe:[99]", "pipe", "stdout is a pipe: no log file to follow"),
    ],
)
def test_no_file(proc: FakeProc, target: str, kind: str, words: str) -> None:
    proc.add(500, PREFILL, stdout=target)
    place = proc.only().log
    assert (place.kind, place.path) == (kind, None)
    assert place.detail is not None
    assert words in place.detail


def test_a_pipe_into_tee_leads_to_its_file(proc: FakeProc, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.touch()
    proc.add(500, PREFILL, stdout="pipe:[99]")
    proc.add(501, "tee server.log", comm="tee", stdout="/dev/pts/1", fds={0: "pipe:[99]", 3: log})
    place = proc.only().log
    assert (place.kind, place.path) == ("file", str(log))
    assert place.detail == "stdout is a pipe to pid 501 (tee)"


def test_a_pipe_into_another_program(proc: FakeProc) -> None:
    proc.add(500, PREFILL, stdout="pipe:[99]")
    proc.add(501, "svlogd /var/log", comm="svlogd", fds={0: "pipe:[99]"})
    place = proc.only().log
    assert place.kind == "pipe"
    assert place.detail == "stdout is a pipe to pid 501 (svlogd); no log file to follow"


def test_a_container_keeps_the_log(proc: FakeProc) -> None:
    proc.add(400, "/usr/bin/containerd-shim-runc-v2 -id ab", comm="containerd-shim")
    proc.add(450, "/bin/bash /entry.sh", ppid=400)
    proc.add(500, PREFILL, ppid=450, stdout="pipe:[99]")
    place = proc.only().log
    assert place.detail is not None
    assert "docker logs" in place.detail


def test_a_closed_stdout(proc: FakeProc) -> None:
    folder = proc.add(500, PREFILL)
    for number in "12":
        (folder / "fd" / number).unlink()
    assert proc.only().log.kind == "unknown"


def test_of_another_user(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(500, PREFILL)
    refuse(monkeypatch, "readlink", "/500/fd/")
    refuse(monkeypatch, "listdir", "/500/fd")
    server = proc.only()
    assert server.log.kind == "denied"
    assert server.log.detail == f"stdout of pid 500 may not be seen: it runs as {server.user}"
    assert server.listening is None


def test_a_file_that_may_not_be_read(proc: FakeProc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "server.log"
    log.touch(mode=0o600)
    proc.add(500, PREFILL, stdout=log)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    place = proc.only().log
    assert place.kind == "denied"
    assert place.detail is not None
    assert "mode 600" in place.detail


def reads_as(monkeypatch: pytest.MonkeyPatch, end: str, target: str) -> None:
    """Let a descriptor's link read as the kernel shows it; it leads to the file whatever the name."""
    original = os.readlink
    monkeypatch.setattr(os, "readlink", lambda path: target if path.endswith(end) else original(path))


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, part: str) -> None:
    """Let a call of `os` fail as it does for somebody without the right; the tests may run as root."""
    original: Callable[[str], Any] = getattr(os, name)

    def call(path: str) -> Any:
        if part in path:
            raise PermissionError(13, "Permission denied", path)
        return original(path)

    monkeypatch.setattr(os, name, call)
