"""GPUs and ports: whether they are there, and free once the plan has ended what it ends.

A holder is named with pid, program and owner, so that a person can decide about it (cases C01 to C03).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from console.domain.host_facts import GpuFact, GpuHolder, Holders, HostFacts, PortFact, ProcessFact
from console.domain.launch import Launch, all_ports
from console.domain.plan import Target
from console.domain.profile import Profile
from console.domain.targets import target_of

from .check import Check, ok, refusal, warning

DISPLAYS = ("Xorg", "X", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "sddm-greeter")
"""Programs that draw a desktop on a card."""
DISPLAY_MIB = 500.0
UNSEEN_MIB = 2048.0
"""So much memory in use, with nobody to be seen, is no reserve of the driver's."""


def check_gpus(
    profile: Profile, facts: HostFacts, holders: Holders, ending: Sequence[Target], now: float | None
) -> Iterator[Check]:
    """Those that the profile needs."""
    if not profile.gpus:
        return
    if not holders.gpus:
        why = holders.gpu_note or "the driver names none"
        yield refusal("GPUs", f"none can be read: {why}", "see what nvidia-smi says on the host")
        return
    yield ok("driver", f"{facts.driver or 'version n/a'}, {len(holders.gpus)} GPUs")
    there = {gpu.index: _of_the_living(gpu) for gpu in holders.gpus}
    yield from (_no_gpu(profile, index, there) for index in profile.gpus if index not in there)
    free: list[tuple[int, Target | None]] = []
    for gpu in (there[index] for index in profile.gpus if index in there):
        found = tuple(_gpu(profile, gpu, ending, now))
        yield from found
        free += [] if found else [(gpu.index, _gpu_leaves(gpu, ending))]
    yield from _free("GPUs", free)


def check_ports(
    profile: Profile,
    launches: Sequence[Launch],
    holders: Holders,
    ending: Sequence[Target],
    now: float | None,
) -> Iterator[Check]:
    """Every port that will be listened on."""
    held = {fact.port: fact for fact in holders.ports}
    free: list[tuple[int, Target | None]] = []
    for port in all_ports(launches):
        fact = held.get(port)
        target = _port_leaves(fact, ending) if fact else None
        if fact is None or target is not None:
            free.append((port, target))
        else:
            yield _port_in_use(profile, fact, now)
    yield from _free("ports", free)


def check_restarts(holders: Holders, ending: Sequence[Target]) -> Iterator[Check]:
    """Servers of others that are ended, and live in a container or unit that may start them again."""
    others = [target for target in ending if target.is_foreign]
    processes = [fact.holder for fact in holders.ports if fact.holder]
    processes += [holder.process for gpu in holders.gpus for holder in gpu.holders]
    units = {
        (target.name, process.unit): None
        for process in processes
        if process.unit and (target := target_of(process, others))
    }
    for name, unit in units:
        yield warning(name, f"lives in {unit}, which may start it again", f"stop {unit} instead, on the host")


def _no_gpu(profile: Profile, index: int, there: Iterable[int]) -> Check:
    known = ", ".join(map(str, there))
    return refusal(
        f"GPU {index}", f"there is none; the host has {known}", f"name others as `gpus` in {profile.file}"
    )


def _of_the_living(gpu: GpuFact) -> GpuFact:
    """The driver's list of processes may be seconds old: of those that are gone, the memory in use tells."""
    living = tuple(holder for holder in gpu.holders if holder.process.state not in "XZ")
    return msgspec.structs.replace(gpu, holders=living)


def _gpu(profile: Profile, gpu: GpuFact, ending: Sequence[Target], now: float | None) -> Iterator[Check]:
    subject = f"GPU {gpu.index}"
    if gpu.note:
        yield refusal(subject, f"cannot be used: {gpu.note}", "reset the GPU, or take others")
    for holder in gpu.holders:
        if target_of(holder.process, ending) is None:
            yield _gpu_in_use(profile, subject, holder, now)
        elif _is_stuck(holder.process):
            yield warning(subject, f"{_who(holder.process, now)} {_stuck_in(holder.process)}: it may not end")
    unseen = _unseen_mib(gpu)
    if unseen > UNSEEN_MIB and _gpu_leaves(gpu, ending) is None:
        yield refusal(
            subject,
            f"{subject} has {unseen:,.0f} MiB in use that no process to be seen holds",
            "look on the host for a process of another container, or reset the GPU",
        )


def _gpu_in_use(profile: Profile, subject: str, holder: GpuHolder, now: float | None) -> Check:
    process, mem = holder.process, holder.mem_mib
    sentence = f"{subject} is held by {_who(process, now, mem)}"
    if process.name.rpartition("/")[2] in DISPLAYS and mem is not None and mem < DISPLAY_MIB:
        return warning(subject, f"{sentence}, which draws a desktop")
    if _is_stuck(process):
        return refusal(subject, f"{sentence} {_stuck_in(process)}", "reset the GPU or reboot the host")
    return refusal(subject, sentence, _end_first(profile, process))


def _unseen_mib(gpu: GpuFact) -> float:
    """Memory in use beyond that of the holders; 0 where the driver does not tell."""
    held = [holder.mem_mib for holder in gpu.holders]
    known = [amount for amount in held if amount is not None]
    return 0.0 if gpu.mem_used_mib is None or len(known) < len(held) else gpu.mem_used_mib - sum(known)


def _gpu_leaves(gpu: GpuFact, ending: Sequence[Target]) -> Target | None:
    """The target that holds it now; in a container no process is seen, and what it asked for must do."""
    for holder in gpu.holders:
        if target := target_of(holder.process, ending):
            return target
    if _unseen_mib(gpu) <= UNSEEN_MIB:
        return None
    return next((target for target in ending if gpu.index in target.gpus), None)


def _port_leaves(fact: PortFact, ending: Sequence[Target]) -> Target | None:
    """The target that listens there; where nobody may know who does, the port must be one of its own."""
    if fact.holder is not None:
        return target_of(fact.holder, ending)
    return next((target for target in ending if fact.port in (target.port, *target.ports)), None)


def _port_in_use(profile: Profile, fact: PortFact, now: float | None) -> Check:
    subject = f"port {fact.port}"
    if fact.holder is None:
        return refusal(
            subject,
            f"{subject} is held by a process of another user, which may not be looked at",
            f"ask root (`ss -ltnp`), or take another port in {profile.file}",
        )
    return refusal(
        subject, f"{subject} is held by {_who(fact.holder, now)}", _end_first(profile, fact.holder)
    )


def _end_first(profile: Profile, process: ProcessFact) -> str:
    if process.run is not None:
        return f"it is left over from run {process.run}: stop that first"
    return f"end it on the host if that is right, or take others in {profile.file}"


def _free(subject: str, found: Sequence[tuple[int, Target | None]]) -> Iterator[Check]:
    """One line for all that are free, and one for each target whose end makes some free."""
    by_target: dict[str | None, list[int]] = {}
    for number, target in found:
        by_target.setdefault(target.name if target else None, []).append(number)
    for name, numbers in by_target.items():
        listed, verb = ", ".join(map(str, numbers)), "are" if len(numbers) > 1 else "is"
        yield ok(
            subject, f"{listed} {verb} free" if name is None else f"{listed}: free once {name} has ended"
        )


def _who(process: ProcessFact, now: float | None, mem_mib: float | None = None) -> str:
    """As `pid 40111 (sglang::tokenizer, user ops, started 3 h ago)`."""
    parts = [process.name]
    parts += [f"user {process.user}"] if process.user else []
    parts += [f"in {process.unit}"] if process.unit else []
    parts += [f"run {process.run}"] if process.run else []
    parts += [f"{mem_mib:,.0f} MiB"] if mem_mib is not None else []
    if now is not None and process.started is not None:
        parts.append(f"started {_age(now - process.started)} ago")
    return f"pid {process.pid} ({', '.join(parts)})"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def _is_stuck(process: ProcessFact) -> bool:
    """Case C07: within the driver, where no signal reaches it."""
    return process.state in "DR" and "nvidia" in (process.waits_in or "")


def _stuck_in(process: ProcessFact) -> str:
    return f"and hangs in the driver ({process.waits_in})"
