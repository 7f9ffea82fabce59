"""What people get wrong: one clear sentence with the next step, the right exit code, no traceback, no
hang."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.sshd import SshServer, free_port, make_key
from tests.integration.terminal import Terminal

CONSOLE = [sys.executable, "-m", "console"]
LIMIT_S = 15.0


class Said(NamedTuple):
    code: int
    out: str
    error: str


def run(*arguments: str, **environment: str) -> Said:
    """Run the console as a person would, and check what holds for every refusal."""
    begun = time.monotonic()
    done = subprocess.run(
        [*CONSOLE, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert time.monotonic() - begun < LIMIT_S
    assert "Traceback" not in done.stderr
    return Said(done.returncode, done.stdout, done.stderr)


def refused(code: int, *arguments: str, **environment: str) -> str:
    """The one sentence of a refusal."""
    said = run(*arguments, **environment)
    assert said.code == code, said
    assert said.out == ""
    assert said.error.count("\n") == 1, said.error
    assert said.error.startswith("dsv4-console: ")
    return said.error


def test_an_unknown_alias(home: Path) -> None:
    said = refused(4, "status", "--host", "no-such-host")
    assert "no-such-host" in said
    assert "~/.ssh/config" in said
    assert "Next: " in said


def test_a_port_that_refuses(ssh_server: SshServer) -> None:
    ssh_server.add_alias("closed", Port=str(free_port()))
    said = refused(4, "status", "--host", "closed")
    assert "refuses connections" in said
    assert "Next: " in said


def test_a_wrong_key(ssh_server: SshServer, home: Path) -> None:
    stranger = make_key(home / ".ssh" / "stranger")
    ssh_server.add_alias("wrong-key", IdentityFile=str(stranger), IdentitiesOnly="yes")
    said = refused(4, "status", "--host", "wrong-key")
    assert ssh_server.user in said
    assert "Next: " in said


def test_an_encrypted_key_without_an_agent(ssh_server: SshServer, home: Path) -> None:
    locked = make_key(home / ".ssh" / "locked", passphrase="secret words")
    ssh_server.authorize(locked)
    ssh_server.add_alias("locked", IdentityFile=str(locked), IdentitiesOnly="yes")
    said = refused(4, "status", "--host", "locked")
    assert "encrypted" in said
    assert f"ssh-add {locked}" in said or "ssh-add ~/.ssh/locked" in said


def test_an_unknown_and_a_changed_host_key_are_two_things(ssh_server: SshServer, home: Path) -> None:
    ssh_server.known_hosts.write_text("")
    unknown = refused(4, "status", "--host", "gpu-box")
    assert "SHA256:" in unknown
    other = make_key(home / "other_host_key")
    kind, body, *_ = other.with_name("other_host_key.pub").read_text().split()
    ssh_server.known_hosts.write_text(f"[127.0.0.1]:{ssh_server.port} {kind} {body}\n")
    changed = refused(4, "status", "--host", "gpu-box")
    assert "CHANGED" in changed.upper()
    assert changed.count("SHA256:") == 2
    assert f"{ssh_server.known_hosts}:1" in changed or "known_hosts:1" in changed


def test_a_host_without_python(tmp_path: Path, home: Path) -> None:
    """A real one but for its Python, which a mount namespace hides, and with it /proc, which leads to
    others."""
    hide = "mount -t tmpfs none /proc && " + " && ".join(
        f"mount --bind /dev/null {python}" for python in pythons()
    )
    command = f"unshare -m /bin/sh -c '{hide} && PATH=/usr/bin:/bin exec /bin/sh'"
    server = SshServer(tmp_path / "bare", home, {"ForceCommand": command})
    server.trust()
    server.add_alias("bare")
    server.start()
    try:
        said = refused(4, "status", "--host", "bare")
    finally:
        server.stop()
    assert "no usable Python" in said
    assert "config.toml" in said


def pythons() -> list[str]:
    """Every real Python in the usual places."""
    found = (Path(folder).glob("python3*") for folder in ("/usr/bin", "/usr/local/bin", "/bin"))
    real = {path.resolve() for paths in found for path in paths if os.access(path, os.X_OK)}
    return sorted(str(path) for path in real if path.name.removeprefix("python3").strip(".0123456789") == "")


def test_a_configured_python_that_is_none(ssh_server: SshServer, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[hosts.gpu-box]\npython = "/opt/gone/bin/python"\n')
    said = refused(4, "--config", str(config), "status", "--host", "gpu-box")
    assert "/opt/gone/bin/python" in said
    assert "[hosts.gpu-box]" in said


@pytest.fixture
def lonely_server(tmp_path: Path, home: Path) -> SshServer:
    """A host on which nothing is seen to run."""
    server = SshServer(tmp_path / "lonely", home, {"SetEnv": "DSV4_AGENT_ONLY_ENV=DSV4_TEST=nobody"})
    server.trust()
    server.add_alias("lonely")
    return server


def test_a_host_without_gpus_and_without_sglang(lonely_server: SshServer) -> None:
    lonely_server.start()
    try:
        said = run("status", "--host", "lonely")
        log = refused(3, "logs", "decode", "--host", "lonely")
    finally:
        lonely_server.stop()
    assert said.code == 3
    assert "no SGLang server or router is running here" in said.out
    assert "no GPUs: " in said.out
    assert said.error == ""
    assert "no decode server on lonely" in log


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[hosts.a\nssh = 1", "line"),
        ('[hosts.a]\nsssh = "x"', "sssh"),
        ("[hosts.a]\ninterval_s = 60", "0.2 to 10"),
        ("theme = 5", "theme"),
    ],
)
def test_a_corrupt_config(tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    said = refused(2, "--config", str(config), "status", "--host", "a")
    assert str(config) in said
    assert words in said


def test_a_config_that_is_not_there(tmp_path: Path) -> None:
    assert "no such file" in refused(2, "--config", str(tmp_path / "none.toml"), "status")


def test_no_terminal(tmp_path: Path) -> None:
    assert "terminal" in refused(2, "--host", "local")
    assert "status" in refused(2, "--demo")


def test_no_host(tmp_path: Path, home: Path) -> None:
    assert "--host NAME" in refused(2, "status", XDG_CONFIG_HOME=str(tmp_path))


def test_two_hosts() -> None:
    assert "two hosts" in refused(2, "--demo", "status", "--host", "a")


def test_an_unknown_option() -> None:
    assert run("--wrong").code == 2


def test_the_screen_says_why_and_leaves_with_4(home: Path) -> None:
    with Terminal([*CONSOLE, "--host", "no-such-host"], columns=100, rows=30) as terminal:
        terminal.until("EXIT-CODE 4")
        assert "no-such-host" in terminal.screen()
        assert "Traceback" not in terminal.screen()


def test_a_broken_theme_of_the_users_is_left_out_with_a_notice(
    lonely_server: SshServer, tmp_path: Path
) -> None:
    themes = tmp_path / "config" / "dsv4-console" / "themes"
    themes.mkdir(parents=True)
    (themes / "mine.toml").write_text("dark = maybe")
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": os.environ["HOME"]}
    lonely_server.start()
    try:
        command = [*CONSOLE, "--host", "lonely"]
        with Terminal(command, columns=120, rows=40, environment=environment) as terminal:
            terminal.until("mine.toml")
            terminal.until("no SGLang server or router is running here")
            terminal.type("q")
            terminal.until("EXIT-CODE 0")
    finally:
        lonely_server.stop()


def test_a_theme_that_does_not_exist(lonely_server: SshServer) -> None:
    assert shutil.which("tmux")
    environment = {"DSV4_CONSOLE_THEME": "pink", "HOME": os.environ["HOME"]}
    with Terminal([*CONSOLE, "--host", "lonely"], columns=160, rows=30, environment=environment) as terminal:
        terminal.until("there is no theme 'pink'")
        terminal.until("EXIT-CODE 2")
