"""What is said of one server that was found."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_proc_fakes import BOOT_TIME, DECODE, PREFILL, ROUTER, TICKS, FakeProc

from console.agent.processes import REREAD_S


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


class TestFacts:
    """What is said of one server."""

    def test_of_a_prefill_server(self, proc: FakeProc) -> None:
        proc.add(500, PREFILL, comm="py (thon) 3", group=490, session=480, start=1234)
        server = proc.only()
        assert server.key == (500, 1234)
        assert server.start_time == pytest.approx(BOOT_TIME + 1234 / TICKS)
        assert (server.role, server.port, server.bootstrap_port) == ("prefill", 30000, 8998)
        assert (server.state, server.pgid, server.sid) == ("S", 490, 480)
        assert server.gpus == (0, 1, 2, 3)
        assert server.command == tuple(PREFILL.split())
        assert server.user is not None
        assert server.metrics_port is None

    def test_of_a_decode_server_that_sees_some_gpus(self, proc: FakeProc) -> None:
        proc.add(501, DECODE.replace(" --base-gpu-id 4", ""), environment="CUDA_VISIBLE_DEVICES=4,5,6,7")
        assert proc.only().gpus == (4, 5, 6, 7)

    def test_of_a_router(self, proc: FakeProc) -> None:
        proc.add(502, ROUTER)
        server = proc.only()
        assert (server.role, server.port, server.metrics_port) == ("router", 8000, 29000)
        assert server.workers == ("http://a:30000", "http://a:30001")

    def test_listening_ports_of_both_protocols(self, proc: FakeProc) -> None:
        proc.add(500, PREFILL)
        proc.listen(500, {7: 8998})
        proc.listen(500, {8: 30000}, table="tcp6")
        assert proc.only().listening == (8998, 30000)

    def test_ports_are_looked_for_until_the_server_listens(self, proc: FakeProc) -> None:
        proc.add(500, PREFILL)
        assert proc.only().listening == ()
        proc.listen(500, {7: 30000})
        proc.clock.now += 6
        assert proc.only().listening == (30000,)

    def test_an_environment_that_cannot_be_read_leaves_gpus_unknown(self, proc: FakeProc) -> None:
        folder = proc.add(500, PREFILL)
        (folder / "environ").unlink()
        assert proc.only().gpus is None


class TestRenamedRouter:
    """The router overwrites its command line with `sglang::router`."""

    def rename(self, proc: FakeProc, pid: int) -> None:
        (proc.root / str(pid) / "cmdline").write_bytes(b"sglang::router" + b"\0" * 200)
        (proc.root / str(pid) / "environ").write_bytes(b"\0" * 300)

    def test_what_its_command_line_said_is_remembered(self, proc: FakeProc) -> None:
        proc.add(502, ROUTER.replace("--port 8000", "--port 8123 --prometheus-port 29100"))
        before = proc.only()
        self.rename(proc, 502)
        proc.clock.now += 2 * REREAD_S
        after = proc.only()
        assert after == before
        assert (after.port, after.metrics_port, len(after.workers)) == (8123, 29100, 2)

    def test_first_seen_renamed_its_sockets_tell(self, proc: FakeProc) -> None:
        proc.add(502, "x")
        self.rename(proc, 502)
        proc.listen(502, {9: 29000, 12: 8000})
        server = proc.only()
        assert (server.role, server.port, server.metrics_port) == ("router", 8000, 29000)
        assert server.listening == (8000, 29000)
        assert server.workers == ()

    @pytest.mark.parametrize("ports", [{9: 29100, 12: 8000}, {9: 8000}, {}, {9: 29000, 12: 8000, 13: 8001}])
    def test_sockets_that_do_not_tell_are_listed_only(self, proc: FakeProc, ports: dict[int, int]) -> None:
        proc.add(502, "x")
        self.rename(proc, 502)
        proc.listen(502, ports)
        server = proc.only()
        assert (server.port, server.metrics_port) == (None, None)
        assert server.listening == tuple(sorted(ports.values()))

    def test_its_environment_is_found_by_its_library(self, proc: FakeProc, tmp_path: Path) -> None:
        venv = make_venv(tmp_path / "venv", "sglang_router-0.3.2.dist-info")
        folder = proc.add(502, "x")
        self.rename(proc, 502)
        library = venv / "lib/python3.12/site-packages/sglang_router/sglang_router_rs.abi3.so"
        (folder / "maps").write_text(f"7f00-7f01 r-xp 00000000 fe:00 123    {library}\n")
        server = proc.only()
        assert (server.python, server.version) == (str(venv / "bin/python"), "0.3.2")


def make_venv(folder: Path, *dist_infos: str) -> Path:
    """A virtual environment as far as it is looked at."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").touch()
    for name in dist_infos:
        (folder / "lib/python3.12/site-packages" / name).mkdir(parents=True)
    return folder


class TestInstall:
    """Which Python, which SGLang."""

    def test_an_absolute_interpreter(self, proc: FakeProc, tmp_path: Path) -> None:
        venv = make_venv(tmp_path / "a[b]", "sglang-0.5.15.dist-info", "sglang_router-0.3.2.dist-info")
        proc.add(500, f"'{venv}/bin/python' -m sglang.launch_server")
        server = proc.only()
        assert (server.python, server.version) == (str(venv / "bin/python"), "0.5.15")

    def test_other_packages_of_like_name_do_not_count(self, proc: FakeProc, tmp_path: Path) -> None:
        venv = make_venv(tmp_path / "venv", "sglang_kernel-0.4.1.dist-info", "sglang_router-0.3.2.dist-info")
        proc.add(500, f"{venv}/bin/python -m sglang.launch_server")
        assert proc.only().version is None

    def test_a_name_is_looked_up_as_the_shell_did(self, proc: FakeProc, tmp_path: Path) -> None:
        venv = make_venv(tmp_path / "venv", "sglang-0.5.23.dist-info")
        proc.add(
            500, "python -m sglang.launch_server", environment=f"PATH={tmp_path}/empty:{venv}/bin:/usr/bin"
        )
        server = proc.only()
        assert (server.python, server.version) == (str(venv / "bin/python"), "0.5.23")

    def test_a_relative_path_starts_at_the_working_folder(self, proc: FakeProc, tmp_path: Path) -> None:
        venv = make_venv(tmp_path / "venv", "sglang-0.5.23.dist-info")
        folder = proc.add(500, "../venv/bin/python -m sglang.launch_server")
        (tmp_path / "work").mkdir()
        (folder / "cwd").symlink_to(tmp_path / "work")
        assert proc.only().python == str(venv / "bin/python")

    def test_the_executable_is_the_last_resort(self, proc: FakeProc, tmp_path: Path) -> None:
        venv = make_venv(tmp_path / "base", "sglang-0.5.8.dist-info")
        folder = proc.add(500, "sglang serve")
        (folder / "exe").symlink_to(venv / "bin/python")
        server = proc.only()
        assert (server.python, server.version) == (str(venv / "bin/python"), "0.5.8")

    def test_in_a_container_the_version_is_read_there(self, proc: FakeProc, tmp_path: Path) -> None:
        folder = proc.add(500, "/opt/v/bin/python -m sglang.launch_server", mount="mnt:[2]")
        make_venv(folder / "root/opt/v", "sglang-0.5.15.dist-info")
        server = proc.only()
        assert server.version == "0.5.15"
        assert server.python is None
