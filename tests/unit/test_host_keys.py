"""known_hosts lines."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.remote.ssh.host_keys import HostTrust, KnownKey, PublicKey, read_known_hosts, trust_for

KEY = PublicKey("ssh-ed25519", b"\0\0\0\x0bssh-ed25519 one")
OTHER = PublicKey("ssh-rsa", b"\0\0\0\x07ssh-rsa two")


def known(names: str) -> KnownKey:
    return KnownKey("", names, KEY, "known_hosts:1")


def trust(tmp_path: Path, text: str, host: str = "gpu-box", port: int = 22) -> HostTrust:
    file = tmp_path / "known_hosts"
    file.write_text(text)
    return trust_for([str(file)], host, port)


@pytest.mark.parametrize(
    ("names", "name", "matches"),
    [
        ("gpu-box", "gpu-box", True),
        ("GPU-Box", "gpu-box", True),
        ("other,gpu-box", "gpu-box", True),
        ("gpu-*", "gpu-box", True),
        ("gpu-bo?", "gpu-box", True),
        ("gpu-*,!gpu-box", "gpu-box", False),
        ("!other", "gpu-box", False),
        ("gpu.box", "gpu-box", False),
        ("[gpu-box]:2222", "[gpu-box]:2222", True),
        ("[gpu-box]:2222", "gpu-box", False),
        ("[*]:2222", "[gpu-box]:2222", True),
        ("gpu-box", "[gpu-box]:2222", False),
        ("|1|bad", "gpu-box", False),
        ("|2|AAAA|AAAA", "gpu-box", False),
    ],
)
def test_names(names: str, name: str, matches: bool) -> None:
    assert known(names).matches(name) is matches


@given(
    st.text(st.characters(codec="ascii", exclude_categories=["C", "Z"]), min_size=1),
    st.binary(min_size=20, max_size=20),
)
def test_a_hashed_name_matches_itself_and_nothing_else(name: str, salt: bytes) -> None:
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    entry = known("|".join(["", "1", base64.b64encode(salt).decode(), base64.b64encode(digest).decode()]))
    assert entry.matches(name)
    assert not entry.matches(name + "x")


def test_a_line_is_found_by_file_and_number(tmp_path: Path) -> None:
    key = KEY.line()
    text = f"# comment\n\nnonsense\ngpu-box {key} a comment\n@marker gpu-box {key}\n#gpu-box {key}\n"
    (entry,) = trust(tmp_path, text).keys
    assert entry == KnownKey("", "gpu-box", KEY, f"{tmp_path}/known_hosts:4")


@given(text=st.text())
def test_no_file_is_too_odd(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "odd"
    file.write_text(text, "utf-8")
    read_known_hosts(str(file))
    trust_for([str(file)], "gpu-box", 2222)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"\xff\xfe\x00\n" + f"gpu-box {KEY.line()}\n".encode())
    assert len(read_known_hosts(str(file))) == 1


def test_keys_of_the_port_come_before_those_of_the_host(tmp_path: Path) -> None:
    text = f"gpu-box {KEY.line()}\n[gpu-box]:2222 {OTHER.line()}\n"
    assert [entry.key for entry in trust(tmp_path, text, port=2222).trusted] == [OTHER]
    assert [entry.key for entry in trust(tmp_path, text, port=2223).trusted] == [KEY]


def test_markers(tmp_path: Path) -> None:
    text = f"@revoked * {KEY.line()}\n@cert-authority *-box {OTHER.line()}\n"
    found = trust(tmp_path, text)
    assert (len(found.keys), len(found.authorities), len(found.revoked)) == (0, 1, 1)


def test_the_known_type_is_asked_for_first(tmp_path: Path) -> None:
    assert trust(tmp_path, f"gpu-box {OTHER.line()}\n").algorithms()[:2] == ["rsa-sha2-512", "rsa-sha2-256"]
    plain = trust(tmp_path, "").algorithms()
    assert plain[0] == "ssh-ed25519"
    assert not any("cert" in name for name in plain)
    assert "cert" in trust(tmp_path, f"@cert-authority * {KEY.line()}\n").algorithms()[0]
