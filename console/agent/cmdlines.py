"""What an argument vector starts: an SGLang server, a router, or something else.

Pure. It goes by the program that is run, never by a word found somewhere in the line: an editor, a shell or a
test runner may name SGLang's files without being SGLang.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

ROUTER_TITLE = "sglang::router"
"""What sglang_router's launcher overwrites its own command line with."""

SERVER_PROGRAMS = ("sglang.launch_server",)
SERVER_COMMANDS = ("sglang", "sglang.cli.main")
"""These start a server only with the word `serve`."""
ROUTER_PROGRAMS = ("sglang_router.launch_router",)
ROUTER_COMMANDS = ("sglang_router", "sglang_router.cli", "smg", "amg", "sglang-router")
"""These start a router with the word `launch`, or (the bare binary) with flags alone."""

PYTHON = re.compile(r"python(\d(\.\d+)?t?)?")
OPTIONS_WITH_VALUE = "WX"
LAUNCHER_FILE = re.compile(r"(?:^|/)(sglang/launch_server|sglang_router/launch_router)\.py$")


class Launch(NamedTuple):
    """A server or router and the flags it was given; `renamed` when the flags were overwritten."""

    router: bool
    flags: tuple[str, ...] = ()
    renamed: bool = False


def recognise(argv: Sequence[str]) -> Launch | None:
    """The launch that `argv` is, or None for any other process."""
    if tuple(argv) == (ROUTER_TITLE,):
        return Launch(router=True, renamed=True)
    program, arguments = program_of(argv)
    launch = launch_of(program, arguments)
    if launch is None or "--help" in launch.flags or "-h" in launch.flags:
        return None
    return launch


def launch_of(program: str, arguments: tuple[str, ...]) -> Launch | None:
    """The launch of a named program, once its sub-command is taken off."""
    word = arguments[0] if arguments else ""
    if program in SERVER_PROGRAMS:
        return Launch(router=False, flags=arguments)
    if program in SERVER_COMMANDS and word == "serve":
        return Launch(router=False, flags=arguments[1:])
    if program in ROUTER_PROGRAMS:
        return Launch(router=True, flags=arguments)
    if program in ROUTER_COMMANDS and word == "launch":
        return Launch(router=True, flags=arguments[1:])
    if program in ROUTER_COMMANDS and word.startswith("--") and word != "--version":
        return Launch(router=True, flags=arguments)
    return None


def program_of(argv: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The program that runs and its arguments. The program is empty when there is none to name.

    A module goes by its dotted name, a script by its file name, SGLang's own launcher files as their modules.
    """
    if not argv:
        return "", ()
    if not PYTHON.fullmatch(base_name(argv[0])):
        return script_name(argv[0]), tuple(argv[1:])
    return python_program(tuple(argv[1:]))


def python_program(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """What a Python interpreter runs, given its arguments (the getopt rules of CPython's command line)."""
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--check-hash-based-pycs":
            position += 1
        elif word == "--":
            break
        elif not word.startswith("-"):
            return script_name(word), words[position:]
        else:
            letter, value = short_option(word)
            if letter and not value:
                value = words[position] if position < len(words) else ""
                position += 1
            if letter == "m":
                return value, words[position:]
            if letter == "c" or word == "-":
                return "", ()
    rest = words[position:]
    return (script_name(rest[0]), rest[1:]) if rest else ("", ())


def short_option(word: str) -> tuple[str, str]:
    """The letter in a word of short options that takes a value, and the value where it is attached."""
    if word.startswith("--"):
        return "", ""
    for place, letter in enumerate(word[1:], start=2):
        if letter in "cm" + OPTIONS_WITH_VALUE:
            return letter, word[place:]
    return "", ""


def script_name(path: str) -> str:
    """The file name of a script, or the module's name for SGLang's own launcher files."""
    launcher = LAUNCHER_FILE.search(path)
    return launcher.group(1).replace("/", ".") if launcher else base_name(path)


def base_name(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]
