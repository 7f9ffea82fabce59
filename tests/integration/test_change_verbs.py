"""The verbs that change a host, as real child processes on a demo host that outlives them.

In order: each begins with what the one before it left on the host.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from console.demo.host import PYTHONPATH
from tests.integration.demo_process import Demo, running_demo
from tests.integration.raw_terminal import RawTerminal
from tests.integration.terminal import Terminal
from tests.integration.waiting import wait_until

LIMIT_S = 60.0
CONFIG = """
[hosts.box]
python = {python}
interval_s = 0.2

[hosts.guarded]
ssh = "box"
python = {python}
protected = true
"""
SSH = """
Host box
  HostName {host}
  Port {port}
  User {username}
  IdentityFile {client_key}
  UserKnownHostsFile {known_hosts}
"""
PROFILES = {
    "pair": "demo-pd",
    "fast": "demo-ll",
    "one": "demo-single",
    "oom": "demo-oom",
    "slip": "demo-broken-flag",
}
"""The demo's own profiles are for the host `demo`, which dies with its console; these are the same."""

SLOW = ("oom", "one")
SLOWLY = """
[environment]
DSV4_DEMO_START_S = 2
"""
"""Seconds of a start, for those that are watched or interrupted on their way."""


class Box:
    """The demo host by the name `box`, and the command line."""

    def __init__(self, demo: Demo, home: Path) -> None:
        self.demo = demo
        self.home = home
        self.environment = {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_DATA_HOME": str(home / "data"),
            **demo.said["variables"],
        }
        folder = home / "config" / "dsv4-console"
        (folder / "profiles").mkdir(parents=True)
        (folder / "config.toml").write_text(CONFIG.format(python=json.dumps(sys.executable)))
        for name, base in PROFILES.items():
            slowly = SLOWLY if name in SLOW else ""
            (folder / "profiles" / f"{name}.toml").write_text(f'extends = "{base}"\n{slowly}')
        (home / ".ssh").mkdir(mode=0o700)
        (home / ".ssh" / "config").write_text(SSH.format(**demo.said))

    def words(self, *words: str, host: str = "box") -> list[str | Path]:
        return [sys.executable, "-m", "console", "--host", host, *words]

    def run(self, *words: str, host: str = "box") -> subprocess.CompletedProcess[str]:
        """To its end, without a terminal."""
        return subprocess.run(
            self.words(*words, host=host),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=self._environment(),
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(),
        )

    def terminal(self, *words: str, host: str = "box") -> RawTerminal:
        return RawTerminal(self.words(*words, host=host), columns=200, rows=50, environment=self.environment)

    def _environment(self) -> dict[str, str]:
        plain = {name: text for name, text in os.environ.items() if name not in ("SSH_AUTH_SOCK", "NO_COLOR")}
        return plain | self.environment

    def record(self, name: str) -> dict[str, Any]:
        """`deployment` or `plan`, as it is kept on the host."""
        found: dict[str, Any] = json.loads((self.demo.folder / "agent" / f"{name}.json").read_text())
        return found

    def running(self) -> dict[str, int]:
        """The pids of the deployment's servers that live, by name."""
        runs = (self._run(run) for run in self.record("deployment")["runs"])
        return {run["name"]: run["pid"] for run in runs if run and _lives(run["pid"])}

    @property
    def profile(self) -> str:
        """Whose deployment it is."""
        name: str = self.record("deployment")["profile"]["name"]
        return name

    def argv(self, name: str) -> list[str]:
        """The command line of the deployment's server of that name."""
        (argv,) = (
            run["argv"] for run in map(self._run, self.record("deployment")["runs"]) if run["name"] == name
        )
        return list(argv)

    def _run(self, run: str) -> dict[str, Any]:
        """Empty while it is not launched."""
        record = self.demo.folder / "agent" / "runs" / run / "run.json"
        return json.loads(record.read_text()) if record.exists() else {}

    @contextmanager
    def foreign_server(self, argv: list[str]) -> Iterator[subprocess.Popen[bytes]]:
        """A server on the demo host that no console launched."""
        environment = self._environment() | {
            "PYTHONPATH": str(PYTHONPATH),
            "DSV4_DEMO_FOLDER": str(self.demo.folder),
            "DSV4_DEMO_GPUS": "8",
            "DSV4_DEMO": self.demo.said["env"][0].partition("=")[2],
        }
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            argv, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        ) as process:
            yield process
            process.kill()


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with running_demo(tmp_path_factory.mktemp("demo"), load=False) as demo:
        wait_until(demo.is_ready, "the demo did not become ready")
        yield Box(demo, tmp_path_factory.mktemp("home"))


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """What it tells, up to a line with this text."""
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if text in line:
            return
    raise AssertionError(f"no {text!r} in {''.join(told)}")


class TestNothingIsChanged:
    """Each is a reason to touch nothing."""

    @pytest.fixture(autouse=True)
    def _untouched(self, box: Box) -> Iterator[None]:
        before = (box.running(), box.record("deployment"))
        yield
        assert (box.running(), box.record("deployment")) == before
        assert not (box.demo.folder / "agent" / "plan.json").exists()

    def test_nobody_is_there_to_confirm(self, box: Box) -> None:
        done = box.run("switch", "fast")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1] == (
            "dsv4-console: nobody is there to confirm. Next: give --yes, or look with --dry-run."
        )

    def test_a_dry_run_shows_the_exact_commands(self, box: Box) -> None:
        done = box.run("switch", "fast", "--dry-run")
        assert done.returncode == 0
        lines = done.stdout.splitlines()
        assert lines[0] == "box: switch to fast"
        assert lines[1].endswith("will end; nothing is served until fast is proven.")
        assert f"       kill -TERM {box.running()['router']}" in lines
        launched = [line for line in lines if line.startswith("       setsid env ")]
        assert ["NCCL_PROTO=LL" in line for line in launched] == [True, True, False]
        assert all(line.endswith(".log 2>&1 &") for line in launched)
        assert lines[-1] == " 12. record it (10 s at most)"

    def test_a_dry_run_as_json(self, box: Box) -> None:
        done = box.run("switch", "fast", "--dry-run", "--json")
        said = json.loads(done.stdout)
        assert (done.returncode, said["verb"], said["profile"], said["state"]) == (0, "switch", "fast", None)
        assert {check["outcome"] for check in said["checks"]} == {"ok"}
        assert [step["kind"] for step in said["steps"]] == [
            *("preflight", "drain", "stop", "gone", "free"),
            *("launch", "ready", "launch", "router", "prove", "verify", "record"),
        ]
        assert {step["outcome"] for step in said["steps"]} == {None}

    def test_the_parser_refuses_a_flag(self, box: Box) -> None:
        done = box.run("switch", "slip", "--yes")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines()[-2:] == [
            "refused: flags of prefill and decode: unrecognized arguments: --chunked-prefill-tokens 8192."
            " Next: correct them in the profile",
            "nothing was changed",
        ]
        assert box.run("switch", "slip", "--dry-run").returncode == 1

    def test_a_refused_plan_as_json(self, box: Box) -> None:
        done = box.run("switch", "slip", "--yes", "--json")
        said = json.loads(done.stdout)
        assert (done.returncode, said["state"]) == (1, "refused")
        assert [check["subject"] for check in said["checks"] if check["outcome"] == "refused"] == [
            "flags of prefill and decode"
        ]

    def test_a_profile_that_is_not_there(self, box: Box) -> None:
        done = box.run("switch", "fats", "--yes")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "dsv4-console: no profile 'fats' for this host. Next: write fast.\n"

    def test_readonly(self, box: Box) -> None:
        done = box.run("--readonly", "switch", "fast", "--yes")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines()[-1] == "dsv4-console: read-only: --readonly was given"
        looked = box.run("--readonly", "switch", "fast", "--dry-run")
        assert (looked.returncode, looked.stdout.splitlines()[0]) == (0, "box: switch to fast")

    @pytest.mark.parametrize("confirm", [(), ("--confirm", "box")])
    def test_a_protected_host_wants_its_name(self, box: Box, confirm: tuple[str, ...]) -> None:
        done = box.run("stop", "--yes", *confirm, host="guarded")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1] == (
            "dsv4-console: guarded is protected. Next: give --confirm guarded."
        )

    def test_a_no_on_the_terminal(self, box: Box) -> None:
        with box.terminal("switch", "fast") as terminal:
            terminal.shows("switch to fast? [y/N]")
            terminal.type("n", "enter")
            terminal.shows("dsv4-console: not confirmed; nothing was changed")

    def test_another_name_on_the_terminal(self, box: Box) -> None:
        with box.terminal("stop", host="guarded") as terminal:
            terminal.shows("guarded is protected. Type its name to go on:")
            terminal.type("box", "enter")
            terminal.shows("dsv4-console: that is not its name; nothing was changed")

    def test_ctrl_c_at_the_question(self, box: Box) -> None:
        with box.terminal("switch", "fast") as terminal:
            terminal.shows("switch to fast? [y/N]")
            terminal.interrupt()
            assert terminal.exit_code() == 130


def test_a_yes_on_the_terminal(box: Box) -> None:
    with box.terminal("switch", "one", host="guarded") as terminal:
        terminal.shows("guarded is protected. Type its name to go on:")
        terminal.type("guarded", "enter")
        terminal.shows("switch to one? [y/N]")
        terminal.type("y", "enter")
        terminal.shows("one is up: proven in")
        assert terminal.exit_code() == 0
    assert (box.profile, list(box.running())) == ("one", ["single"])


def test_a_switch_is_proven_and_verified(box: Box) -> None:
    done = box.run("switch", "fast", "--yes")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"fast is up: proven in \d\.\d s; verified, \d\d settings\n", done.stdout)
    assert re.search(r"^ +9\. prove it with a real request\n     \d+ prompt and 16 new", done.stderr, re.M)
    assert set(box.running()) == {"prefill", "decode", "router"}
    kept = box.record("deployment")
    assert (kept["stage"], kept["proof"]["passed"], kept["verification"]["differences"]) == ("up", True, [])


def test_a_restart_replaces_every_process_and_no_setting(box: Box) -> None:
    before = {name: (pid, box.argv(name)) for name, pid in box.running().items()}
    done = box.run("restart", "--yes", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["verb"], said["state"]) == (0, "restart", "done")
    assert said["proof"]["passed"]
    assert {step["outcome"] for step in said["steps"]} == {"done"}
    assert said["deployment"] == box.record("deployment")["id"]
    after = {name: (pid, box.argv(name)) for name, pid in box.running().items()}
    assert {name: argv for name, (_, argv) in after.items()} == {
        name: argv for name, (_, argv) in before.items()
    }
    assert not {pid for pid, _ in before.values()} & {pid for pid, _ in after.values()}


def test_a_start_that_fails_is_rolled_back(box: Box) -> None:
    done = box.run("switch", "oom", "--yes", "--rollback")
    assert done.returncode == 1
    failed, after, back = done.stdout.splitlines()
    assert failed.startswith("decode failed: TP0: a GPU ran out of memory while CUDA graphs were captured: ")
    assert failed.endswith("; what was launched has been stopped again, nothing of it runs")
    assert after.startswith("Next: lower --mem-fraction-static by 0.05")
    assert back.startswith("fast is up: proven in")
    assert (box.profile, len(box.running())) == ("fast", 3)


def test_a_start_that_fails_says_how_to_go_back(box: Box) -> None:
    done = box.run("switch", "oom", "--yes")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == (
        "Next: `dsv4-console switch fast` goes back to what ran well before"
    )
    assert box.running() == {}
    assert box.record("deployment")["stage"] == "failed"


def test_a_roll_back_is_part_of_the_one_object(box: Box) -> None:
    assert box.run("switch", "fast", "--yes").returncode == 0
    done = box.run("switch", "oom", "--yes", "--rollback", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["state"], said["rollback"]) == (1, "failed", "fast")
    assert said["steps"][-1]["title"].startswith("clean up: stop prefill :")
    assert (said["rolled_back"]["state"], said["rolled_back"]["profile"]) == ("done", "fast")
    assert said["rolled_back"]["proof"]["passed"]


def test_ctrl_c_while_servers_start_stops_them_again(box: Box) -> None:
    with box.start("switch", "one", "--yes") as process:
        read_until(process, "is ready\n")
        process.send_signal(signal.SIGINT)
        said, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "aborting: what was launched will be stopped again; nothing will run" in told
    assert said.splitlines()[0] == "aborted; what was launched has been stopped again, nothing of it runs"
    assert box.running() == {}
    assert box.record("plan")["state"] == "aborted"


@pytest.mark.parametrize(
    ("killed_at", "finishes"),
    [("are ready\n", "box: go on with fast"), ("prefill is pid", "box: switch to fast")],
)
def test_what_a_killed_console_began_is_finished(box: Box, killed_at: str, finishes: str) -> None:
    with box.start("switch", "fast", "--yes") as process:
        read_until(process, killed_at)
        process.kill()
    wait_until(lambda: len(box.running()) == 1 + ("ready" in killed_at), "not as the killed console left it")
    began = box.running()
    done = box.run("restart", "--yes")
    assert done.returncode == 0, done.stderr
    interrupted, title = done.stderr.splitlines()[:2]
    assert re.match(r"interrupted: \S+@\S+ began to switch to fast and is gone since step \d", interrupted)
    assert title == finishes
    assert (box.profile, set(box.running())) == ("fast", {"prefill", "decode", "router"})
    assert (box.running()["prefill"] == began["prefill"]) == ("go on" in finishes)
    assert box.record("deployment")["stage"] == "up"


def test_a_stop_leaves_nothing(box: Box) -> None:
    done = box.run("stop", "--yes")
    assert (done.returncode, done.stdout) == (0, "stopped: no process lives, ports and GPUs are free\n")
    assert box.running() == {}
    assert box.run("status").returncode == 3


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("restart", "nothing runs here that was launched from a profile"),
        ("stop", "no server runs on this host"),
    ],
)
def test_nothing_to_restart_or_to_stop(box: Box, verb: str, what: str) -> None:
    done = box.run(verb, "--yes")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"dsv4-console: {what}. Next: choose a profile to switch to.\n"


def test_a_server_of_others_is_ended_only_by_its_number(box: Box) -> None:
    with box.foreign_server(box.argv("prefill")) as other:
        wait_until(lambda: "prefill" in box.demo.servers(), "the server did not begin")
        refused = box.run("switch", "one", "--yes")
        assert refused.returncode == 2
        assert re.search(
            rf"pids {other.pid}, .*, was not launched from here. Next: give --end {other.pid} to end it\.$",
            refused.stderr.strip(),
        )
        assert other.poll() is None
        done = box.run("switch", "one", "--yes", "--end", str(other.pid))
        assert done.returncode == 0, done.stderr
        assert other.wait(LIMIT_S) is not None
    assert (box.profile, list(box.running())) == ("one", ["single"])


def test_the_demo_host_itself(box: Box) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "console", "--demo", "switch", "demo-single", "--yes", "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=os.environ | box.environment | {"DSV4_DEMO_START_S": "0.3"},
    )
    said = json.loads(done.stdout)
    assert (done.returncode, said["state"], said["profile"]) == (0, "done", "demo-single"), done.stderr


def test_ctrl_c_does_not_reach_the_demo_host(box: Box) -> None:
    words = [sys.executable, "-m", "console", "--demo", "switch", "demo-single", "--yes"]
    environment = {**box.environment, "DSV4_DEMO_START_S": "3"}
    with Terminal(words, columns=160, rows=60, environment=environment) as terminal:
        terminal.until(r"wait until single :\d+ is ready$")
        terminal.type("C-c")
        terminal.until("^aborted; what was launched has been stopped again, nothing of it runs$")
        terminal.until("^EXIT-CODE 130$")


def test_the_journal_tells_it_all(box: Box) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "console", "--host", "box", "journal", "--json"],
        capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | box.environment,
    )  # fmt: skip
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(entry["verb"], entry["profile"], entry["state"]) for entry in reversed(entries)] == [
        # Refused by its preflight twice; what was only looked at, or not confirmed, is none of it.
        *(("switch", "slip", "failed"), ("switch", "slip", "failed")),
        ("switch", "fast", "done"),
        ("restart", "fast", "done"),
        *(("switch", "oom", "failed"), ("switch", "fast", "done")),
        ("switch", "oom", "failed"),
        ("switch", "fast", "done"),
        *(("switch", "oom", "failed"), ("switch", "fast", "done")),
        ("switch", "one", "aborted"),
        *(("switch", "fast", "running"), ("resume", "fast", "done")),
        *(("switch", "fast", "running"), ("switch", "fast", "done")),
        ("stop", "fast", "done"),
        ("switch", "one", "done"),
    ]
