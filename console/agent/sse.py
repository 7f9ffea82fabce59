"""Server-sent events out of bytes that were cut anywhere.

The format is that of the HTML standard, 9.2.6. A bare carriage return ends no line: no server of these sends
one, and it could not be told from half a CRLF.
"""

from __future__ import annotations


class EventReader:
    """The data of each event of one response, as bytes. Comments and other fields are left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The events that `data` completes; an event is complete at its blank line."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        events = []
        for line in lines:
            field = line[:-1] if line.endswith(b"\r") else line
            if field.startswith(b"data:"):
                self._data.append(field[6:] if field.startswith(b"data: ") else field[5:])
            elif not field and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return [event for event in events if event]
