"""The first frame: who and where the agent is."""

from __future__ import annotations

import getpass
import os
import platform
import socket
import sys
import time
from typing import Any

PROTOCOL = 1


def hello() -> dict[str, Any]:
    """The frame `hello`."""
    return {
        "kind": "hello",
        "protocol": PROTOCOL,
        "pid": os.getpid(),
        "python": sys.executable,
        "python_version": platform.python_version(),
        "user": user_name(),
        "uid": os.getuid(),
        "hostname": socket.gethostname(),
        "boot_id": boot_id(),
        "time": time.time(),
        "utc_offset_s": time.localtime().tm_gmtoff,
    }


def boot_id() -> str | None:
    """The kernel's id of this boot, which makes a pid and its start unique."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as source:
            return source.read().strip()
    except OSError:
        return None


def user_name() -> str:
    """Who the agent runs as; a uid without a name is given as a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
