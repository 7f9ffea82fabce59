"""`dsv4-console status`: one snapshot, for people or as JSON."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec

from console.cli.snapshot import Snapshot, snapshot
from console.cli.target import Given, Target, choose
from console.domain.deployment import observed
from console.domain.diagnosis import judge
from console.domain.gpu import NO_GPUS, GpuSample
from console.domain.ownership import Owner, gpu_owners
from console.domain.server_view import ServerView
from console.domain.throughput import Throughput

DONE, NOT_READY = 0, 3


def show_status(given: Given, as_json: bool) -> int:
    """Print it; returns the exit code."""
    target = choose(given)
    seen = asyncio.run(snapshot(target))
    said = as_dict(target, seen)
    if as_json:
        sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
    else:
        sys.stdout.write("\n".join(as_text(said)) + "\n")
    return DONE if said["deployment"]["state"] in ("ready", "roles up") else NOT_READY


def as_dict(target: Target, seen: Snapshot) -> dict[str, Any]:
    """The snapshot as the JSON object of `status --json`; what could not be read is null."""
    report = seen.sample.gpu if seen.sample is not None else NO_GPUS
    views = [view for view in seen.servers.views if view.is_present] if seen.servers is not None else []
    owners = gpu_owners(report, [view.process for view in views])
    host = seen.sample.host if seen.sample is not None else None
    rates = seen.throughput or Throughput(time=0.0)
    return {
        "host": target.name,
        "demo": target.demo,
        "readonly": target.readonly,
        "address": None if seen.host is None else seen.host.address,
        "time": None if host is None else host.time,
        "skew_s": None if seen.host is None else seen.host.skew_s,
        "machine": None if host is None else msgspec.to_builtins(host),
        "gpu_source": report.source,
        "gpu_note": report.reason,
        "driver": report.driver,
        "gpus": [gpu_dict(gpu, owners[gpu.index]) for gpu in report.gpus],
        "servers": [server_dict(view, None if host is None else host.time) for view in views],
        "deployment": msgspec.to_builtins(observed(views)),
        "throughput": {
            "gen_tok_s": rates.gen_tok_s,
            "prompt_tok_s": rates.prompt_tok_s,
            "running": rates.running,
            "queued": rates.queued,
            "source": rates.source,
            "note": rates.note,
        },
        "verdict": msgspec.to_builtins(judge(views, report)),
    }


def gpu_dict(gpu: GpuSample, owner: Owner) -> dict[str, Any]:
    """One GPU: the fields of the sample, with `sm_pct`, `sm_source` and the role that owns it."""
    fields: dict[str, Any] = msgspec.to_builtins(gpu)
    return fields | {
        "sm_pct": gpu.sm_pct,
        "sm_source": gpu.sm_source,
        "power_share_pct": gpu.power_share_pct,
        "role": owner.role,
        "role_planned": owner.planned,
    }


def server_dict(view: ServerView, now: float | None) -> dict[str, Any]:
    """One server or router."""
    process = view.process
    return {
        "role": process.role,
        "port": process.port,
        "metrics_port": process.metrics_port,
        "bootstrap_port": process.bootstrap_port,
        "pid": process.pid,
        "user": process.user,
        "age_s": None if now is None else max(0.0, now - process.start_time),
        "version": process.version,
        "state": view.state,
        "ready": view.state == "ready",
        "phase": view.phase,
        "reason": view.reason,
        "next": view.next,
        "health_note": view.health_note,
        "running": view.running,
        "queued": view.queued,
        "kv_pct": view.kv_pct,
        "gen_tok_s": view.gen_tok_s,
        "prompt_tok_s": view.prompt_tok_s,
        "metrics_note": view.metrics_note,
        "workers": view.workers,
        "gpus": process.gpus,
        "log": process.log.path if process.log.kind in ("file", "deleted") else None,
        "log_kind": process.log.kind,
        "log_note": view.log_note,
        "command": process.command,
    }


def as_text(said: dict[str, Any]) -> list[str]:
    """The same for people, a line each."""
    lines = [f"{said['host']}{' (DEMO)' if said['demo'] else ''}: {said['verdict']['text']}"]
    lines += [f"  {line}" for line in map(_server_line, said["servers"])]
    lines += [f"  {line}" for line in map(_gpu_line, said["gpus"])]
    if not said["gpus"]:
        lines.append(f"  no GPUs: {said['gpu_note'] or 'none reported'}")
    rates = said["throughput"]
    generation, prompts = (_shown(rates[name], "tok/s") for name in ("gen_tok_s", "prompt_tok_s"))
    lines.append(
        f"  generation {generation}, prompts {prompts},"
        f" running {_shown(rates['running'])}, queued {_shown(rates['queued'])}"
    )
    return [_printable(line) for line in lines]


def _server_line(server: dict[str, Any]) -> str:
    port = "" if server["port"] is None else f":{server['port']}"
    reason = f" ({server['reason']})" if server["reason"] else ""
    return f"{server['role']:<8}{port:<7} {server['state']:<8} pid {server['pid']}{reason}"


def _gpu_line(gpu: dict[str, Any]) -> str:
    state = "" if gpu["state"] == "ok" else f" {gpu['state'].upper()}"
    source = {"activity": "SM", "utilization": "busy"}.get(gpu["sm_source"], "SM")
    return (
        f"GPU {gpu['index']:<2} {gpu['role']:<8} {source} {_shown(gpu['sm_pct'], '%')}"
        f"  {_shown(gpu['power_w'], 'W')} of {_shown(gpu['power_limit_w'], 'W')}"
        f"  {_shown(gpu['mem_used_mib'], 'MiB')} of {_shown(gpu['mem_total_mib'], 'MiB')}"
        f"  {_shown(gpu['temp_c'], 'C')}{state}"
    )


def _shown(value: float | None, unit: str = "") -> str:
    return "n/a" if value is None else f"{value:,.0f} {unit}".rstrip()


def _printable(text: str) -> str:
    """Commands and log lines are data of the host's: nothing in them may steer the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
