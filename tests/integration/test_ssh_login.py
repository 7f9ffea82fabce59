"""Which keys are offered, against a real sshd and a real ssh-agent, and what is said when none is taken."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.domain.errors import AuthenticationFailed
from console.remote.ssh import SshHost
from tests.integration.sshd import SshAgent, SshServer, certify, make_key

PASSPHRASE = "four words are enough"


@pytest.fixture
def agent(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshAgent]:
    """A running agent that holds nothing."""
    agent = SshAgent(tmp_path)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent.socket))
    yield agent
    agent.stop()


@pytest.fixture
def locked_key(ssh_server: SshServer) -> Path:
    """An encrypted key that the host takes, which `locked` names; no other key is of use."""
    ssh_server.client_key.unlink()
    key = make_key(ssh_server.home / ".ssh" / "id_locked", passphrase=PASSPHRASE)
    ssh_server.authorize(key)
    ssh_server.add_alias("locked", IdentityFile="~/.ssh/id_locked", IdentitiesOnly="yes")
    return key


async def logs_in(alias: str = "gpu-box") -> None:
    host = SshHost(alias)
    await host.connect()
    await host.close()


async def refusal(alias: str = "gpu-box") -> AuthenticationFailed:
    with pytest.raises(AuthenticationFailed) as caught:
        await SshHost(alias).connect()
    return caught.value


def stranger(server: SshServer) -> None:
    """Forget the client's key on the host."""
    (server.folder / "authorized_keys").write_text("")


async def test_a_refused_key_is_named_with_the_user(ssh_server: SshServer) -> None:
    stranger(ssh_server)
    error = await refusal()
    assert error.what == f"{ssh_server.user} was not let in"
    assert error.where == f"gpu-box (127.0.0.1:{ssh_server.port})"
    assert error.cause == "tried ~/.ssh/id_ed25519"
    assert "ssh-copy-id" in error.next_step


async def test_no_key_at_all(ssh_server: SshServer) -> None:
    ssh_server.client_key.unlink()
    assert (await refusal()).cause == "there was no key to try"


async def test_a_missing_identity_file_is_named(ssh_server: SshServer) -> None:
    ssh_server.add_alias("typo", IdentityFile="~/.ssh/id_ed25591")
    assert "~/.ssh/id_ed25591 does not exist" in (await refusal("typo")).cause


async def test_a_missing_identity_file_does_not_keep_another_key_from_being_used(
    ssh_server: SshServer,
) -> None:
    ssh_server.config.write_text("IdentityFile ~/.ssh/id_gone\n" + ssh_server.config.read_text())
    ssh_server.add_alias("two", IdentityFile="~/.ssh/id_ed25519")
    await logs_in("two")


async def test_a_file_that_is_no_key_is_named(ssh_server: SshServer) -> None:
    (ssh_server.home / ".ssh" / "notes").write_text("remember the milk\n")
    ssh_server.add_alias("odd", IdentityFile="~/.ssh/notes")
    assert "~/.ssh/notes cannot be used" in (await refusal("odd")).cause


async def test_a_host_that_wants_a_password_says_so(ssh_server: SshServer) -> None:
    stranger(ssh_server)
    ssh_server.options["PasswordAuthentication"] = "yes"
    ssh_server.restart()
    assert "it would take a password, which the console does not use" in (await refusal()).cause


async def test_an_encrypted_key_without_an_agent(ssh_server: SshServer, locked_key: Path) -> None:
    error = await refusal("locked")
    assert error.cause == "there was no key to try; ~/.ssh/id_locked is encrypted and no agent has it"
    assert error.next_step == "`ssh-add ~/.ssh/id_locked`"


async def test_an_encrypted_default_key_does_not_stop_the_others(ssh_server: SshServer) -> None:
    make_key(ssh_server.home / ".ssh" / "id_rsa", "rsa", passphrase=PASSPHRASE)
    await logs_in()


async def test_an_encrypted_key_and_a_dead_agent(
    ssh_server: SshServer, locked_key: Path, agent: SshAgent
) -> None:
    agent.stop()
    error = await refusal("locked")
    assert "is encrypted" in error.cause
    assert f"the agent at {agent.socket} cannot be used" in error.cause


async def test_a_dead_agent_does_not_matter_where_the_file_serves(
    ssh_server: SshServer, agent: SshAgent
) -> None:
    agent.stop()
    await logs_in()


async def test_an_agent_that_never_answers_does_not_matter_either(
    ssh_server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.remote.ssh.identities.AGENT_LIMIT_S", 0.2)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "mute.sock"))
        mute.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "mute.sock"))
        await logs_in()


async def test_an_encrypted_key_that_the_agent_holds(
    ssh_server: SshServer, locked_key: Path, agent: SshAgent
) -> None:
    agent.add(locked_key, PASSPHRASE)
    await logs_in("locked")


async def test_the_agents_copy_is_found_without_the_public_file(
    ssh_server: SshServer, locked_key: Path, agent: SshAgent
) -> None:
    agent.add(locked_key, PASSPHRASE)
    locked_key.with_name("id_locked.pub").unlink()
    await logs_in("locked")


@pytest.fixture
def only_in_the_agent(locked_key: Path, agent: SshAgent) -> None:
    """The encrypted key is in the agent, and of its files only the public one is left."""
    agent.add(locked_key, PASSPHRASE)
    locked_key.unlink()


async def test_a_public_file_alone_picks_the_agents_key(
    ssh_server: SshServer, only_in_the_agent: None
) -> None:
    await logs_in("locked")
    ssh_server.add_alias("public", IdentityFile="~/.ssh/id_locked.pub", IdentitiesOnly="yes")
    await logs_in("public")


@pytest.fixture
def crowded_agent(agent: SshAgent, ssh_server: SshServer, tmp_path: Path) -> SshAgent:
    """An agent with seven keys that the host does not know; it allows six tries."""
    ssh_server.options["MaxAuthTries"] = "6"
    ssh_server.restart()
    for number in range(7):
        agent.add(make_key(tmp_path / f"other{number}"))
    return agent


async def test_only_the_wanted_key_of_a_crowded_agent_is_offered(
    ssh_server: SshServer, locked_key: Path, crowded_agent: SshAgent
) -> None:
    crowded_agent.add(locked_key, PASSPHRASE)
    await logs_in("locked")


async def test_identities_only_keeps_the_agents_other_keys_back(
    ssh_server: SshServer, locked_key: Path, crowded_agent: SshAgent
) -> None:
    assert "there was no key to try" in (await refusal("locked")).cause


async def test_a_named_key_comes_before_a_crowded_agents_others(
    ssh_server: SshServer, crowded_agent: SshAgent
) -> None:
    ssh_server.add_alias("named", IdentityFile="~/.ssh/id_ed25519")
    await logs_in("named")


async def test_a_default_key_that_the_agent_holds_comes_first(
    ssh_server: SshServer, crowded_agent: SshAgent
) -> None:
    crowded_agent.add(ssh_server.client_key)
    await logs_in()


async def test_too_many_keys_are_told_from_a_wrong_one(
    ssh_server: SshServer, crowded_agent: SshAgent
) -> None:
    error = await refusal()
    assert "tried other0 of the agent, other1 of the agent" in error.cause
    assert "IdentitiesOnly yes" in error.next_step


async def test_identity_agent_names_the_socket(
    ssh_server: SshServer, locked_key: Path, agent: SshAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.add(locked_key, PASSPHRASE)
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere")
    monkeypatch.setenv("OTHER_SOCK", str(agent.socket))
    ssh_server.add_alias("by-path", IdentityAgent=str(agent.socket))
    ssh_server.add_alias("by-name", IdentityAgent="$OTHER_SOCK")
    ssh_server.add_alias("none", IdentityAgent="none")
    await logs_in("by-path")
    await logs_in("by-name")
    assert "agent" not in (await refusal("none")).cause


async def test_a_certificate_beside_the_key_is_used(ssh_server: SshServer, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "authority")
    public = ssh_server.client_key.with_name("id_ed25519.pub")
    certify(public, authority, ssh_server.user)
    line = authority.with_name("authority.pub").read_text()
    (ssh_server.folder / "authorized_keys").write_text(f"cert-authority {line}")
    await logs_in()


async def test_the_callers_keys_are_the_only_ones(
    ssh_server: SshServer, agent: SshAgent, tmp_path: Path
) -> None:
    agent.add(ssh_server.client_key)
    key = make_key(tmp_path / "mine")
    host = SshHost("gpu-box", client_keys=[key])
    with pytest.raises(AuthenticationFailed, match=f"tried {key}"):
        await host.connect()
    ssh_server.authorize(key)
    await host.connect()
    await host.close()


async def test_a_jump_host_uses_its_own_user_and_key(
    ssh_server: SshServer, jump_server: SshServer, tmp_path: Path
) -> None:
    key = make_key(ssh_server.home / ".ssh" / "id_jump")
    stranger(jump_server)
    error = await refusal("behind")
    assert error.where.startswith("jump host bastion")
    jump_server.authorize(key)
    ssh_server.config.write_text(
        "Host bastion\n    IdentityFile ~/.ssh/id_jump\n" + ssh_server.config.read_text()
    )
    await logs_in("behind")


async def test_no_secret_is_in_any_error(ssh_server: SshServer, locked_key: Path) -> None:
    error = await refusal("locked")
    assert "PRIVATE KEY" not in repr(error.__cause__) + str(error)
