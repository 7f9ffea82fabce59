"""Run by SGLang's own Python: parse command lines with the argument parsers of its server and its router.

In: a JSON array of arrays of words, each beginning with -m and the module. Out: a JSON array of what became
of each, {"parsed": {...}} or {"refused": "the parser's own words"}. Nothing is started or resolved.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from typing import Any

from sglang.srt.server_args import ServerArgs
from sglang_router.router_args import RouterArgs


def parser(module: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=module)
    (RouterArgs if module == "sglang_router.launch_router" else ServerArgs).add_cli_args(made)
    return made


def parse(line: list[str]) -> dict[str, Any]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return {"parsed": vars(parser(line[1]).parse_args(line[2:]))}
    except SystemExit:
        return {"refused": said.getvalue().rpartition("error: ")[2].strip()}


if __name__ == "__main__":
    lines = json.load(sys.stdin)
    print(json.dumps([parse(line) for line in lines], default=str))
