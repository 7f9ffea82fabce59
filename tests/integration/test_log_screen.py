"""The log screen of the whole console on a real terminal, with servers that write what they like."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from tests.integration import numbered
from tests.integration.hostile import MARKUP, STEERING, WIDE, noise
from tests.integration.raw_terminal import RawTerminal
from tests.integration.terminal import Terminal
from tests.integration.waiting import wait_until

CONSOLE: list[str | Path] = [sys.executable, "-m", "console", "--host", "local"]

# What Textual's driver sends of itself: colours, the cursor's place, modes, the keyboard protocol, the shape
# of the mouse pointer.
OWN = re.compile(
    rb"\x1b\[(?:0[;0]*m|0;0H|\?0(?:;0)*[hl]|\?0\$p|>0u|<u|\?u|0? ?q)|\x1b\]0;default\x07|\x1b\[|\x1b"
)

TALKER = """
import sys, time
for line in {lines!r}:
    sys.stdout.buffer.write(line + b"\\n")
sys.stdout.flush()
for number in range(1, 100000):
    moment = f"16:{{number // 60 % 60:02}}:{{number % 60:02}}"
    sys.stdout.write(f"[2026-06-17 {{moment}} TP0] line {{number}} of {name}\\n")
    sys.stdout.flush()
    time.sleep({pause})
"""


class Servers:
    """Simulated servers that only the agents of this test can see."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.environment = {
            "DSV4_AGENT_ONLY_ENV": f"{numbered.MARK}={folder}",
            "HOME": os.environ["HOME"],
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        self.processes: list[Popen[bytes]] = []

    def start(self, role: str, lines: tuple[bytes, ...] = (), pause: float = 0.05) -> Path:
        """One that writes these lines, and then numbered ones; returns its log."""
        folder = self._folder / role
        folder.mkdir()
        module = TALKER.format(lines=lines, name=role, pause=pause)
        flags = () if role == "single" else ("--disaggregation-mode", role)
        self.processes.append(numbered.start(folder, str(self._folder), module, flags))
        return folder / "server.log"

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def servers(tmp_path: Path, home: Path) -> Iterator[Servers]:
    found = Servers(tmp_path)
    yield found
    found.stop()


def test_nothing_in_a_log_steers_the_terminal(servers: Servers) -> None:
    """G02: not a byte of a control sequence from a log is written, whatever is done with the log."""
    servers.start("prefill", (*STEERING, *MARKUP, *WIDE))
    servers.start("decode", (*noise(1), *STEERING, *noise(2)))
    with RawTerminal(CONSOLE, columns=120, rows=40, environment=servers.environment) as terminal:
        terminal.shows("of decode", 40.0)
        terminal.type("5", "z")
        terminal.shows("following")
        for keys in (
            ["g"],
            ["v"],
            ["x"],
            ["d"],
            ["/", "A", "enter"],
            ["n"],
            ["&", "end", "enter"],
            ["l"],
            ["l"],
            ["l"],
        ):
            terminal.type(*keys)
            terminal.shows("decode")
        terminal.type("&", "enter", "q", "4", "z", "g")
        terminal.shows("click me")
        terminal.type("6", "g")
        terminal.shows("all by time")
        terminal.type("V", "G")
        terminal.shows("selected")
        sequences = terminal.sequences
        terminal.type("y")
        terminal.until(lambda sent: b"\x1b]52;" in sent)
        terminal.until(lambda sent: re.search(rb"\x1b\]52;c;[^\x07]*\x07", sent))
        copied = re.findall(rb"\x1b\]52;c;([^\x07]*)\x07", bytes(terminal.sent))
    assert {found for found in sequences if not OWN.fullmatch(found)} == set()
    assert len(copied) == 1
    for text in (terminal.text, base64.b64decode(copied[0]).decode()):
        assert {char for char in text if not char.isprintable()} <= {"\n", "\r"}
    assert "H␈␈I" in terminal.text
    for words in (b"OWNED", b"aGFja2Vk"):
        assert words not in bytes(terminal.sent)


@pytest.mark.parametrize("columns", [79, 80, 81])
def test_the_screen_stays_whole_with_wide_and_strange_characters(servers: Servers, columns: int) -> None:
    """G01, G05: every line letter for letter, and every border where it belongs."""
    servers.start("single", (*WIDE, *MARKUP, *STEERING), pause=60.0)
    with Terminal(CONSOLE, columns=columns, rows=60, environment=servers.environment) as terminal:
        terminal.until("of single", 40.0)
        terminal.type("4")
        terminal.type("z")
        terminal.until_gone("3 Servers")
        terminal.type("g")
        terminal.until(re.escape("[link=file:///etc/passwd]x[/link]"))
        screen = terminal.screen()
    for line in MARKUP:
        assert f"  {line.decode()} " in screen.replace("~ ", "  "), line
    assert "A?B" not in screen
    rows = screen.splitlines()
    body = rows[1 : rows.index(next(row for row in rows if row.startswith("╰")))]
    assert body
    assert all(row.startswith("│") and row.endswith("│") for row in body), screen
    assert "日本語テキスト" in screen


def test_lines_are_found_filtered_and_followed(servers: Servers) -> None:
    servers.start("single", (b"[2026-06-17 15:00:00 TP0] an early line", *(b"filler",) * 200))
    with Terminal(CONSOLE, columns=120, rows=40, environment=servers.environment) as terminal:
        terminal.until("of single", 40.0)
        terminal.type("4")
        terminal.type("/early line", "Enter")
        terminal.until(r"/early line 1 of 1")
        terminal.until("15:00:00 TP0 an early line")
        terminal.until(r"\d+ below")
        terminal.type("&!filler", "Enter")
        terminal.until("&!filler 200 hidden")
        terminal.type("G")
        terminal.until("following")
        last = int(terminal.until(r"line (\d+) of single")[1])
        terminal.until(rf"line {last + 30} of single")
        terminal.type("/(", "Enter")
        terminal.until(r"no regex: missing \)")
        terminal.type("BSpace", "TP0] line 1 of", "Enter")
        terminal.until("1 of 1")
        terminal.type("q")
        terminal.until("EXIT-CODE 0")


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (200, 60)])
def test_all_logs_are_one_by_time(servers: Servers, columns: int, rows: int) -> None:
    for role in ("prefill", "decode"):
        servers.start(role)
    with Terminal(CONSOLE, columns=columns, rows=rows, environment=servers.environment) as terminal:
        terminal.until("of prefill|of decode", 40.0)
        terminal.until("6 all by time")
        terminal.type("6")
        terminal.until(r"▸6 all by time")
        terminal.until(r"prefill 16:\d\d:\d\d TP0 line \d+ of prefill")
        terminal.until(r"decode  16:\d\d:\d\d TP0 line \d+ of decode")
        seen = re.findall(r"(?:prefill|decode ) (16:\d\d:\d\d) TP0", terminal.screen())
        assert len(seen) > 2
        assert seen == sorted(seen)
        terminal.type("q")
        terminal.until("EXIT-CODE 0")


def test_a_log_is_saved_and_shown_in_the_pager_while_it_goes_on(servers: Servers, tmp_path: Path) -> None:
    log = servers.start("single", (b"\x1b[31mthe first line\x1b[0m",))
    environment = servers.environment | {"PAGER": "less -X"}
    with Terminal(CONSOLE, columns=120, rows=40, environment=environment) as terminal:
        terminal.until("of single", 40.0)
        terminal.type("4")
        terminal.type("s")
        terminal.until(r"save \d+ lines to .*/single-9-\d+-\d+\.log")
        terminal.type("Enter")
        terminal.until(r"saved \d+ lines")
        (saved,) = (tmp_path / "state" / "dsv4-console" / "logs").iterdir()
        assert saved.read_text().splitlines()[:2] == ["the first line", log.read_text().splitlines()[1]]
        assert saved.stat().st_mode & 0o777 == 0o600
        terminal.type("o")
        terminal.until(r"dsv4-console-\w+\.log", 10.0)
        size = log.stat().st_size
        wait_until(lambda: log.stat().st_size > size + 2000, "the server stopped")
        # A stray key for the pager is none for the console, and no more is an interrupt.
        terminal.type("C-c", "/line 1 of", "Enter", "q")
        terminal.until("4 single")
        terminal.until(r"line \d+ of single")
        assert "connection lost" not in terminal.screen()
        terminal.type("q")
        terminal.until("EXIT-CODE 0")
