"""The agent: the console's own short-lived program on the host.

Standard library only, Python 3.8 or later, plus `pynvml` where the host's Python has it. It imports nothing
of the console, because it travels as source down the stdin of a Python on the host; inside, modules import
each other relatively (`from . import frames`).

Wire format, both ways: 4 bytes big-endian length of the JSON header, 4 bytes big-endian length of the body,
the header (UTF-8 JSON object), the body (raw bytes, empty but for log chunks).

Frames to the console, by header["kind"]:
    hello    protocol, pid, python, python_version, user, uid, hostname, boot_id, time, utc_offset_s
    sample   the fields of console.domain.gpu.Sample
    servers  {"servers": [fields of console.domain.server.ServerProcess, ...], "note": str | null}
    log      {"tail": id, "dev": int, "inode": int, "offset": int} and the bytes found at that offset
    tail     {"tail": id, "event": "opened" | "rotated" | "truncated" | "missing" | "denied" | "gone" |
              "full" | "space", "path", "dev", "inode", "offset", "detail"}
Parts of an answer carry the id of the order, and "more": true in all but the last:
    reply    {"id": n} or {"id": n, "error": "one sentence"}
    page     {"id": n, "offset": int} and bytes found at that offset: whole lines, or of one line that is
             longer than the page its head and its last part, with a gap between their offsets
    matches  {"id": n, "matches": [{"offset", "size", "text", "left_out"}, ...], "searched": bytes,
              "size": bytes, "cut_lines": int} and in the last part "complete": bool, "note": str | null.
             `text` follows on `left_out` characters of its line; `size` are the bytes of the line

Frames to the agent, by header["op"]:
    beat                              at least every 10 s, else the agent ends; with an "id" it is answered
    interval  {"seconds": 0.2..10}
    tail      {"tail": id, "path": str, "lines": 2000}                       start near the end
              {"tail": id, "path": str, "dev": d, "inode": i, "offset": o,   go on where it stopped; `last`:
               "last": base64}                                               up to 64 bytes before the offset
    untail    {"tail": id}
    read      {"id": n, "path": str, "dev": d, "inode": i, "before": offset, "limit": 65536..262144}
              {"id": n, "path": str, "dev": d, "inode": i, "offset": o, "size": bytes}
    search    {"id": n, "path": str, "dev": d, "inode": i, "pattern": str, "literal": bool,
               "ignore_case": bool, "backwards": bool, "max_matches": 1..1000, "max_chars": 1..4096}
    cancel    {"id": n}                                                      leave its answer unfinished
"""
