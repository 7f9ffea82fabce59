"""ssh_config is read as ssh(1) reads it: each resolution is compared with `ssh -G`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from console.remote.ssh.route import Config, Hop


def ssh_says(config: Path, alias: str) -> dict[str, list[str]]:
    """`ssh -G`: option, lower case, to its values."""
    command = ["ssh", "-G", "-F", str(config), alias]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    said: dict[str, list[str]] = {}
    for line in output.splitlines():
        name, _, value = line.partition(" ")
        said.setdefault(name, []).append(value.replace("ssh://", ""))
    # ssh expands these only when it connects.
    tokens = {"%h": said["hostname"][0], "%p": said["port"][0], "%r": said["user"][0]}
    return {name: [_expanded(value, tokens) for value in values] for name, values in said.items()}


def _expanded(text: str, tokens: dict[str, str]) -> str:
    for token, value in tokens.items():
        text = text.replace(token, value)
    return text


def hop_says(hops: list[Hop]) -> dict[str, list[str]]:
    """The same for our last hop."""
    *jumps, last = hops
    said = {
        "hostname": [last.host],
        "port": [str(last.port)],
        "user": [last.user],
        "identitiesonly": ["yes" if last.identities.only_files else "no"],
    }
    if jumps:
        said["proxyjump"] = [",".join(_spec(hop) for hop in jumps)]
    if last.proxy_command:
        said["proxycommand"] = [last.proxy_command]
    if last.identities.files is not None:
        said["identityfile"] = list(last.identities.files)
    if last.key_name != last.host:
        said["hostkeyalias"] = [last.key_name]
    return said


def _spec(hop: Hop) -> str:
    user = f"{hop.settings['username']}@" if "username" in hop.settings else ""
    port = f":{hop.settings['port']}" if "port" in hop.settings else ""
    return f"{user}{hop.alias}{port}"


CONFIGS = {
    "an include that ends in another host's block": {
        "config": "Include {folder}/inc1\nInclude {folder}/inc2\n",
        "inc1": "Host other-box\n    User nobody\n",
        "inc2": "Host gpu-box\n    ProxyJump jump.example.net\n    User ops\n",
    },
    "include in the middle of a block": {
        "config": "Host gpu-box\n    Include {folder}/more\n    User ops\n",
        "more": "HostName 10.1.2.3\nPort 2200\n",
    },
    "the first value wins": {
        "config": "Host gpu-*\n  User first\nHost gpu-box\n  User second\n  Port 2222\nHost *\n  Port 99\n",
    },
    "negated and wildcard patterns": {
        "config": "Host * !gpu-box\n    User wrong\nHost gpu-???\n    User right\n",
    },
    "tokens": {
        "config": "Host gpu-box\n  HostName %h.example.net\n  IdentityFile /keys/%r@%h-%p\n  User ops\n",
    },
    "match host sees the HostName": {
        "config": "Host gpu-box\n    HostName 10.9.9.9\nMatch host 10.9.9.9\n    User matched\n    Port 7\n",
    },
    "match originalhost and user": {
        "config": "Host gpu-box\n    User ops\nMatch originalhost gpu-box user ops\n    Port 7\n",
    },
    "match exec": {
        "config": "Match originalhost gpu-box exec true\n    User yes\nMatch exec false\n    Port 1\n",
    },
    "match final": {
        "config": "Host gpu-box\n    HostName 10.0.0.7\nMatch final host 10.0.0.7\n    ProxyJump late\n",
    },
    "a chain of jumps with users and ports": {
        "config": "Host gpu-box\n    ProxyJump one,ops@two:2200,ssh://root@three:22\n",
    },
    "no jump for this one": {
        "config": "Host gpu-box\n    ProxyJump none\nHost *\n    ProxyJump bastion\n",
    },
    "the proxy that comes first holds": {
        "config": "Host gpu-box\n    ProxyCommand nc -X 5 %h %p\nHost *\n    ProxyJump bastion\n",
    },
    "several identity files": {
        "config": "Host *\n    IdentityFile /keys/a\n    IdentityFile /keys/b\n    IdentitiesOnly yes\n",
    },
    "host key alias": {"config": "Host gpu-box\n    HostName 10.0.0.1\n    HostKeyAlias rack7\n"},
    "equals signs and quotes": {"config": 'Host=gpu-box\n    User = "ops"\n    Port=2022\n'},
    "what we do not know": {
        "config": "Host gpu-box\n    VisualHostKey yes\n    User ops\n    ControlMaster auto\n"
    },
    "nothing about it": {"config": "Host other\n    User nobody\n"},
}


@pytest.mark.parametrize("files", CONFIGS.values(), ids=CONFIGS.keys())
def test_as_ssh_does(files: dict[str, str], tmp_path: Path, home: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("{folder}", str(tmp_path)))
    config = tmp_path / "config"
    ours = hop_says(Config([str(config)]).route("gpu-box"))
    theirs = ssh_says(config, "gpu-box")
    # A proxy that ssh has must be ours too; of the rest, what ours says.
    compared = ours.keys() | ({"proxyjump", "proxycommand"} & theirs.keys())
    assert ours == {name: theirs[name] for name in compared}


def test_a_jump_host_has_its_own_jump_host(tmp_path: Path, home: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host gpu-box\n    ProxyJump inner\nHost inner\n    ProxyJump outer\n    User deep\n")
    hops = Config([str(config)]).route("gpu-box")
    assert [(hop.alias, hop.jump) for hop in hops] == [("outer", True), ("inner", True), ("gpu-box", False)]
    assert hops[1].user == "deep"


def test_the_systems_config_comes_after_the_users(tmp_path: Path, home: Path) -> None:
    (home / ".ssh" / "config").write_text("Host gpu-box\n    Port 2200\n")
    system = tmp_path / "ssh_config"
    system.write_text("Host *\n    Port 1\n    User everyone\n")
    (hop,) = Config(["~/.ssh/config", str(system)]).route("gpu-box")
    assert (hop.port, hop.user) == (2200, "everyone")


def test_without_any_config(home: Path) -> None:
    (hop,) = Config().route("10.0.0.1")
    assert (hop.host, hop.port, hop.known_hosts[0]) == ("10.0.0.1", 22, "~/.ssh/known_hosts")


@pytest.mark.parametrize(
    ("jump", "host", "port", "user"),
    [
        ("[fe80::1]:2200", "fe80::1", 2200, None),
        ("ops@[fe80::1]", "fe80::1", 22, "ops"),
        ("ssh://ops@bastion:2200/", "bastion", 2200, "ops"),
        ("a@b@bastion", "bastion", 22, "a@b"),
    ],
)
def test_jump_specifications(
    jump: str, host: str, port: int, user: str | None, tmp_path: Path, home: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host gpu-box\n    ProxyJump {jump}\n")
    first = Config([str(config)]).route("gpu-box")[0]
    assert (first.host, first.port) == (host, port)
    assert user is None or first.user == user


def test_the_command_by_hand(tmp_path: Path, home: Path) -> None:
    usual = home / ".ssh" / "config"
    usual.write_text("Host gpu-box\n    ProxyJump ops@bastion:2200\n")
    config = Config()
    jump, last = config.route("gpu-box")
    assert config.command(last) == "ssh gpu-box"
    assert config.command(jump) == "ssh -p 2200 ops@bastion"
    other = tmp_path / "config"
    other.write_text("")
    assert Config([str(other)]).command(last) == f"ssh -F {other} gpu-box"
