"""The console's side of the agent's wire format (described in console/agent/__init__.py)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal

import msgspec

from console.domain.errors import AgentFailed
from console.domain.gpu import Sample
from console.domain.run_record import HostRecords
from console.domain.server import ServerProcess

LENGTHS = struct.Struct(">II")
LARGEST = 16 << 20
"""No frame is larger; a larger length means that something else is talking."""


class Hello(msgspec.Struct, frozen=True, tag_field="kind", tag="hello"):
    """The agent's first frame."""

    protocol: int
    pid: int
    python: str
    python_version: str
    user: str
    uid: int
    hostname: str
    time: float
    boot_id: str | None = None
    utc_offset_s: float = 0.0
    """The host's zone east of UTC, in seconds: log lines have its wall clock."""


class ServersFound(msgspec.Struct, frozen=True):
    """All servers on the host, whenever the set changes."""

    servers: tuple[ServerProcess, ...]
    time: float
    note: str | None = None
    """One sentence when not every process can be seen."""


class LogBytes(msgspec.Struct, frozen=True):
    """Bytes of a followed file, and where they stood."""

    tail: str
    dev: int
    inode: int
    offset: int
    data: bytes = b""


class TailEvent(msgspec.Struct, frozen=True):
    """What happened to a followed file."""

    tail: str
    event: Literal["opened", "rotated", "truncated", "missing", "denied", "gone", "full", "space"]
    path: str | None = None
    dev: int | None = None
    inode: int | None = None
    offset: int | None = None
    detail: str | None = None


class Reply(msgspec.Struct, frozen=True):
    """The answer to an order that carried an id, when there is nothing to say or it could not be obeyed."""

    id: int | None = None
    error: str | None = None
    more: bool = False


class Page(msgspec.Struct, frozen=True):
    """Bytes of a file that were asked for, and where they stand."""

    id: int
    offset: int
    more: bool
    data: bytes = b""


class Match(msgspec.Struct, frozen=True):
    """One line found by a search of a whole file."""

    offset: int
    size: int
    """Bytes of the whole line."""
    text: str
    """Not cleaned: it holds whatever the log does."""
    left_out: int = 0
    """Characters of the line before the text."""


class Matches(msgspec.Struct, frozen=True):
    """A part of what a search has found, and how far it is."""

    id: int
    more: bool
    matches: tuple[Match, ...] = ()
    searched: int = 0
    size: int = 0
    """Bytes searched, and bytes of the file."""
    cut_lines: int = 0
    """Lines so long that only their beginning was searched."""
    complete: bool = False
    note: str | None = None


class Value(msgspec.Struct, frozen=True):
    """What an order asked for; its type is the asker's to know. null in a part that only says: not yet."""

    id: int
    # Raw stands alone: in a union with None msgspec takes null only.
    value: msgspec.Raw = msgspec.Raw(b"null")
    more: bool = False


Answer = Reply | Page | Matches | Value
Frame = Hello | Sample | ServersFound | HostRecords | LogBytes | TailEvent | Answer

_TYPES: dict[str, type[Frame]] = {
    "hello": Hello,
    "sample": Sample,
    "servers": ServersFound,
    "log": LogBytes,
    "tail": TailEvent,
    "reply": Reply,
    "page": Page,
    "matches": Matches,
    "value": Value,
    "records": HostRecords,
}


class _Kind(msgspec.Struct):
    kind: str


def encode(header: dict[str, object]) -> bytes:
    """An order to the agent as one frame without a body."""
    text = msgspec.json.encode(header)
    return LENGTHS.pack(len(text), 0) + text


def decode(header: bytes, body: bytes) -> Frame:
    """One frame as a value. Raises AgentFailed when it is not one of ours."""
    try:
        kind = _TYPES[msgspec.json.decode(header, type=_Kind).kind]
        frame = _records(header) if kind is HostRecords else msgspec.json.decode(header, type=kind)
    except (msgspec.DecodeError, KeyError) as error:
        raise AgentFailed(
            "the agent sent a frame that this console does not understand",
            cause=str(error),
            next_step="report this with the output of `dsv4-console --version`",
        ) from error
    return msgspec.structs.replace(frame, data=body) if isinstance(frame, LogBytes | Page) else frame


def _records(header: bytes) -> HostRecords:
    """Other versions of the console write records too: what cannot be read is no reason to lose the link."""
    try:
        return msgspec.json.decode(header, type=HostRecords)
    except msgspec.ValidationError as error:
        return HostRecords(note=f"what is kept on this host was written by another version: {error}")


class FrameBuffer:
    """Bytes in, in pieces of any size; whole frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield each frame that `data` completes. Raises AgentFailed on nonsense."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= LENGTHS.size:
            header_size, body_size = LENGTHS.unpack_from(self._buffer, start)
            if header_size + body_size > LARGEST:
                raise AgentFailed(
                    "what the host sends is not the agent's format",
                    cause="a program writes into the agent's output",
                    next_step="look at the login shell's start-up files on the host",
                )
            middle = start + LENGTHS.size + header_size
            end = middle + body_size
            if len(self._buffer) < end:
                break
            yield decode(bytes(self._buffer[start + LENGTHS.size : middle]), bytes(self._buffer[middle:end]))
            start = end
        del self._buffer[:start]
