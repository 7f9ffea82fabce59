"""A verdict on what is seen: one sentence, its evidence, and how sure it is.

The first rule that applies speaks: what failed, then what is missing, then what is slow. The signature of
busy GPUs at low power comes from measurements of known loads (NVML and GPM, H200): `busy` alone cannot tell
a full memory bus from a spinning kernel, so without GPM the verdict says that it is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from console.domain.deployment import NO_DEPLOYMENT, Deployment
from console.domain.gpu import GpuReport, GpuSample
from console.domain.ownership import gpu_owners, misplaced
from console.domain.server_view import ServerView

Confidence = Literal["certain", "likely", "undecided"]

BUSY_PCT = 85.0
COLD_SHARE_PCT = 60.0
DRAM_BOUND_PCT = 60.0
PCIE_HEAVY_MB_S = 5000.0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A diagnosis."""

    text: str
    confidence: Confidence
    evidence: tuple[str, ...] = ()


Rule = Callable[[Sequence[ServerView], GpuReport], Verdict | None]


def judge(views: Sequence[ServerView], report: GpuReport, deployment: Deployment = NO_DEPLOYMENT) -> Verdict:
    """The verdict on servers, GPUs and what they are together, as they are now."""
    present = [view for view in views if view.is_present]
    broken = _broken(present, deployment)
    if broken is not None:
        return broken
    # A plan ends and launches one server after the other.
    half = () if deployment.state in ("starting", "stopping") else (_half_a_pair,)
    rules: tuple[Rule, ...] = (_failed, _lost_gpu, _alarming, *half, _misplaced, _starting, _busy_but_cold)
    for rule in rules:
        verdict = rule(present, report)
        if verdict is not None:
            return verdict
    return _all_well(present, deployment)


def _broken(views: Sequence[ServerView], deployment: Deployment) -> Verdict | None:
    """The whole is the headline: its sentence names the cause, which no single server's does."""
    if deployment.state not in ("broken", "failed", "degraded") or deployment.sentence is None:
        return None
    advice = f". Next: {deployment.next}" if deployment.next else ""
    return Verdict(
        text=f"{deployment.profile} {deployment.state}: {deployment.sentence.rstrip('.')}{advice}",
        confidence="certain",
        evidence=tuple(
            f"{_called(view)} (pid {view.process.pid}): {view.phase or view.state}"
            + (f", {view.reason}" if view.reason else "")
            for view in views
        ),
    )


def _called(view: ServerView) -> str:
    port = f" :{view.process.port}" if view.process.port is not None else ""
    return f"{view.process.role}{port}"


def _failed(views: Sequence[ServerView], report: GpuReport) -> Verdict | None:
    failed = [view for view in views if view.state == "failed"]
    if not failed:
        return None
    names = " and ".join(_called(view) for view in failed)
    advice = f". Next: {failed[0].next}" if failed[0].next else ""
    return Verdict(
        text=f"{names} failed: {(failed[0].reason or 'no reason seen').rstrip('.')}{advice}",
        confidence="certain",
        evidence=tuple(f"{_called(view)} (pid {view.process.pid}): {view.reason}" for view in failed),
    )


def _lost_gpu(views: Sequence[ServerView], report: GpuReport) -> Verdict | None:
    bad = [gpu for gpu in report.gpus if gpu.state in ("lost", "needs reset")]
    if not bad:
        return None
    owners = gpu_owners(report, [view.process for view in views])
    used = [f"GPU {gpu.index} ({owners[gpu.index].role})" for gpu in bad]
    verb = "is" if len(bad) == 1 else "are"
    return Verdict(
        text=f"{', '.join(used)} {verb} {bad[0].state}: servers on it cannot go on",
        confidence="certain",
        evidence=tuple(f"GPU {gpu.index}: {gpu.note or gpu.state}" for gpu in bad),
    )


def _half_a_pair(views: Sequence[ServerView], report: GpuReport) -> Verdict | None:
    roles = {view.process.role for view in views}
    missing = {"prefill", "decode"} - roles
    if len(missing) != 1:
        return None
    (role,) = missing
    return Verdict(
        text=f"half a pair: there is no {role} server, so requests will hang or fail",
        confidence="certain",
        evidence=tuple(f"found {_called(view)}" for view in views),
    )


def _misplaced(views: Sequence[ServerView], report: GpuReport) -> Verdict | None:
    found = misplaced(report, [view.process for view in views])
    if not found:
        return None
    first = found[0]
    held, asked = _listed(first.held), _listed(first.asked)
    return Verdict(
        text=f"{first.server.role} works on GPUs {held}, its flags name {asked}",
        confidence="certain",
        evidence=("CUDA counts the fastest device first unless CUDA_DEVICE_ORDER=PCI_BUS_ID is set",),
    )


def _alarming(views: Sequence[ServerView], report: GpuReport) -> Verdict | None:
    for view in views:
        if view.phase in ("degraded", "stalled"):
            advice = f". Next: {view.next}" if view.next else ""
            return Verdict(
                text=f"{_called(view)} {view.phase}: {(view.reason or 'no reason seen').rstrip('.')}{advice}",
                confidence="likely",
                evidence=(f"{_called(view)} (pid {view.process.pid}): {view.reason}",),
            )
    return None


def _starting(views: Sequence[ServerView], report: GpuReport) -> Verdict | None:
    starting = [view for view in views if view.state == "starting"]
    if not starting:
        return None
    return Verdict(
        text=f"{' and '.join(_called(view) for view in starting)} starting",
        confidence="certain",
        evidence=tuple(f"{_called(view)}: {view.reason or 'not ready yet'}" for view in starting),
    )


def _busy_but_cold(views: Sequence[ServerView], report: GpuReport) -> Verdict | None:
    owners = gpu_owners(report, [view.process for view in views])
    for role in ("decode", "single", "prefill"):
        gpus = [gpu for gpu in report.gpus if owners[gpu.index].role == role and _is_busy_but_cold(gpu)]
        if gpus:
            return _cold(role, gpus)
    return None


def _is_busy_but_cold(gpu: GpuSample) -> bool:
    share = gpu.power_share_pct
    return (
        gpu.busy_pct is not None and share is not None and gpu.busy_pct >= BUSY_PCT and share < COLD_SHARE_PCT
    )


def _cold(role: str, gpus: Sequence[GpuSample]) -> Verdict:
    busy = _mean(gpu.busy_pct for gpu in gpus)
    share = _mean(gpu.power_share_pct for gpu in gpus)
    dram = _mean(gpu.dram_pct for gpu in gpus)
    sm = _mean(gpu.activity_pct for gpu in gpus)
    seen = f"{role} is busy but cold: {busy:.0f} % busy at {share:.0f} % power"
    evidence = [f"GPUs {_listed(tuple(gpu.index for gpu in gpus))}: mean of {len(gpus)}"]
    if dram is None or sm is None:
        return Verdict(
            text=f"{seen}. Memory-bound or waiting on something: only GPM could tell",
            confidence="undecided",
            evidence=tuple(evidence),
        )
    evidence.append(f"DRAM {dram:.0f} %, SM activity {sm:.0f} %")
    if dram >= DRAM_BOUND_PCT:
        return Verdict(
            text=f"{seen}, DRAM {dram:.0f} %. Memory-bound", confidence="likely", evidence=tuple(evidence)
        )
    pcie = _mean((gpu.pcie_tx_mb_s or 0.0) + (gpu.pcie_rx_mb_s or 0.0) for gpu in gpus) or 0.0
    waits_on = "communication over PCIe" if pcie >= PCIE_HEAVY_MB_S else "communication or launch"
    return Verdict(
        text=f"{seen}, DRAM {dram:.0f} %. Waiting on {waits_on}",
        confidence="likely",
        evidence=(*evidence, f"PCIe {pcie / 1000:.1f} GB/s both ways"),
    )


def _all_well(views: Sequence[ServerView], deployment: Deployment) -> Verdict:
    if not views:
        return Verdict(text="no SGLang server or router is running here", confidence="certain")
    names = ", ".join(_called(view) for view in views)
    if deployment.state == "ready" and deployment.proven_at is not None:
        return Verdict(
            text=f"{deployment.profile} is ready, proven by a real request",
            confidence="certain",
            evidence=(names,),
        )
    if any(view.process.role in ("prefill", "decode") for view in views):
        return Verdict(
            text="every role is ready; whether KV moves between them is not proven",
            confidence="certain",
            evidence=(names, "health checks of prefill and decode use a fake peer"),
        )
    return Verdict(text=f"{names} ready", confidence="certain", evidence=(names,))


def _listed(indices: Sequence[int]) -> str:
    return ", ".join(str(index) for index in indices) or "none"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
