"""How the agent gets onto a host: a small sh script, a bootstrap, and a parcel of sources.

Nothing is installed and no file is written. The login shell runs `exec /bin/sh`; sh reads the script from
stdin, finds a Python and becomes it; the bootstrap says so with a mark that no banner can hold, and takes
the parcel. Only then is the parcel sent, so it does not matter how far ahead sh reads.
"""

from __future__ import annotations

import shlex
import zlib
from importlib import resources

import msgspec

BOOTSTRAP = """
# dsv4-console agent
import json, os, sys, zlib
out = os.dup(1)
os.dup2(2, 1)
def take(size):
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data
os.write(out, b"\\nMARK python\\n")
parcel = json.loads(zlib.decompress(take(int(take(8)))))
space = {"__name__": "dsv4_agent_importer"}
exec(compile(parcel["modules"]["importer"], "<importer>", "exec"), space)
space["run"](parcel, out)
"""


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the agent is told at its start."""

    interval: float = 1.0
    """Seconds between samples, 0.2 to 10."""
    readonly: bool = False
    """Obey no order that changes the host."""


def start_script(mark: str, python: str | None) -> bytes:
    """The sh script that becomes the agent's Python; `python` None lets the host choose."""
    script = (resources.files("console.remote") / "start_agent.sh").read_text("utf-8")
    values = {"@PYTHON@": python or "", "@MARK@": mark, "@BOOTSTRAP@": BOOTSTRAP.replace("MARK", mark)}
    for name, value in values.items():
        script = script.replace(name, shlex.quote(value))
    return script.encode()


def agent_sources() -> dict[str, str]:
    """Module name to source text for every module of the agent but its command line."""
    folder = resources.files("console") / "agent"
    return {
        entry.name.removesuffix(".py"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".py") and entry.name != "__main__.py"
    }


def parcel(options: AgentOptions) -> bytes:
    """What the bootstrap takes: 8 digits of length, then zlib-compressed JSON of sources and options."""
    packed = zlib.compress(msgspec.json.encode({"modules": agent_sources(), "options": options}))
    return b"%08d" % len(packed) + packed
