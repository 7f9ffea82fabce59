"""Which host keys are accepted, against a real sshd, and what is said of the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from console.domain.errors import HostError, HostKeyChanged, HostKeyUnknown
from console.remote.ssh import SshHost
from tests.integration.sshd import SshServer, certify, hash_names, make_key, public_line


async def connects(alias: str = "gpu-box") -> None:
    host = SshHost(alias)
    await host.connect()
    await host.close()


async def refusal(kind: type[HostError], alias: str = "gpu-box") -> HostError:
    host = SshHost(alias)
    with pytest.raises(kind) as caught:
        await host.connect()
    assert not caught.value.__cause__ or not isinstance(caught.value.__cause__, HostError)
    return caught.value


def fingerprint(key: Path) -> str:
    listed = subprocess.run(
        ["ssh-keygen", "-lf", str(key)], capture_output=True, text=True, check=True
    ).stdout
    return listed.split()[1]


async def test_an_unknown_key_is_shown_with_the_way_to_accept_it(ssh_server: SshServer) -> None:
    ssh_server.known_hosts.write_text("")
    error = await refusal(HostKeyUnknown)
    assert f"ED25519 {fingerprint(ssh_server.host_key)}" in error.what
    assert f"no known_hosts file has a key for [127.0.0.1]:{ssh_server.port}" in error.cause
    assert "`ssh gpu-box`" in error.next_step
    assert ssh_server.known_hosts.read_text() == "", "a key must never be stored unasked"


async def test_a_missing_known_hosts_file_is_an_empty_one(ssh_server: SshServer) -> None:
    ssh_server.known_hosts.unlink()
    await refusal(HostKeyUnknown)


async def test_a_changed_key_is_told_from_an_unknown_one(ssh_server: SshServer, tmp_path: Path) -> None:
    old = make_key(tmp_path / "old")
    ssh_server.known_hosts.write_text(
        f"# a comment\n\n[127.0.0.1]:{ssh_server.port} {public_line(old)} root@old\n"
    )
    error = await refusal(HostKeyChanged)
    assert error.what.startswith("HOST KEY CHANGED")
    assert fingerprint(ssh_server.host_key) in error.what
    assert f"{fingerprint(old)} (~/.ssh/known_hosts:3)" in error.what
    assert f"ssh-keygen -R '[127.0.0.1]:{ssh_server.port}' -f ~/.ssh/known_hosts" in error.next_step


async def test_a_key_of_another_type_than_the_known_one_is_a_changed_key(
    ssh_server: SshServer, tmp_path: Path
) -> None:
    old = make_key(tmp_path / "old", "rsa")
    ssh_server.known_hosts.write_text(f"[127.0.0.1]:{ssh_server.port} {public_line(old)}\n")
    error = await refusal(HostKeyChanged)
    assert f"known is RSA {fingerprint(old)}" in error.what


async def test_strict_host_key_checking_no_does_not_open_the_door(ssh_server: SshServer) -> None:
    ssh_server.known_hosts.write_text("")
    ssh_server.config.write_text(
        "StrictHostKeyChecking no\nUserKnownHostsFile none\n" + ssh_server.config.read_text()
    )
    await refusal(HostKeyUnknown)


async def test_hashed_names_are_read(ssh_server: SshServer) -> None:
    hash_names(ssh_server.known_hosts)
    assert ssh_server.known_hosts.read_text().startswith("|1|")
    await connects()


async def test_one_of_several_known_keys_is_enough(ssh_server: SshServer, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other", "ecdsa")
    name = f"[127.0.0.1]:{ssh_server.port}"
    ssh_server.known_hosts.write_text(
        f"{name} {public_line(other)}\n{name} {public_line(ssh_server.host_key)}\n"
    )
    await connects()


async def test_the_known_one_of_the_hosts_keys_is_asked_for(ssh_server: SshServer, tmp_path: Path) -> None:
    """The host also has an Ed25519 key, which it would rather show."""
    rsa = make_key(tmp_path / "rsa", "rsa")
    ssh_server.options["HostKey"] = str(rsa)
    ssh_server.restart()
    ssh_server.known_hosts.write_text(f"[127.0.0.1]:{ssh_server.port} {public_line(rsa)}\n")
    await connects()


async def test_a_key_known_without_a_port_serves_every_port(ssh_server: SshServer, tmp_path: Path) -> None:
    ssh_server.known_hosts.write_text(f"127.0.0.1 {public_line(ssh_server.host_key)}\n")
    await connects()
    ssh_server.known_hosts.write_text(f"127.0.0.1 {public_line(make_key(tmp_path / 'other'))}\n")
    await refusal(HostKeyUnknown)


async def test_a_key_known_only_for_the_address_is_not_trusted_for_the_name(ssh_server: SshServer) -> None:
    ssh_server.add_alias("by-name", HostName="localhost")
    await refusal(HostKeyUnknown, "by-name")


async def test_host_key_alias_names_the_known_key(ssh_server: SshServer) -> None:
    ssh_server.known_hosts.write_text(f"rack7 {public_line(ssh_server.host_key)}\n")
    ssh_server.add_alias("aliased", HostKeyAlias="rack7")
    await connects("aliased")
    error = await refusal(HostKeyUnknown)
    assert "gpu-box" in error.where


@pytest.mark.parametrize("pattern", ["[127.0.0.1]:{port}", "127.0.0.1", "*"])
@pytest.mark.parametrize("also_trusted", [True, False])
async def test_a_revoked_key_is_refused(ssh_server: SshServer, pattern: str, also_trusted: bool) -> None:
    key = public_line(ssh_server.host_key)
    lines = [f"@revoked {pattern.format(port=ssh_server.port)} {key}"]
    lines += [f"[127.0.0.1]:{ssh_server.port} {key}"] if also_trusted else []
    ssh_server.known_hosts.write_text("\n".join([*lines, ""]))
    error = await refusal(HostKeyChanged)
    assert error.what == "the host key is revoked"
    assert error.cause == "marked @revoked at ~/.ssh/known_hosts:1"


@pytest.fixture
def authority(ssh_server: SshServer, tmp_path: Path) -> Path:
    """A certificate authority that has signed the host's key."""
    key = make_key(tmp_path / "authority")
    certify(ssh_server.host_key.with_name("host_ed25519.pub"), key, "127.0.0.1", "-h")
    ssh_server.options["HostCertificate"] = str(ssh_server.host_key.with_name("host_ed25519-cert.pub"))
    ssh_server.restart()
    return key


async def test_a_certificate_of_a_known_authority_is_accepted(ssh_server: SshServer, authority: Path) -> None:
    ssh_server.known_hosts.write_text(f"@cert-authority *:{ssh_server.port} {public_line(authority)}\n")
    await connects()


async def test_a_certificate_of_another_authority_is_not(
    ssh_server: SshServer, authority: Path, tmp_path: Path
) -> None:
    other = make_key(tmp_path / "other")
    ssh_server.known_hosts.write_text(f"@cert-authority * {public_line(other)}\n")
    error = await refusal(HostKeyUnknown)
    assert fingerprint(authority) in error.what


async def test_a_revoked_authority_is_refused(ssh_server: SshServer, authority: Path) -> None:
    line = public_line(authority)
    ssh_server.known_hosts.write_text(f"@cert-authority * {line}\n@revoked * {line}\n")
    assert (await refusal(HostKeyChanged)).cause == "marked @revoked at ~/.ssh/known_hosts:2"


async def test_a_certificate_for_another_host_is_not_valid(ssh_server: SshServer, authority: Path) -> None:
    ssh_server.known_hosts.write_text(f"@cert-authority * {public_line(authority)}\n")
    ssh_server.add_alias("by-name", HostName="localhost")
    assert "certificate is not valid" in (await refusal(HostKeyUnknown, "by-name")).what


async def test_a_plain_key_where_a_certificate_is_wanted(ssh_server: SshServer, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "authority")
    ssh_server.known_hosts.write_text(f"@cert-authority * {public_line(authority)}\n")
    error = await refusal(HostKeyUnknown)
    assert "~/.ssh/known_hosts:1 wants a certificate" in error.cause


async def test_a_known_key_serves_though_the_host_has_a_certificate_of_somebody(
    ssh_server: SshServer, authority: Path
) -> None:
    await connects()


async def test_a_jump_host_is_checked_like_the_last(ssh_server: SshServer, jump_server: SshServer) -> None:
    jump_server.known_hosts.write_text(f"[127.0.0.1]:{ssh_server.port} {public_line(ssh_server.host_key)}\n")
    error = await refusal(HostKeyUnknown, "behind")
    assert error.where == f"jump host bastion (127.0.0.1:{jump_server.port})"
    assert "`ssh bastion`" in error.next_step


async def test_a_revoked_line_for_another_key_does_not_matter(ssh_server: SshServer, tmp_path: Path) -> None:
    with ssh_server.known_hosts.open("a") as file:
        file.write(f"@revoked * {public_line(make_key(tmp_path / 'stolen'))}\n")
    await connects()
