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

# The Python of one's own SGLang server comes first, for it has pynvml and httpx; never that of another
# user's, which would be to run their code. Version shims (shell scripts named python3) cost most of a
# second: last.
FIND_PYTHON = r"""
usable() {
  "$1" -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' </dev/null >/dev/null 2>&1
}
of_servers() {
  for f in $(grep -lsE 'sglang[.]launch_server|sglang_router[.]launch_route[r]|bin/sglan[g]'
  /proc/[0-9]*/cmdline) do
    p=${f%/cmdline}
    [ -O "$p" ] || continue
    v=$(tr '\000' '\n' <"$p/environ" | sed -n 's/^VIRTUAL_ENV=//p' | head -n 1)
    for c in "$(tr '\000' '\n' <"$f" | head -n 1)" "${v:+$v/bin/python}" "$(readlink "$p/exe")"; do
      case $c in /*/python*) echo "$c" ;; esac
    done
  done 2>/dev/null
}
of_path() {
  echo "$PATH:/usr/local/bin:/usr/bin:/bin:/opt/conda/bin" | tr ':' '\n' | while read -r d; do
    for c in "$d/python3" "$d/python"; do
      [ -x "$c" ] || continue
      if [ "$(head -c 2 "$c" | tr -d '\000')" = '#!' ]; then
        [ "$1" = shims ] && echo "$c"
      else
        [ "$1" = real ] && echo "$c"
      fi
    done
  done 2>/dev/null
}
find_python() {
  { of_servers; of_path real; of_path shims; } | while read -r c; do
    usable "$c" && echo "$c" && break
  done
}
"""

# One compound command, so that sh has read all of it before Python takes over stdin.
SCRIPT = r"""
main() {
  LC_ALL=C; export LC_ALL
  python=CONFIGURED
  if [ -z "$python" ]; then
    python=$(find_python)
    [ -n "$python" ] || { printf '\nMARK none\n'; exit 3; }
  elif ! usable "$python"; then
    printf '\nMARK unusable\n'; exit 3
  fi
  exec "$python" -S -c BOOTSTRAP
}
main
"""


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the agent is told at its start."""

    interval: float = 1.0
    """Seconds between samples, 0.2 to 10."""


def start_script(mark: str, python: str | None) -> bytes:
    """The sh script that becomes the agent's Python; `python` None lets the host choose."""
    bootstrap = shlex.quote(BOOTSTRAP.replace("MARK", mark))
    script = SCRIPT.replace("CONFIGURED", shlex.quote(python or "")).replace("MARK", mark)
    return (FIND_PYTHON + script.replace("BOOTSTRAP", bootstrap)).encode()


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
