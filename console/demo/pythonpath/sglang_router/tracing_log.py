"""The router's log: coloured lines of Rust's tracing, as in the real one even when stderr is a file."""

from __future__ import annotations

import os
import random
import string
import time
from contextlib import suppress
from typing import Literal

Level = Literal["INFO", "WARN", "ERROR"]

_STDERR = 2
_RESET, _BOLD, _DIM, _ITALIC = "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m"
_COLOURS: dict[Level, str] = {"INFO": "\x1b[32m", "WARN": "\x1b[33m", "ERROR": "\x1b[31m"}
_SOURCE = "/home/runner/work/sglang/sglang/src/"

_PLACES = {
    "server": ("smg::server", "server.rs"),
    "request": ("smg::request", "middleware.rs"),
    "response": ("smg::response", "middleware.rs"),
    "pd_router": ("smg::routers::http::pd_router", "routers/http/pd_router.rs"),
    "worker": ("smg::core::worker", "core/worker.rs"),
    "activate": (
        "smg::core::steps::worker::shared::activate",
        "core/steps/worker/shared/activate.rs",
    ),
    "event": ("smg::workflow::event", "workflow/event.rs"),
    "manager": ("smg::core::worker_manager", "core/worker_manager.rs"),
}


def log(level: Level, place: str, line: int, text: str, span: str = "", **fields: object) -> None:
    """Write one line. `place` is a key of the table of sources; fields follow the text."""
    target, source = _PLACES[place]
    tail = "".join(f" {_italic(name)}{_dim('=')}{value}" for name, value in fields.items())
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    where = f"{_dim(target)}{_dim(':')} {_dim(_SOURCE + source)}{_dim(':')}{_dim(f'{line}:')}"
    shown = f"{span}{_dim(':')} " if span else ""
    text = f"{_dim(moment)} {_COLOURS[level]}{level:>5}{_RESET} {shown}{where} {text}{tail}\n"
    with suppress(OSError):
        os.write(_STDERR, text.encode())


def request_span(method: str, uri: str, request_id: str, **more: object) -> str:
    """The span that precedes what is said about one request."""
    fields = {"method": method, "uri": uri, "version": "HTTP/1.1", "module": '"smg"'}
    fields |= {"request_id": f'"{request_id}"', **{name: str(value) for name, value in more.items()}}
    inner = " ".join(f"{_italic(name)}{_dim('=')}{value}" for name, value in fields.items())
    return f"{_BOLD}http_request{_RESET}{_BOLD}{{{_RESET}{inner}{_BOLD}}}{_RESET}"


def new_request_id(prefix: str) -> str:
    """An id such as gnt-1jeYYqOL2Bk4d3Q01o2tvTO6."""
    return f"{prefix}-{''.join(random.choices(string.ascii_letters + string.digits, k=24))}"


def _dim(text: str) -> str:
    return f"{_DIM}{text}{_RESET}"


def _italic(text: str) -> str:
    return f"{_ITALIC}{text}{_RESET}"
