"""What a key file offers, whatever is in it."""

from __future__ import annotations

import base64
from pathlib import Path

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.remote.ssh.identities import read_key_file

HEAD, TAIL = b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"\n-----END OPENSSH PRIVATE KEY-----\n"


@given(st.one_of(st.binary(), st.binary().map(lambda body: HEAD + base64.b64encode(body) + TAIL)))
def test_no_file_is_too_odd(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "odd_key"
    path.write_bytes(data)
    found = read_key_file(str(path))
    assert found.pairs == ()
    assert found.problem
    assert not found.encrypted


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"])
def test_an_encrypted_key_still_tells_its_public_half(tmp_path: Path, kind: str) -> None:
    key = asyncssh.generate_private_key(kind)
    path = tmp_path / "key"
    key.write_private_key(path, passphrase="secret", rounds=50)
    found = read_key_file(str(path))
    assert found.encrypted
    assert found.identities == {key.public_data}
    assert not list(tmp_path.glob("*.pub"))


def test_a_usable_key(tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(tmp_path / "key")
    found = read_key_file(str(tmp_path / "key"))
    assert [pair.key_public_data for pair in found.pairs] == [key.public_data]
    assert found.problem == ""


def test_a_missing_file_and_a_missing_user() -> None:
    assert read_key_file("/nowhere/key").problem == "does not exist"
    assert read_key_file("~nobody-at-all/key").problem == "does not exist"
