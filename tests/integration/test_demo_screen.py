"""The demo as a newcomer sees it: one command, eight GPUs, three servers, logs and a chart that move."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.terminal import Terminal
from tests.integration.waiting import wait_until

CONSOLE = [sys.executable, "-m", "console", "--demo"]
QUICK = {"DSV4_DEMO_START_S": "1"}


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (200, 60)])
def test_eight_gpus_three_servers_and_everything_moves(columns: int, rows: int) -> None:
    with Terminal(CONSOLE, columns=columns, rows=rows, environment=QUICK) as terminal:
        terminal.until("DEMO")
        for index in range(8):
            terminal.until(rf"^\W*{index} .*\d+/600 W", 20.0)
        for role in ("prefill", "decode", "router"):
            terminal.until(rf"READY +{role}", 30.0)
        rate = terminal.until(r"gen +([1-9][\d,]*) tok/s", 15.0)[1]
        batch = terminal.until(r"(\d\d:\d\d:\d\d) TP0 Decode batch", 15.0)[1]
        terminal.until(rf"gen +(?!{rate} )[1-9][\d,]* tok/s", 15.0)
        terminal.until(rf"(?!{batch})\d\d:\d\d:\d\d TP0 Decode batch", 15.0)
        assert "Traceback" not in terminal.screen()
        terminal.type("q")
        terminal.until("EXIT-CODE 0")


def test_what_is_on_screen_follows_the_size() -> None:
    with Terminal(CONSOLE, columns=120, rows=40, environment=QUICK) as terminal:
        terminal.until(r"READY +router", 30.0)
        terminal.until("─ 6 router")
        terminal.resize(80, 24)
        terminal.until(r"▸5 decode")
        terminal.until_gone("─ 6 router")
        terminal.type("6")
        terminal.until("─ 6 router")
        terminal.type("z")
        terminal.until_gone("READY +prefill")
        terminal.type("q")
        terminal.until("READY +prefill")


def test_nothing_is_left_when_it_is_closed() -> None:
    with Terminal(CONSOLE, columns=120, rows=40, environment=QUICK) as terminal:
        terminal.until(r"READY +router", 30.0)
        folders = demo_folders()
        assert folders
        terminal.type("q")
        terminal.until("EXIT-CODE 0")
    wait_until(lambda: not demo_folders() & folders, "simulated servers outlive the console")


def demo_folders() -> set[str]:
    """Folders named in the environment of simulated servers that run now."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found |= set(re.findall(rb"DSV4_DEMO_FOLDER=([^\0]+)", path.read_bytes()))
        except OSError:
            continue
    return {folder.decode() for folder in found}


def test_status_of_the_demo_has_every_field() -> None:
    done = subprocess.run([*CONSOLE, "status", "--json"], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert said["demo"] is True
    assert {"host", "time", "deployment", "throughput", "verdict"} <= said.keys()
    assert len(said["gpus"]) == 8
    for gpu in said["gpus"]:
        assert gpu.keys() >= GPU_FIELDS
        assert gpu["sm_source"] == "activity"
        assert gpu["busy_pct"] is not None
        assert gpu["name"].startswith("NVIDIA RTX PRO 6000")
    assert [gpu["role"] for gpu in said["gpus"]] == ["prefill"] * 4 + ["decode"] * 4
    assert [gpu["numa_node"] for gpu in said["gpus"]] == [0] * 4 + [1] * 4
    assert {server["role"] for server in said["servers"]} == {"prefill", "decode", "router"}
    for server in said["servers"]:
        assert {"role", "port", "pid", "state", "ready", "log"} <= server.keys()
    assert said["deployment"].keys() >= {"profile", "state", "verified"}
    assert said["verdict"].keys() >= {"text", "confidence", "evidence"}


GPU_FIELDS = {
    "index", "name", "sm_pct", "sm_source", "busy_pct", "dram_pct", "tensor_pct", "pcie_tx_mb_s",
    "pcie_rx_mb_s", "power_w", "power_limit_w", "mem_used_mib", "mem_total_mib", "temp_c", "clock_mhz",
    "throttle", "role",
}  # fmt: skip
