"""What happens to logs on real hosts: rotation of every kind, a full disk, a kill in the middle of a line.

The writer is a process of its own, the way to it a real sshd.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.scripted import ScriptedServer
from tests.integration.sshd import SshServer
from tests.integration.watching import Watching, watching


@pytest.fixture
def writer(tmp_path: Path, gpu_box: SshServer) -> Iterator[ScriptedServer]:
    """A server that has written the lines 1 to 10 to a log that was there before."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "server.log").write_text("yesterday 1\nyesterday 2\n")
    server = ScriptedServer(folder, str(tmp_path))
    server.lines(10)
    yield server
    server.kill()


def lines(first: int, last: int) -> list[str]:
    """The writer's lines from `first` to `last`."""
    return [f"line {number}" for number in range(first, last + 1)]


SEEN_FIRST = ["yesterday 1", "yesterday 2", *lines(1, 10)]


async def until_read(seen: Watching, last: int) -> None:
    """Wait for the writer's line of this number."""
    await seen.until(lambda: seen.texts[-1:] == [f"line {last}"])


def assert_numbers_go_on(seen: Watching) -> None:
    """A line keeps its number for ever, whatever happens to the file."""
    assert [line.number for line in seen.lines] == list(range(1, len(seen.lines) + 1))


async def test_a_log_that_was_there_before_is_shown_and_gone_on_with(writer: ScriptedServer) -> None:
    async with watching("gpu-box") as seen:
        await until_read(seen, 10)
        writer.lines(5)
        await until_read(seen, 15)
    assert seen.texts == SEEN_FIRST + lines(11, 15)
    assert_numbers_go_on(seen)
    assert seen.notes == []


async def test_rename_and_a_writer_that_opens_the_new_file(writer: ScriptedServer) -> None:
    async with watching("gpu-box") as seen:
        await until_read(seen, 10)
        writer.lines(5)
        writer.log.rename(writer.log.with_name("server.log.1"))
        writer.lines(5)
        writer.reopen()
        writer.lines(5)
        await until_read(seen, 25)
    assert seen.texts == SEEN_FIRST + lines(11, 25)
    assert_numbers_go_on(seen)
    assert any("rotated" in note for note in seen.notes)


async def test_rename_and_a_writer_that_knows_nothing_of_it(writer: ScriptedServer) -> None:
    async with watching("gpu-box") as seen:
        await until_read(seen, 10)
        writer.log.rename(writer.log.with_name("server.log.1"))
        writer.log.touch()
        writer.lines(5)
        await until_read(seen, 15)
    assert seen.texts == SEEN_FIRST + lines(11, 15)


async def test_copytruncate(writer: ScriptedServer) -> None:
    async with watching("gpu-box") as seen:
        await until_read(seen, 10)
        shutil.copy(writer.log, writer.log.with_name("server.log.1"))
        os.truncate(writer.log, 0)
        writer.lines(100)
        await until_read(seen, 110)
    assert seen.texts == SEEN_FIRST + lines(11, 110)
    assert_numbers_go_on(seen)
    assert any("truncated" in note for note in seen.notes)


async def test_delete_and_make_anew(writer: ScriptedServer) -> None:
    async with watching("gpu-box") as seen:
        await until_read(seen, 10)
        writer.log.unlink()
        writer.lines(5)
        await until_read(seen, 15)
        writer.reopen()
        writer.lines(5)
        await until_read(seen, 20)
    assert seen.texts == SEEN_FIRST + lines(11, 20)
    assert_numbers_go_on(seen)


async def test_killed_in_the_middle_of_a_line(writer: ScriptedServer) -> None:
    """Case A10: the half line is the last word; it waits for its end only while somebody can write one."""
    async with watching("gpu-box") as seen:
        await until_read(seen, 10)
        writer.text("Loading safetensors checkpoint shards:  61%")
        await seen.until(lambda: seen.live is not None)
        assert seen.texts == SEEN_FIRST
        writer.kill()
        await seen.until(lambda: len(seen.lines) > len(SEEN_FIRST), 5.0)
    assert seen.texts == [*SEEN_FIRST, "Loading safetensors checkpoint shards:  61%"]
    assert seen.live is None
    assert_numbers_go_on(seen)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_a_full_disk(tmp_path: Path, gpu_box: SshServer, small_disk: Path) -> None:
    server = ScriptedServer(small_disk / "run", str(tmp_path))
    try:
        async with watching("gpu-box") as seen:
            server.lines(10)
            await until_read(seen, 10)
            ballast = small_disk / "ballast"
            ballast.write_bytes(bytes(3 << 20))
            server.text("x" * 900_000)
            server.lines(30_000)
            written = server.log.read_text().splitlines()
            await seen.until(lambda: len(seen.lines) >= len(written) - 1)
            assert len(written) < 30_000
            await seen.until(lambda: any("is full" in note for note in seen.notes))
            ballast.unlink()
            server.lines(1)
            await seen.until(lambda: seen.texts[-1].endswith("line 30011"))
            await seen.until(lambda: any("has room again" in note for note in seen.notes))
        assert seen.texts[:10] == lines(1, 10)
        assert seen.texts[11 : len(written) - 1] == written[11:-1]
    finally:
        server.kill()


async def test_rotation_while_disconnected(writer: ScriptedServer, gpu_box: SshServer) -> None:
    async with watching("gpu-box") as seen:
        await until_read(seen, 10)
        gpu_box.stop()
        await seen.until(lambda: seen.host.connection == "lost")
        writer.lines(5)
        writer.log.rename(writer.log.with_name("server.log.1"))
        writer.reopen()
        writer.lines(5)
        gpu_box.start()
        await until_read(seen, 20)
    assert seen.texts == SEEN_FIRST + lines(11, 20)
    assert_numbers_go_on(seen)


async def test_truncation_and_growth_past_the_old_end_while_disconnected(
    writer: ScriptedServer, gpu_box: SshServer
) -> None:
    async with watching("gpu-box") as seen:
        await until_read(seen, 10)
        gpu_box.stop()
        await seen.until(lambda: seen.host.connection == "lost")
        os.truncate(writer.log, 0)
        writer.lines(1000)
        gpu_box.start()
        await until_read(seen, 1010)
    assert seen.texts == SEEN_FIRST + lines(11, 1010)
    assert any("truncated" in note for note in seen.notes)


async def test_deleted_while_disconnected(writer: ScriptedServer, gpu_box: SshServer) -> None:
    """The old file lives on in the writer only, so that what it wrote last cannot be had; that is said."""
    async with watching("gpu-box") as seen:
        await until_read(seen, 10)
        gpu_box.stop()
        await seen.until(lambda: seen.host.connection == "lost")
        writer.lines(5)
        writer.log.unlink()
        writer.reopen()
        writer.lines(5)
        gpu_box.start()
        await until_read(seen, 20)
    assert seen.texts == SEEN_FIRST + lines(16, 20)
    assert any("gone" in note for note in seen.notes)
