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
    tail     {"tail": id, "event": "opened" | "rotated" | "truncated" | "missing" | "denied" | "gone",
              "path", "dev", "inode", "offset", "detail"}
    reply    {"id": n, ...} or {"id": n, "error": "one sentence"}

Frames to the agent, by header["op"]:
    beat                              at least every 10 s, else the agent ends
    interval  {"seconds": 0.2..10}
    tail      {"tail": id, "path": str, "lines": 2000}                       start near the end
              {"tail": id, "path": str, "dev": d, "inode": i, "offset": o}   go on where it stopped
    untail    {"tail": id}
"""
