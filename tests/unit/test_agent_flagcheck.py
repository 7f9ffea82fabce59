"""What SGLang's own parsers say to command lines, with a small stand-in for SGLang on PYTHONPATH."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from console.agent import flagcheck, inspecting
from console.domain.host_facts import FlagCheck, FlagChecks, HostFacts
from tests.unit.agent_inspections import Asker, agent_here, until
from tests.unit.agent_proc_fakes import Clock

SERVER = """
import argparse, logging, os, sys, warnings
print("noise while it is imported")
print("noise on stderr", file=sys.stderr)
open(os.environ["IMPORTED"], "a").write("server ")

class Deprecated(argparse.Action):
    def __call__(self, parser, namespace, values, option=None):
        logging.getLogger(__name__).warning(f"\\033[1;33m'{option}' is deprecated.\\033[0m")
        setattr(namespace, self.dest, values)

class Gone(argparse.Action):
    def __call__(self, parser, namespace, values, option=None):
        raise ValueError(f"{option} was removed")

class Warned(argparse.Action):
    def __call__(self, parser, namespace, values, option=None):
        warnings.warn("no longer read", DeprecationWarning)
        print("  and   printed\\n", file=sys.stderr)

class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--port", type=int)
        parser.add_argument("--graph-max-bs", action=Deprecated)
        parser.add_argument("--removed", action=Gone)
        parser.add_argument("--warned", action=Warned)
"""
ROUTER = """
import os
open(os.environ["IMPORTED"], "a").write("router ")

class RouterArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--prefill", nargs="+", action="append")
"""

MODEL = ["-m", "sglang.launch_server", "--model-path", "/m"]
PREFILL = ["-m", "sglang_router.launch_router", "--prefill", "http://a:1", "8998"]


class Installation:
    """A folder of packages, and the questions that are put to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = folder / "sglang/srt/server_args.py"
        self.router = folder / "sglang_router/router_args.py"
        for file, text in ((self.server, SERVER), (self.router, ROUTER)):
            file.parent.mkdir(parents=True)
            for parent in (file.parent, folder / file.relative_to(folder).parts[0]):
                (parent / "__init__.py").touch()
            file.write_text(text)
        self.environment = {"PYTHONPATH": str(folder), "IMPORTED": str(folder / "imported")}

    def order(self, *lines: list[str], **other: Any) -> dict[str, Any]:
        return {"python": sys.executable, "environment": self.environment, "lines": list(lines), **other}

    def check(self, *lines: list[str], **other: Any) -> FlagChecks:
        return Asker().ask(FlagChecks, "check_flags", **self.order(*lines, **other))

    @property
    def imported(self) -> list[str]:
        """What was imported so far, once for each time."""
        log = self.folder / "imported"
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSV4_AGENT_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def installed(tmp_path: Path, state: Path) -> Installation:
    return Installation(tmp_path / "packages")


def test_each_line_gets_its_own_answer(installed: Installation) -> None:
    found = installed.check(
        MODEL,
        [*MODEL, "--nope"],
        [*MODEL, "--port", "x"],
        [*MODEL, "--graph-max-bs", "32"],
        [*MODEL, "--removed", "1"],
        [*MODEL, "--warned", "1"],
        MODEL[:2],
        [*MODEL, "--help"],
        PREFILL,
        ["-m", "vllm.entrypoints"],
    )
    assert found.note is None
    assert found.lines == (
        FlagCheck(),
        FlagCheck(refused="unrecognized arguments: --nope"),
        FlagCheck(refused="argument --port: invalid int value: 'x'"),
        FlagCheck(warnings=("'--graph-max-bs' is deprecated.",)),
        FlagCheck(refused="--removed was removed"),
        FlagCheck(warnings=("no longer read", "and printed")),
        FlagCheck(refused="the following arguments are required: --model-path"),
        FlagCheck(refused="with these words it would only print, and end"),
        FlagCheck(),
        FlagCheck(refused="vllm.entrypoints has no parser that could be asked"),
    )


@pytest.mark.parametrize(("line", "imported"), [(MODEL, ["server"]), (PREFILL, ["router"])])
def test_neither_parser_needs_the_other(
    installed: Installation, line: list[str], imported: list[str]
) -> None:
    other = installed.router if line is MODEL else installed.server
    other.write_text("raise ImportError('broken')")
    assert installed.check(line).lines == (FlagCheck(),)
    assert installed.imported == imported


def test_the_same_question_is_answered_from_the_state_folder(installed: Installation, state: Path) -> None:
    first, second = installed.check(MODEL, PREFILL), installed.check(MODEL, PREFILL)
    assert (first.cached, second.cached) == (False, True)
    assert first.lines == second.lines
    assert installed.imported == ["server", "router"]
    (kept,) = (state / "flags").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert 0 < second.seconds < 30


def test_another_question_is_asked_anew(installed: Installation) -> None:
    installed.check(MODEL)
    assert not installed.check([*MODEL, "--port", "1"]).cached
    assert not installed.check(MODEL, environment={**installed.environment, "SGLANG_X": "1"}).cached


def test_another_installation_is_asked_anew(installed: Installation) -> None:
    installed.check(MODEL)
    installed.server.write_text(SERVER.replace("--model-path", "--model"))
    assert installed.check(MODEL).lines != (FlagCheck(),)
    folder = installed.folder / "sglang-9.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 9.9\n")
    assert not installed.check(MODEL).cached


def test_a_damaged_answer_is_asked_anew(installed: Installation, state: Path) -> None:
    installed.check(MODEL)
    (kept,) = (state / "flags").iterdir()
    kept.write_text('{"lines": [')
    assert not installed.check(MODEL).cached
    kept.write_text('{"lines": []}')
    assert installed.check(MODEL).lines == (FlagCheck(),)


def test_a_state_folder_that_cannot_be_written_does_not_matter(installed: Installation, state: Path) -> None:
    state.write_text("a file is in the way")
    assert installed.check(MODEL).lines == (FlagCheck(),)
    assert not installed.check(MODEL).cached


def test_what_cannot_be_imported_is_told_by_its_last_words(installed: Installation, state: Path) -> None:
    installed.server.write_text("import json\nraise RuntimeError('sgl_kernel: no CUDA 13')")
    found = installed.check(MODEL)
    assert (found.lines, found.note) == ((), "RuntimeError: sgl_kernel: no CUDA 13")
    assert not (state / "flags").exists()


def test_a_crash_is_told(installed: Installation) -> None:
    installed.server.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert installed.check(MODEL).note == "SGLang's parser ended with status -11"


def test_no_sglang_and_no_python(installed: Installation) -> None:
    found = installed.check(MODEL, environment={"PYTHONPATH": "", "PYTHONNOUSERSITE": "1"})
    assert found.note == "ModuleNotFoundError: No module named 'sglang'"
    found = installed.check(MODEL, python="/no/python")
    assert found.note == "/no/python is not a Python of 3.8 or later that can be run"


def test_the_login_s_own_tuning_does_not_reach_the_parser(
    installed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.server.write_text(f"import os\nassert os.environ.get('SGLANG_X') is None\n{SERVER}")
    monkeypatch.setenv("SGLANG_X", "1")
    assert installed.check(MODEL).note is None


PID = "import os\nopen(os.environ['IMPORTED'], 'w').write(str(os.getpid()))\n"
HANGS = PID + "import time\ntime.sleep(120)"


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_an_import_that_hangs_ends_at_the_limit(
    installed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.server.write_text(HANGS)
    monkeypatch.setattr(flagcheck, "LIMIT_S", 1.0)
    assert installed.check(MODEL).note == "SGLang's parser did not answer within 1 s"
    assert not any(lives(int(pid)) for pid in installed.imported)


def test_while_it_takes_long_the_asker_hears_so_and_may_leave(installed: Installation) -> None:
    installed.server.write_text(HANGS)
    clock = Clock()
    asker = Asker(clock=clock)
    number = asker.begin("check_flags", **installed.order(MODEL))
    until(lambda: installed.imported)
    for _ in range(2):
        clock.now += inspecting.MORE_S
        asker.inspections.pump()
    assert asker.seen == [{"kind": "value", "id": number, "more": True}] * 2
    (pid,) = map(int, installed.imported)
    os.kill(pid, 0)
    asker.inspections.cancel(number)
    until(lambda: not lives(pid))


async def test_an_agent_that_travelled_as_source_can_ask_too(installed: Installation, state: Path) -> None:
    async with agent_here() as link:
        found = await link.value(FlagChecks, "check_flags", **installed.order([*MODEL, "--nope"], PREFILL))
        facts = await link.value(
            HostFacts, "inspect", paths=["/"], pythons=[sys.executable], disks=[], sudo=False
        )
    assert found.lines == (FlagCheck(refused="unrecognized arguments: --nope"), FlagCheck())
    assert (facts.paths, facts.pythons[sys.executable].usable) == ({"/": "folder"}, True)
    assert facts.state_folder == str(state)
