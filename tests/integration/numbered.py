"""A program that is found as an SGLang server and writes a numbered log: `python -m sglang.launch_server`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULE = """
import itertools, sys, time
for number in itertools.count(1):
    sys.stdout.write(f"line {number} of the numbered log\\n")
    sys.stdout.flush()
    time.sleep(0.002)
"""

MARK = "DSV4_TEST_SERVER"


def start(
    folder: Path, mark: str, module: str = MODULE, flags: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start it with its log in folder/server.log; only an agent that looks for `mark` will see it."""
    package = folder / "python" / "sglang"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(module)
    environment = os.environ | {"PYTHONPATH": str(folder / "python"), MARK: mark}
    with (folder / "server.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "sglang.launch_server", "--port", "9", *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
        )
