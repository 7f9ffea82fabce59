"""The host itself: memory, disk, sudo, what a login does to processes and to their environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console.domain.host_facts import HostFacts
from console.domain.plan import Target
from console.domain.profile import Profile

from .check import Check, ok, refusal, warning

SCARCE_MIB = 4096.0
"""A server takes 2 to 2.5 GB of memory even with the smallest model on the CPU."""
NO_MIB = 1024.0
SHM_SCARCE_MIB = 1024.0
"""NCCL's buffers between ranks without peer access lie in /dev/shm; containers get 64 MiB by default."""
DISK_SCARCE_MIB = 1024.0
DISK_NO_MIB = 50.0


def check_machine(profile: Profile, facts: HostFacts, ending: Sequence[Target]) -> Iterator[Check]:
    """All of it."""
    yield _memory(facts, ending)
    if any(len(server.gpus) > 1 for server in profile.servers):
        yield _shared_memory(facts)
    yield _disk(facts)
    if profile.sudo or any(target.sudo for target in ending):
        yield _sudo(facts)
    if facts.kills_on_logout:
        yield _logout(facts)
    if facts.inherited:
        yield warning("environment", f"left out of the launch: {', '.join(facts.inherited)} of the login")


def _memory(facts: HostFacts, ending: Sequence[Target]) -> Check:
    free = facts.mem_available_mib
    if free is None:
        return warning("memory", "n/a: what is available cannot be read")
    sentence = f"{mib(free)} available"
    # What the servers that end first hold is not counted in.
    if free < NO_MIB and not ending:
        return refusal("memory", f"{sentence}: no server starts in that", "end what uses the memory")
    return warning("memory", f"{sentence}, which is little") if free < SCARCE_MIB else ok("memory", sentence)


def _shared_memory(facts: HostFacts) -> Check:
    free = facts.shm_free_mib
    if free is None:
        return warning("/dev/shm", "n/a: what is free cannot be read")
    if free < SHM_SCARCE_MIB:
        return warning(
            "/dev/shm",
            f"{mib(free)} free; ranks without peer access exchange data through it",
            "give a container more, by --shm-size or --ipc=host",
        )
    return ok("/dev/shm", f"{mib(free)} free")


def _disk(facts: HostFacts) -> Check:
    folder = facts.state_folder
    free = facts.disk_free_mib.get(folder)
    if free is None:
        return warning("disk", f"n/a: what is free for {folder} cannot be read")
    sentence = f"{mib(free)} free for logs in {folder}"
    if free < DISK_NO_MIB:
        return refusal("disk", f"{sentence}: a log would end in the middle", "make room there")
    return warning("disk", f"{sentence}, which is little") if free < DISK_SCARCE_MIB else ok("disk", sentence)


def _sudo(facts: HostFacts) -> Check:
    if facts.sudo is None:
        return ok("sudo", "sudo -n works without a password")
    return refusal(
        "sudo",
        f"sudo -n cannot be used: {facts.sudo}",
        f"let root add with visudo: `{facts.user} ALL=(root) NOPASSWD: ALL` and "
        f"`Defaults:{facts.user} !requiretty`",
    )


def _logout(facts: HostFacts) -> Check:
    # Lingering does not help: it keeps the user's manager, not the scope of the session (logind.conf(5)).
    return refusal(
        "logout",
        f"systemd-logind ends the processes of {facts.user} at logout, and the servers with them "
        "(KillUserProcesses=yes)",
        f"let root set KillExcludeUsers=root {facts.user} in /etc/systemd/logind.conf and restart "
        "systemd-logind",
    )


def mib(amount: float) -> str:
    """As `1,812 MiB`, from 10 GiB on as `98.7 GiB`."""
    return f"{amount / 1024:,.1f} GiB" if amount >= 10240 else f"{amount:,.0f} MiB"
