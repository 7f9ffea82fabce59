"""The steps of a plan that end what runs: signal, wait, and look whether it is truly gone.

Each yields sentences on how far it is, and raises StepFailed when what it waits for does not come.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence

from console.domain.host_facts import GpuFact, GpuHolder, Group, Holders, PortFact, ProcessFact
from console.domain.plan import GONE_S, Step, Target
from console.services.host_control import HostControl, same
from console.services.step_failure import StepFailed

POLL_S = 0.1
COMES_BACK_S = 4.0
"""A container or unit that starts its server again does so within seconds."""
UNSEEN_MIB = 2048.0
"""So much memory on a GPU is in use with nobody to be seen: the driver has not given it back."""
RESET = "a GPU reset or a reboot of the host is needed"


async def end(control: HostControl, targets: Sequence[Target], grace_s: float) -> AsyncGenerator[str, None]:
    """SIGTERM, wait, SIGKILL to what is left, wait again."""
    groups = await control.look(targets)
    if not any(group.living for group in groups):
        yield "they have ended already"
        return
    await _signal(control, targets, groups)
    async for said in _wait_gone(control, targets, grace_s):
        yield said
    groups = await control.look(targets)
    left = _living(groups)
    if left:
        yield f"SIGKILL after {grace_s:.0f} s for {_named(left)}"
        await control.signal(targets, "KILL")
        async for said in _wait_gone(control, targets, GONE_S):
            yield said
        _refuse_survivors(_living(await control.look(targets)))


async def _signal(control: HostControl, targets: Sequence[Target], groups: Sequence[Group]) -> None:
    refused = (await control.signal(targets, "TERM")).refused
    if refused:
        first = refused[0]
        raise StepFailed(
            f"pid {first.pid} cannot be signalled: {first.why}",
            "end it as its owner, or give the profile sudo = true",
        )
    if any(member.state == "T" for group in groups for member in group.members):
        # A stopped process takes a SIGTERM only when it goes on.
        await control.signal(targets, "CONT")


async def _wait_gone(
    control: HostControl, targets: Sequence[Target], limit_s: float
) -> AsyncGenerator[str, None]:
    end_at = control.now() + limit_s
    told = ""
    while control.now() < end_at:
        living = _living(await control.look(targets))
        if not living:
            return
        said = f"{_count(living)} left: {_named(living)}"
        if said != told:
            yield said
            told = said
        await control.sleep(min(POLL_S, max(0.01, end_at - control.now())))


def _refuse_survivors(survivors: Sequence[ProcessFact]) -> None:
    """Case C07: a process inside the driver cannot be killed."""
    if not survivors:
        return
    stuck = survivors[0]
    place = f" in {stuck.waits_in}" if stuck.waits_in else ""
    raise StepFailed(
        f"{_named(survivors)} cannot be killed: state {stuck.state}{place}",
        RESET if "nvidia" in (stuck.waits_in or "") or stuck.state in "DR" else "look at it on the host",
    )


async def see_gone(control: HostControl, step: Step) -> AsyncGenerator[str, None]:
    """No process of the targets lives, and nothing that somebody else started comes back by itself."""
    groups = await control.look(step.targets)
    living = _living(groups)
    if living:
        raise StepFailed(f"still alive: {_named(living)}", "stop again, or look at them on the host")
    zombies = [member for group in groups for member in group.members]
    if zombies:
        them = "it" if len(zombies) == 1 else "them"
        yield (
            f"{_named(zombies)}: ended, and not yet collected by the parent (zombie);"
            f" nothing is held by {them}"
        )
    if any(target.is_foreign for target in step.targets):
        yield f"looking for {COMES_BACK_S:.0f} s whether somebody starts it again"
        await _watch_return(control, step.targets)


async def _watch_return(control: HostControl, targets: Sequence[Target]) -> None:
    ports = {port for target in targets for port in target.ports} | {
        target.port for target in targets if target.port
    }
    end_at = control.now() + COMES_BACK_S
    while control.now() < end_at:
        for server in control.servers():
            back = server.process.port in ports and not any(same(server, target) for target in targets)
            if back and server.is_present:
                raise StepFailed(
                    f"a new server on port {server.process.port} took its place, pid {server.process.pid}:"
                    " a container or unit starts it again by itself",
                    "stop that container or unit, then try again",
                )
        await control.sleep(POLL_S)


async def see_free(control: HostControl, step: Step) -> AsyncGenerator[str, None]:
    """Nobody listens on the ports, and the GPUs' memory is given back."""
    end_at = control.now() + step.limit_s
    told = ""
    while True:
        left = _left(await control.holders(step.ports), step)
        if left is None:
            return
        if control.now() >= end_at:
            raise StepFailed(f"STOP INCOMPLETE: {left}", "end what is named, then try again")
        if left != told:
            yield left
            told = left
        await control.sleep(POLL_S)


def _left(holders: Holders, step: Step) -> str | None:
    """What is still held by the targets, or by nobody that can be seen."""
    ports = [fact for fact in holders.ports if fact.holder is None or _is_of(fact.holder, step.targets)]
    gpus = [fact for fact in holders.gpus if fact.index in step.gpus and _holds(fact, step.targets)]
    parts = [*map(_port_words, ports), *([_gpu_words(gpus)] if gpus else [])]
    return "; ".join(parts) or None


def _holds(gpu: GpuFact, targets: Sequence[Target]) -> bool:
    """A list of processes may be seconds old: of those that are gone, the memory in use tells."""
    living = _living_holders(gpu)
    if any(_is_of(holder.process, targets) for holder in living):
        return True
    others_mib = sum(holder.mem_mib or 0.0 for holder in living)
    return (gpu.mem_used_mib or 0.0) - others_mib > UNSEEN_MIB


def _is_of(process: ProcessFact, targets: Sequence[Target]) -> bool:
    return any(
        process.pid in target.pids or (process.run is not None and process.run == target.run)
        for target in targets
    )


def _port_words(fact: PortFact) -> str:
    who = "somebody who may not be seen" if fact.holder is None else _named([fact.holder])
    return f"port {fact.port} is held by {who}"


def _gpu_words(gpus: Sequence[GpuFact]) -> str:
    """As `2 processes, 202042 MiB still held on GPU 0,1`."""
    holders = {holder.process.pid for gpu in gpus for holder in _living_holders(gpu)}
    held = sum(map(_held_mib, gpus))
    who = _count(holders) if holders else "no process to be seen"
    return f"{who}, {held:.0f} MiB still held on GPU {','.join(str(gpu.index) for gpu in gpus)}"


def _held_mib(gpu: GpuFact) -> float:
    living = _living_holders(gpu)
    return sum(holder.mem_mib or 0.0 for holder in living) if living else gpu.mem_used_mib or 0.0


def _living_holders(gpu: GpuFact) -> list[GpuHolder]:
    return [holder for holder in gpu.holders if holder.process.state not in "XZ"]


def _count(processes: Collection[object]) -> str:
    return "1 process" if len(processes) == 1 else f"{len(processes)} processes"


def _living(groups: Iterable[Group]) -> list[ProcessFact]:
    return [member for group in groups for member in group.living]


def _named(processes: Sequence[ProcessFact]) -> str:
    shown = [f"pid {process.pid} ({process.name})" for process in processes[:4]]
    more = len(processes) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
