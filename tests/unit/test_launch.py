"""What is launched for a profile, and the command that does the same by hand."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest

from console.domain.launch import Launch, all_ports, in_shell, launches
from console.domain.profile import Profile, ports
from console.profiles import Folders, load_profile, load_profiles
from console.settings import shipped_folder

SHIPPED = Folders(shipped_folder("profiles"))
PROFILES = load_profiles(SHIPPED).profiles
PYTHON = "/opt/sglang/bin/python"


@pytest.fixture(scope="module")
def pair() -> tuple[Launch, ...]:
    return launches(load_profile("pd-ll", SHIPPED), PYTHON, "0.5.15")


def test_a_pair_starts_with_prefill_and_ends_with_the_router(pair: tuple[Launch, ...]) -> None:
    assert [launch.name for launch in pair] == ["prefill", "decode", "router"]


def test_prefill_goes_first_however_the_profile_orders_them() -> None:
    profile = load_profile("pd-ll", SHIPPED)
    turned = msgspec.structs.replace(profile, servers=tuple(reversed(profile.servers)))
    assert [launch.name for launch in launches(turned, PYTHON, None)] == ["prefill", "decode", "router"]


def test_each_has_its_place(pair: tuple[Launch, ...]) -> None:
    prefill, decode, router = pair
    assert (prefill.gpus, prefill.port, prefill.ports) == ((0, 1, 2, 3), 30000, (30000, 31000, 8998))
    assert (decode.gpus, decode.port, decode.ports) == ((4, 5, 6, 7), 30001, (30001, 31001))
    assert (router.gpus, router.port, router.ports) == ((), 8000, (8000, 29000))


@pytest.mark.parametrize(("name", "profile"), PROFILES.items())
def test_no_port_of_a_profile_is_left_out(name: str, profile: Profile) -> None:
    assert all_ports(launches(profile, PYTHON, None)) == tuple(sorted(port for _, port in ports(profile)))


def test_the_routers_environment_is_not_the_servers(pair: tuple[Launch, ...]) -> None:
    prefill, decode, router = pair
    assert prefill.environment["NCCL_PROTO"] == decode.environment["NCCL_PROTO"] == "LL"
    assert router.environment == {}


def test_the_profiles_python_goes_before_the_hosts() -> None:
    profile = msgspec.structs.replace(load_profile("pd-ll", SHIPPED), python="/other/bin/python3")
    assert {launch.argv[0] for launch in launches(profile, PYTHON, None)} == {"/other/bin/python3"}
    assert launches(load_profile("pd-ll", SHIPPED), PYTHON, None)[2].argv[:3] == (
        PYTHON,
        "-m",
        "sglang_router.launch_router",
    )


def test_servers_run_under_sudo_and_the_router_does_not() -> None:
    profile = msgspec.structs.replace(load_profile("pd-ll", SHIPPED), sudo=True)
    assert [launch.sudo for launch in launches(profile, PYTHON, None)] == [True, True, False]


def test_notes_on_flags_go_with_the_launch() -> None:
    prefill, decode, router = launches(load_profile("pd-ll", SHIPPED), PYTHON, "0.5.13")
    assert [note.kind for note in decode.notes] == ["renamed"]
    assert prefill.notes == decode.notes
    assert router.notes == ()


class TestByHand:
    LAUNCH = Launch(
        name="s",
        role="single",
        argv=("/opt/my env/bin/python", "-m", "x", "--json", '{"a": "it\'s"}', "$HOME"),
        environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "ODD": "a b'c;d"},
        port=1,
        ports=(1,),
    )

    def test_is_detached_with_a_log_and_no_stdin(self) -> None:
        command = in_shell(self.LAUNCH, "/var/log/s.log")
        assert command.startswith("setsid env PATH='/opt/my env/bin':$PATH PYTORCH_CUDA_ALLOC_CONF=")
        assert command.endswith(" </dev/null >/var/log/s.log 2>&1 &")

    def test_sudo_asks_for_no_password_and_passes_the_environment(self) -> None:
        command = in_shell(msgspec.structs.replace(self.LAUNCH, sudo=True), "/l")
        assert command.startswith("setsid sudo -n env PATH=")

    def test_a_log_at_home_is_found_by_the_shell(self) -> None:
        assert ">~/'my runs/s.log' 2>&1" in in_shell(self.LAUNCH, "~/my runs/s.log")

    def test_a_shell_takes_it_as_it_is_meant(self, tmp_path: Path) -> None:
        """A real shell, and a program that prints what it got."""
        python = tmp_path / "bin dir" / "python"
        python.parent.mkdir()
        python.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$ODD" "${PATH%%:*}"\n')
        python.chmod(0o755)
        launch = msgspec.structs.replace(self.LAUNCH, argv=(str(python), *self.LAUNCH.argv[1:]))
        log = tmp_path / "a log"
        subprocess.run(["sh", "-c", f"{in_shell(launch, str(log))} wait"], check=True, timeout=20)
        assert log.read_text().splitlines() == [*launch.argv[1:], "a b'c;d", str(python.parent)]

    def test_every_shipped_launch_is_one_line_of_a_shell(self) -> None:
        for profile in PROFILES.values():
            for launch in launches(profile, PYTHON, "0.5.15"):
                words = shlex.split(in_shell(launch, "/l"))
                assert words[-4:] == ["</dev/null", ">/l", "2>&1", "&"]
                assert tuple(words[-4 - len(launch.argv) : -4]) == launch.argv


def test_keys_are_blotted_out_of_what_is_shown() -> None:
    launch = Launch(
        name="single",
        role="single",
        argv=("/v/bin/python", "-m", "sglang.launch_server", "--api-key", "hunter2", "--port", "1"),
        environment={"HF_TOKEN": "hunter2", "NCCL_PROTO": "LL"},
        port=1,
        ports=(1,),
    )
    shown = in_shell(launch, "/log")
    assert "hunter2" not in shown
    assert "HF_TOKEN=******** NCCL_PROTO=LL" in shown
    assert "--api-key ******** --port 1" in shown
