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
    records  the fields of console.domain.run_record.HostRecords, whenever something in the state folder, or
             about the processes of its runs, changes
Parts of an answer carry the id of the order, and "more": true in all but the last:
    reply    {"id": n} or {"id": n, "error": "one sentence"}
    page     {"id": n, "offset": int} and bytes found at that offset: whole lines, or of one line that is
             longer than the page its head and its last part, with a gap between their offsets
    matches  {"id": n, "matches": [{"offset", "size", "text", "left_out"}, ...], "searched": bytes,
              "size": bytes, "cut_lines": int} and in the last part "complete": bool, "note": str | null.
             `text` follows on `left_out` characters of its line; `size` are the bytes of the line
    value    {"id": n, "value": object}: what the order asked for

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

Orders about deployments. "run" and "runs" are ids of runs, a process is [pid, start_ticks]. The value of an
answer has the fields of the struct named after ->, from console.domain.host_facts or run_record:
    inspect      {"id": n, "paths": [path, ...], "pythons": [path, ...], "disks": [path, ...], "sudo": bool}
                 -> HostFacts
    check_flags  {"id": n, "python": path, "environment": {}, "lines": [[words after the Python], ...]}
                 -> FlagChecks. Takes seconds: "more": true parts without a value say that it goes on
    holders      {"id": n, "ports": [int, ...]}                        -> Holders
    look         {"id": n, "runs": [run, ...], "servers": [process, ...]}
                 -> {"groups": [Group, ...]}, of the runs, then of servers that somebody else started
    environment  {"id": n, "run": run, "names": [name, ...]}
                 -> {"environment": {name: value} | null}: of the server that is the run, as it was started
Refused, with an error, to an agent that was started with "readonly": true, or was told so:
    readonly     {"id": n, "on": bool}: `on` false takes back only what this order did, not the option
    load         {"id": n, "python": path | null, "spec": fields of console.domain.bench.load.LoadSpec}
                 -> a LoadEvent in each part, `done` or `failed` in the last; parts without a value say that
                 it goes on. One at a time. After `cancel` the requests in flight are cut, told, and it ends
    lock         {"id": n, "by": str, "what": str}   -> {"held": bool, "holder": LockHolder | null}
    unlock       {"id": n}
And refused without the lock:
    launch       {"id": n, "run": {"id", "deployment", "profile", "name", "role", "argv", "environment",
                  "gpus", "port", "ports", "by", "sudo"}}
                  -> RunRecord. One that is there is not launched again
    signal       {"id": n, "runs": [run, ...], "processes": [process, ...], "signal": "TERM"|"KILL"|"CONT"}
                 -> {"signalled": [pid, ...], "refused": [{"pid": pid, "why": str}, ...]}. Every process of
                 the runs, and these processes; each only if it is still the one meant. What has ended is in
                 neither list
    write        {"id": n, "name": "deployment" | "plan", "content": object | null}

The state folder is $DSV4_AGENT_STATE, else $XDG_STATE_HOME/dsv4-console, else ~/.local/state/dsv4-console,
mode 0700:
    lock               held with flock(2) by the agent whose console changes something; its text: LockHolder
    deployment.json    DeploymentRecord
    plan.json          PlanRecord
    runs/ID/run.json   the fields of RunRecord but `alive` and `exit_code`
    runs/ID/exit       the exit code, once an agent has seen it
    runs/ID/NAME.log   stdout and stderr of the server NAME
    flags/KEY.json     answers of check_flags, by installation and lines; the newest 100
"""
