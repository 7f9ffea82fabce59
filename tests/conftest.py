"""Fixtures for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import numbered
from tests.integration.sshd import SshServer


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the developer's shell says about colours must not change a screen."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("TEXTUAL_THEME", raising=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, with an empty ~/.ssh and no SSH agent."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return folder


@pytest.fixture
def ssh_server(tmp_path: Path, home: Path) -> Iterator[SshServer]:
    """A running sshd, trusted and reachable as `gpu-box` from `home`."""
    server = SshServer(tmp_path / "sshd", home)
    server.trust()
    server.add_alias("gpu-box")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def gpu_box(tmp_path: Path, home: Path) -> Iterator[SshServer]:
    """A running sshd, `gpu-box`, whose agents see only the processes of this test (numbered.MARK)."""
    only = f"DSV4_AGENT_ONLY_ENV={numbered.MARK}={tmp_path}"
    server = SshServer(tmp_path / "sshd", home, {"SetEnv": only})
    server.trust()
    server.add_alias("gpu-box")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def jump_server(tmp_path: Path, ssh_server: SshServer) -> Iterator[SshServer]:
    """A second sshd, `bastion`, through which `behind` leads to the first."""
    server = SshServer(tmp_path / "bastion", ssh_server.home)
    server.trust()
    server.add_alias("bastion")
    ssh_server.add_alias("behind", ProxyJump="bastion")
    server.start()
    yield server
    server.stop()
