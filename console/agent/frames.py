"""The wire format: length-prefixed frames over a pipe that may take only part of a write.

A frame is two big-endian 32-bit lengths, a JSON header of the first length and a raw body of the second.
"""

from __future__ import annotations

import collections
import json
import os
import struct
from typing import Any, Dict, Iterator

LENGTHS = struct.Struct(">II")
MAX_HEADER = 8 << 20
MAX_BODY = 1 << 20

Header = Dict[str, Any]


class BrokenFrame(ValueError):
    """The other side does not speak this format."""


def encode(header: Header, body: bytes = b"") -> bytes:
    """One frame as bytes."""
    # A path may hold bytes that are no UTF-8: Python's stand-ins for them are no JSON.
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    return LENGTHS.pack(len(text), len(body)) + text + body


class FrameReader:
    """Bytes in, in pieces of any size; whole frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Header, bytes]]:
        """Yield every frame that `data` completes. Raises BrokenFrame on impossible lengths or no JSON."""
        self._buffer += data
        while len(self._buffer) >= LENGTHS.size:
            header_size, body_size = LENGTHS.unpack_from(self._buffer)
            if header_size > MAX_HEADER or body_size > MAX_BODY:
                raise BrokenFrame(f"frame of {header_size} + {body_size} bytes")
            end = LENGTHS.size + header_size + body_size
            if len(self._buffer) < end:
                return
            yield self._take(header_size, end)

    def _take(self, header_size: int, end: int) -> tuple[Header, bytes]:
        start = LENGTHS.size + header_size
        try:
            header = json.loads(self._buffer[LENGTHS.size : start])
        except ValueError as error:
            raise BrokenFrame("header is not JSON") from error
        if not isinstance(header, dict):
            raise BrokenFrame("header is not a JSON object")
        body = bytes(self._buffer[start:end])
        del self._buffer[:end]
        return header, body


class FrameWriter:
    """Frames out over a non-blocking descriptor, telemetry first.

    A frame once begun is finished before the next. Of telemetry only the newest is kept when the pipe is
    full; everything else waits in order. Log chunks are not queued here: the loop reads one when `idle` is
    true.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._begun = memoryview(b"")
        self._waiting: collections.deque[bytes] = collections.deque()
        self._sample: bytes | None = None
        self.dropped = 0

    @property
    def idle(self) -> bool:
        """True when nothing waits to be written."""
        return not self._begun and not self._waiting and self._sample is None

    def put(self, header: Header, body: bytes = b"") -> None:
        """Queue a frame that must arrive."""
        self._waiting.append(encode(header, body))

    def put_sample(self, header: Header) -> None:
        """Queue telemetry: it replaces an older sample that is still waiting, which counts as dropped."""
        if self._sample is not None:
            self.dropped += 1
        self._sample = encode(header)

    def flush(self) -> None:
        """Write what the descriptor takes now. Raises BrokenPipeError when nobody reads any more."""
        while self._begun or self._next():
            try:
                written = os.write(self._fd, self._begun)
            except BlockingIOError:
                return
            self._begun = self._begun[written:]

    def _next(self) -> bool:
        if self._sample is not None:
            frame, self._sample = self._sample, None
        elif self._waiting:
            frame = self._waiting.popleft()
        else:
            return False
        self._begun = memoryview(frame)
        return True
