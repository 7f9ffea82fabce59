"""Ports of the demo host's own, and how the demo's profiles come to have them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.demo.ports import WATCHED, NoPortsError, take_block
from console.domain.errors import ProfileError
from console.domain.profile import Profile, ports
from console.profiles import Folders, for_host, load_profile, load_profiles
from console.settings import shipped_folder

SHIPPED = Folders(shipped_folder("profiles"))
PREFIXES = (187, 188, 189)
"""Blocks that no demo takes."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 18_710))
        listener.listen()
        yield listener


@pytest.fixture(params=["demo-pd", "demo-ll", "demo-single", "demo-tp8", "demo-oom", "demo-broken-flag"])
def profile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setenv("DSV4_DEMO_PORTS", "299")
    monkeypatch.setenv("DSV4_DEMO_MODELS", "/demo/models")
    return load_profile(request.param, SHIPPED)


def test_a_block_is_anothers_until_it_is_given_back() -> None:
    first, second = take_block(PREFIXES), take_block(PREFIXES)
    assert (first.prefix, second.prefix) == (187, 188)
    first.reservation.close()
    third = take_block(PREFIXES)
    assert third.prefix == 187
    for block in (second, third):
        block.reservation.close()


def test_a_block_in_which_somebody_listens_is_left_alone(listener: socket.socket) -> None:
    block = take_block(PREFIXES)
    block.reservation.close()
    assert block.prefix == 188


def test_when_all_are_taken_it_is_said(listener: socket.socket) -> None:
    with pytest.raises(NoPortsError, match="no free block of ports"):
        take_block((187,))


def test_every_port_of_a_demo_profile_is_in_the_block(profile: Profile) -> None:
    found = [port for _, port in ports(profile)]
    assert all(port - 29_900 in WATCHED for port in found)
    assert profile.model == "/demo/models/DeepSeek-V4-Flash-NVFP4"


def test_demo_profiles_are_for_the_demo_host_alone() -> None:
    found = load_profiles(SHIPPED)
    simulated, others = for_host(found, demo=True), for_host(found, demo=False)
    assert "demo-pd" in simulated.profiles
    assert "pd-ll" in others.profiles
    assert all(name.startswith("demo-") for name in simulated.profiles)
    assert simulated.profiles | others.profiles == found.profiles
    assert not simulated.profiles.keys() & others.profiles.keys()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$N", 312),
        ("${N}00", 31_200),
        ("$N/5", "312/5"),
        ("312", "312"),
        ("$Z", "007"),
        ("$$$N", "$312"),
    ],
)
def test_a_text_becomes_a_number_by_its_variables_alone(tmp_path: Path, text: str, value: object) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'extends = "tp4-untuned"\ntitle = "mine"\nwhy = "mine"\n'
        f'[variables]\nN = "312"\nZ = "007"\n[environment]\nTRIED = "{text}"'
    )
    tried = load_profile(str(file), SHIPPED).environment["TRIED"]
    assert (tried, type(tried)) == (value, type(value))


def test_a_port_that_comes_out_as_no_number_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "demo-pd"\n[variables]\nDSV4_DEMO_PORTS = "many"')
    with pytest.raises(ProfileError, match=r"servers\.prefill\.port: expected"):
        load_profile(str(file), SHIPPED)
