"""`dsv4-console status`: one snapshot, for people or as JSON."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec

from console.cli.snapshot import Snapshot, snapshot
from console.cli.target import Given, Target, choose
from console.domain.deployment import NO_RECORDS, Deployment, observed, told
from console.domain.diagnosis import judge
from console.domain.gpu import NO_GPUS, GpuSample
from console.domain.ownership import Owner, gpu_owners
from console.domain.run_record import PlanRecord
from console.domain.server_view import ServerView
from console.domain.throughput import Throughput

DONE, NOT_READY = 0, 3
SERVING = ("ready", "roles up")


def show_status(given: Given, as_json: bool) -> int:
    """Print it; returns the exit code."""
    target = choose(given)
    seen = asyncio.run(snapshot(target))
    said = as_dict(target, seen)
    if as_json:
        sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
    else:
        sys.stdout.write("\n".join(as_text(said)) + "\n")
    return DONE if said["deployment"]["state"] in SERVING else NOT_READY


def as_dict(target: Target, seen: Snapshot) -> dict[str, Any]:
    """The snapshot as the JSON object of `status --json`; what could not be read is null."""
    report = seen.sample.gpu if seen.sample is not None else NO_GPUS
    views = [view for view in seen.servers.views if view.is_present] if seen.servers is not None else []
    owners = gpu_owners(report, [view.process for view in views])
    host = seen.sample.host if seen.sample is not None else None
    rates = seen.throughput or Throughput(time=0.0)
    records = seen.records or NO_RECORDS
    deployment = deployed(seen)
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
        "deployment": msgspec.to_builtins(deployment),
        "plan": msgspec.to_builtins(records.plan),
        "lock": msgspec.to_builtins(records.lock),
        "throughput": {
            "gen_tok_s": rates.gen_tok_s,
            "prompt_tok_s": rates.prompt_tok_s,
            "running": rates.running,
            "queued": rates.queued,
            "source": rates.source,
            "note": rates.note,
        },
        "verdict": msgspec.to_builtins(judge(views, report, deployment)),
    }


def deployed(seen: Snapshot) -> Deployment:
    """What the servers seen, the ended ones too, and the records of launches amount to."""
    return observed(
        () if seen.servers is None else seen.servers.views,
        seen.records or NO_RECORDS,
        report=NO_GPUS if seen.sample is None else seen.sample.gpu,
        utc_offset_s=(seen.host.utc_offset_s if seen.host is not None else None) or 0.0,
    )


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
    lines += [f"  {line}" for line in _deployment_lines(said)]
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


def _deployment_lines(said: dict[str, Any]) -> list[str]:
    """The profile that runs, if one does, and the plan under way."""
    deployment, plan = said["deployment"], said["plan"]
    lines = []
    if deployment["profile"] is not None:
        now, proven_at = said["time"], deployment["proven_at"]
        proven = (
            None if now is None or proven_at is None else f"proven {max(0.0, now - proven_at):,.0f} s ago"
        )
        verified = {None: None, True: "verified", False: "not verified"}[deployment["verified"]]
        state = f"{deployment['profile']} {deployment['state']}"
        lines.append(", ".join(part for part in (state, proven, verified) if part))
    if plan is not None and plan["state"] == "running":
        left = "" if said["lock"] is not None else ", interrupted: its console has gone"
        what = told(msgspec.convert(plan, PlanRecord))
        lines.append(f"{what}, step {plan['step'] + 1}/{len(plan['steps'])}{left}")
    return lines


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
