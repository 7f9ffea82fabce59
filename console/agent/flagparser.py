"""Run by SGLang's own Python: what the argument parsers of its server and its router say to command lines.

In: a JSON array of command lines, each beginning with -m and the module. Out: a JSON array on the last line
of stdout, in the same order, with the fields of console.domain.host_facts.FlagCheck. Nothing is started, and
no model is looked at. Each parser is imported only for a line that wants it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import logging
import os
import re
import sys
import warnings
from functools import lru_cache
from typing import Any, NoReturn

PARSERS = {
    "sglang.launch_server": ("sglang.srt.server_args", "ServerArgs"),
    "sglang_router.launch_router": ("sglang_router.router_args", "RouterArgs"),
}
"""By what is launched: the module and the class whose add_cli_args makes the parser."""
NICENESS = 5
MOST_WARNINGS = 20
MOST_CHARS = 300
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Refused(Exception):
    """The parser's own words against a command line."""


class Parser(argparse.ArgumentParser):
    """A parser that does not end the process."""

    def error(self, message: str) -> NoReturn:
        """Raises Refused."""
        raise Refused(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Raises Refused: --help and --version start no server."""
        raise Refused(message or "with these words it would only print, and end")


class Said(logging.Handler):
    """Collects what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.messages.append(record.getMessage())


@lru_cache(maxsize=None)
def arguments_of(module: str) -> Any:
    """The class that knows a module's arguments. Importing SGLang takes seconds."""
    place, name = PARSERS[module]
    return getattr(importlib.import_module(place), name)


def check(line: list[str]) -> dict[str, Any]:
    """What is said to one line."""
    module, words = line[1], line[2:]
    if module not in PARSERS:
        return {"refused": f"{module} has no parser that could be asked"}
    parser = Parser(prog=module)
    arguments_of(module).add_cli_args(parser)
    logged, printed, refused = Said(), io.StringIO(), None
    logging.getLogger().addHandler(logged)
    try:
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(printed):
            warnings.simplefilter("always")
            parser.parse_args(words)
    except (Refused, ValueError) as error:
        refused = str(error)
    finally:
        logging.getLogger().removeHandler(logged)
    said = [*logged.messages, *(str(each.message) for each in warned), *printed.getvalue().splitlines()]
    return {"refused": refused, "warnings": tidy(said)}


def tidy(said: list[str]) -> list[str]:
    """Without colours, empty lines and repetitions, and not too much of it."""
    texts = (" ".join(COLOUR.sub("", text).split())[:MOST_CHARS] for text in said)
    return [text for text in dict.fromkeys(texts) if text][:MOST_WARNINGS]


def main() -> None:
    """Answer, at low priority: a deployment may be serving on this host."""
    os.nice(NICENESS)
    out = os.dup(1)
    # What SGLang prints while it is imported is no part of the answer.
    os.dup2(2, 1)
    answers = [check(line) for line in json.load(sys.stdin)]
    os.write(out, json.dumps(answers).encode() + b"\n")
    # No threads or hooks of SGLang's have a say in how this ends.
    os._exit(0)


if __name__ == "__main__":
    main()
