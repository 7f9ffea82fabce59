"""`dsv4-console profiles list|show|check|diff`, as typed on a command line."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.shell_completion import ShellComplete

from console.cli.main import cli, main
from console.domain.secrets import BLOT, is_secret

KEYS = """
extends = "tp4-untuned"
title = "mine"
why = "mine"
source = "me"
[environment]
HF_TOKEN = "hf-secret-1"
[flags]
api-key = "KEY"
ssl-keyfile-password = false
max-total-tokens = 4096
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of profiles."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "dsv4-console" / "profiles"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def run(mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["dsv4-console", "profiles", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return Result(ended.value.code, *capsys.readouterr())  # type: ignore[arg-type]  # always an int here

    return run


class TestList:
    def test_each_has_a_line(self, run: Run) -> None:
        done = run("list")
        assert (done.code, done.err) == (0, "")
        lines = {line.split()[0]: line for line in done.out.splitlines()}
        assert lines["tp4-ll"].split(maxsplit=3)[1:] == ["single", "0-3", "TP4, NCCL LL on a ring"]
        assert lines["cpu-pd"].split()[1:3] == ["pd", "CPU"]
        assert lines["tp4-ep4"].endswith("[known to fail]")
        assert not any(name.startswith("_") for name in lines)

    def test_as_json(self, run: Run) -> None:
        listed = {entry["name"]: entry for entry in run("list", "--json").json}
        assert listed["tp2-x2"]["kind"] == "replicas"
        assert listed["tp2-x2"]["gpus"] == [0, 1, 2, 3]
        assert listed["tp2-x2"]["title"]
        assert not listed["tp2-x2"]["experimental"]
        assert "sglang#30272" in listed["tp4-ep4"]["known_failure"]
        assert listed["tp8"]["file"].endswith("/profiles/tp8.toml")

    def test_a_broken_file_is_told_and_hides_no_other(self, run: Run, mine: Path) -> None:
        (mine / "broken.toml").write_text("kind = 5")
        (mine / "good.toml").write_text(KEYS)
        done = run("list")
        assert done.code == 0
        assert str(mine / "broken.toml") in done.err
        assert str(mine / "good.toml") in done.out

    def test_for_a_host_there_are_those_that_can_run_there(self, run: Run) -> None:
        simulated = {entry["name"] for entry in run("list", "--demo", "--json").json}
        others = {entry["name"] for entry in run("list", "--host", "ct200", "--json").json}
        both = {entry["name"] for entry in run("list", "--json").json}
        assert {"demo-pd", "demo-oom"} <= simulated
        assert all(name.startswith("demo-") for name in simulated)
        assert simulated | others == both
        assert not simulated & others


class TestShow:
    def test_it_tells_all(self, run: Run) -> None:
        done = run("show", "tp4-ll")
        assert (done.code, done.err) == (0, "")
        assert "tp4-ll: TP4, NCCL LL on a ring" in done.out
        assert "On SGLang 0.5.23:" in done.out
        assert "no effect" in done.out
        assert 'the log says "NCCL_PROTO set by environment to LL"' in done.out
        assert "wanted: 1000 tok/s at C=16" in done.out

    def test_the_commands_are_those_of_a_shell(self, run: Run) -> None:
        command = next(line for line in run("show", "pd-ll").out.splitlines() if "decode.log" in line)
        words = shlex.split(command)
        assert words[:2] == ["setsid", "env"]
        assert "NCCL_PROTO=LL" in words
        assert words[words.index("--port") + 1] == "30001"

    def test_flags_are_spelled_for_the_version(self, run: Run) -> None:
        assert "--cuda-graph-max-bs-decode 32" in run("show", "tp4-ll").out
        older = run("show", "tp4-ll", "--sglang", "0.5.13").out
        assert "--cuda-graph-max-bs 32" in older
        assert "would be refused there" in run("show", "cpu-pd").out

    def test_as_json(self, run: Run) -> None:
        shown = run("show", "pd-ll", "--json").json
        assert shown["sglang"] == "0.5.23"
        assert [launch["role"] for launch in shown["launches"]] == ["prefill", "decode", "router"]
        assert shown["launches"][1]["environment"]["NCCL_PROTO"] == "LL"
        assert shown["launches"][1]["shell"].startswith("setsid env ")
        assert shown["router"]["port"] == 8000

    def test_no_secret_is_shown(self, run: Run, mine: Path) -> None:
        (mine / "keys.toml").write_text(KEYS)
        for words in (["show", "keys"], ["show", "keys", "--json"], ["check", "keys"]):
            done = run(*words)
            assert "KEY" not in done.out
            assert "hf-secret" not in done.out
            assert done.code == 0
        assert f"--api-key {BLOT}" in run("show", "keys").out
        assert "--max-total-tokens 4096" in run("show", "keys").out
        assert "ssl-keyfile-password" not in run("show", "keys").out

    def test_an_unknown_one(self, run: Run) -> None:
        done = run("show", "tp4-lll")
        assert (done.code, done.out) == (2, "")
        assert "no profile 'tp4-lll'" in done.err
        assert "tp4-ll" in done.err

    def test_what_is_no_version(self, run: Run) -> None:
        done = run("show", "tp4-ll", "--sglang", "newest")
        assert done.code == 2
        assert "'newest' is no version of SGLang" in done.err


class TestCheck:
    def test_all_shipped_ones_can_be_used(self, run: Run) -> None:
        done = run("check")
        assert (done.code, done.err) == (0, "")
        assert "pd-ll: consistent" in done.out
        assert "--num-continuous-decode-steps is accepted, but nothing reads it" in done.out

    def test_a_wrong_one_is_told_and_the_others_are_checked(self, run: Run, tmp_path: Path) -> None:
        file = tmp_path / "wrong.toml"
        file.write_text(KEYS + "[servers.single]\nport = 31000")
        done = run("check", str(file), "tp8")
        assert done.code == 2
        assert done.out == f"{file}: refused\ntp8: consistent\n"
        assert str(file) in done.err
        assert "31000" in done.err

    def test_as_json(self, run: Run, tmp_path: Path) -> None:
        file = tmp_path / "wrong.toml"
        file.write_text("kind =")
        done = run("check", str(file), "tp4-ll", "--json")
        wrong, right = done.json
        assert done.code == 2
        assert (wrong["file"], right["error"]) == (str(file), None)
        assert "not TOML" in wrong["error"]
        assert [(note["server"], note["kind"]) for note in right["notes"]] == [("single", "dead")]

    def test_a_version_that_it_is_not_for(self, run: Run) -> None:
        done = run("check", "tp2-x4", "--sglang", "0.5.15")
        assert done.code == 2
        assert "it is for SGLang >=0.5.16, not 0.5.15" in done.err
        assert run("check", "tp2-x4", "--sglang", "0.5.16").code == 0


class TestDiff:
    def test_what_goes_and_what_comes(self, run: Run) -> None:
        done = run("diff", "demo-pd", "demo-oom")
        assert done.out == "decode\n- --mem-fraction-static 0.86\n+ --mem-fraction-static 0.98\n"

    def test_as_json(self, run: Run) -> None:
        shown = run("diff", "tp4-untuned", "tp4-ll", "--json").json
        assert (shown["old"], shown["new"], shown["sglang"]) == ("tp4-untuned", "tp4-ll", "0.5.23")
        changes = {change["name"]: (change["before"], change["after"]) for change in shown["changes"]}
        assert changes["NCCL_PROTO"] == (None, "LL")
        assert {change["kind"] for change in shown["changes"]} == {"environment"}

    def test_none(self, run: Run) -> None:
        assert run("diff", "tp8", "tp8").out == "tp8 and tp8 launch the same.\n"

    def test_that_a_key_differs_is_told_and_not_how(self, run: Run, mine: Path) -> None:
        (mine / "one.toml").write_text(KEYS)
        (mine / "two.toml").write_text(KEYS.replace("KEY", "OTHER"))
        out = run("diff", "one", "two").out
        assert f"- --api-key {BLOT}\n+ --api-key {BLOT}" in out
        assert "KEY" not in out
        assert "OTHER" not in out

    def test_colour_only_on_a_terminal(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "\x1b" not in run("diff", "demo-pd", "demo-oom").out
        monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert "\x1b[31m- --mem-fraction-static 0.86\x1b[0m" in run("diff", "demo-pd", "demo-oom").out
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in run("diff", "demo-pd", "demo-oom").out


def test_names_are_completed_in_a_shell(mine: Path) -> None:
    (mine / "tp4-mine.toml").write_text(KEYS)
    shell = ShellComplete(cli, {}, "dsv4-console", "_DSV4_CONSOLE_COMPLETE")

    def completed(words: list[str], incomplete: str) -> list[tuple[str, str]]:
        return [(item.type, item.value) for item in shell.get_completions(["profiles", *words], incomplete)]

    assert completed(["show"], "tp4-m") == [("plain", "tp4-mine")]
    assert completed(["diff", "tp8"], "cpu-") == [("plain", "cpu-pd"), ("plain", "cpu-single")]
    assert completed(["check"], "./my") == [("file", "./my")]


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(("api-key", True), ("admin-api-key", True), ("control-plane-api-keys", True), ("HF_TOKEN", True)),
        *(("ssl-keyfile-password", True), ("AWS_SECRET_ACCESS_KEY", True), ("OPENAI_API_KEY", True)),
        *(("max-total-tokens", False), ("tokenizer-path", False), ("ssl-keyfile", False), ("port", False)),
        ("num-reserved-decode-tokens", False),
    ],
)
def test_what_is_a_secret(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
