"""Servers that run as root, launched by an agent that does not: with a real sudo, as a user of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from console.domain.errors import HostRefused
from console.domain.host_facts import Holders, HostFacts
from console.remote.ssh import SshHost
from tests.integration.accounts import Account, account
from tests.integration.agent_session import Environment, Groups, Session, Signalled, session
from tests.integration.sshd import SshServer, free_port
from tests.integration.waiting import eventually

NEEDS_PASSWORD = "sudo: a password is required"
SERVER = """
import os, signal, socket
listening = socket.create_server(("127.0.0.1", {port}))
if os.fork():
    os.write(1, b"up, uid %d\\n" % os.getuid())
signal.pause()
"""
MARK = "# {mark}\nimport signal; signal.pause()"


@pytest.fixture
def ops(home: Path) -> Iterator[Account]:
    """A user whom sudo knows nothing of, with an sshd that leads there as `gpu-box`."""
    assert shutil.which("sudo"), "install sudo"
    with account("bash") as made:
        only = f"DSV4_AGENT_ONLY_ENV=DSV4_TEST={made.folder}"
        server = SshServer(made.folder / "sshd", home, {"SetEnv": f"{only} NCCL_ALGO=Tree"})
        server.trust()
        server.add_alias("gpu-box", User=made.name)
        server.start()
        yield made
        server.stop()
        # Of a test that failed something may be left.
        for pid in living(lambda folder: f"USER={made.name}".encode() in (folder / "environ").read_bytes()):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def sudoer(ops: Account) -> Iterator[Account]:
    """The same user, who may do everything."""
    line = Path("/etc/sudoers.d") / ops.name
    line.touch(0o440)
    line.write_text(f"{ops.name} ALL=(root) NOPASSWD: ALL\n")
    yield ops
    line.unlink()


@contextlib.asynccontextmanager
async def gpu_box() -> AsyncIterator[Session]:
    host = SshHost("gpu-box")
    await host.connect()
    async with session(host, None) as here:
        assert here.link.hello.uid != 0
        yield here
    await host.close()


async def inspected(here: Session) -> HostFacts:
    return await here.link.value(HostFacts, "inspect", paths=[], pythons=[], disks=[], sudo=True)


def python(here: Session, script: str) -> list[str]:
    return [here.link.hello.python, "-S", "-c", script]


async def as_user(who: Account, *command: str) -> None:
    found = pwd.getpwnam(who.name)
    as_who = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    process = await asyncio.create_subprocess_exec(*command, **as_who)
    assert await process.wait() == 0


def living(condition: Callable[[Path], bool]) -> list[int]:
    """Pids of processes, no zombies among them, whose folder in /proc fulfils a condition."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if condition(folder) and ") Z " not in (folder / "stat").read_text():
                found.append(int(folder.name))
    return sorted(found)


def in_session(number: int) -> list[int]:
    return living(lambda folder: int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == number)


@pytest.mark.usefixtures("sudoer")
@pytest.mark.parametrize("name", ["TERM", "KILL"])
async def test_a_run_as_root_from_launch_to_end(name: str) -> None:
    port = free_port()
    async with gpu_box() as here:
        assert (await inspected(here)).sudo is None
        await here.lock()
        argv = python(here, SERVER.format(port=port))
        run = await here.launch("r1", argv=argv, sudo=True, port=port, ports=[port])
        assert run.sudo
        log = Path(run.log)
        await eventually(lambda: log.read_text() == "up, uid 0\n", "it did not come up as root")
        assert here.records.runs == (run,)

        (group,) = (await here.link.value(Groups, "look", runs=["r1"], servers=[])).groups
        assert [(fact.user, fact.run) for fact in group.members] == [("root", "r1")] * 3
        assert group.members[0].name == "sudo"
        assert sorted(fact.pid for fact in group.members) == in_session(run.pid)

        names = ["NCCL_PROTO", "NCCL_ALGO", "DSV4_RUN", "SUDO_USER"]
        told = (await here.link.value(Environment, "environment", run="r1", names=names)).environment
        assert told == {"NCCL_PROTO": "LL", "DSV4_RUN": "r1", "SUDO_USER": here.link.hello.user}

        (held,) = (await here.link.value(Holders, "holders", ports=[port, free_port()])).ports
        assert held.holder is not None
        assert (held.port, held.holder.run, held.holder.user) == (port, "r1", "root")
        assert held.holder.name.startswith("python")

        done = await here.link.value(Signalled, "signal", runs=["r1"], processes=[], signal=name)
        assert (sorted(done.signalled), done.refused) == (sorted(each.pid for each in group.members), ())
        await eventually(lambda: here.records.runs == (), "its end was not told")
        assert in_session(run.pid) == []
        (group,) = (await here.link.value(Groups, "look", runs=["r1"], servers=[])).groups
        assert (group.members, group.exit_code) == ((), -getattr(signal, f"SIG{name}"))
        assert (await here.link.value(Holders, "holders", ports=[port])).ports == ()


@pytest.mark.usefixtures("sudoer")
async def test_what_of_a_run_outlives_its_sudo_is_still_known(sudoer: Account) -> None:
    port = free_port()
    async with gpu_box() as here:
        await here.lock()
        argv = python(here, SERVER.format(port=port))
        run = await here.launch("r1", argv=argv, sudo=True, port=port, ports=[port])
        await eventually(lambda: Path(run.log).read_text(), "it did not come up")
        orphans = [pid for pid in in_session(run.pid) if pid != run.pid]
        os.kill(run.pid, signal.SIGKILL)
        await eventually(lambda: in_session(run.pid) == orphans, "sudo lives")
        (held,) = (await here.link.value(Holders, "holders", ports=[port])).ports
        assert held.holder is not None
        assert held.holder.run == "r1"
        done = await here.link.value(Signalled, "signal", runs=["r1"], processes=[], signal="KILL")
        assert (list(done.signalled), done.refused) == (orphans, ())
        await eventually(lambda: here.records.runs == (), "its end was not told")


async def test_roots_port_that_is_no_runs_of_ours_has_an_unknown_holder(ops: Account) -> None:
    async with gpu_box() as here:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        (held,) = (await here.link.value(Holders, "holders", ports=[port])).ports
        assert (held.port, held.holder) == (port, None)
        server.close()
        await server.wait_closed()


async def test_sudo_that_wants_a_password_launches_nothing(ops: Account) -> None:
    async with gpu_box() as here:
        assert (await inspected(here)).sudo == NEEDS_PASSWORD
        await here.lock()
        begun = time.monotonic()
        with pytest.raises(HostRefused) as refused:
            await here.launch("r1", argv=python(here, MARK), sudo=True)
        assert refused.value.cause == f"nothing was launched: {NEEDS_PASSWORD}"
        assert time.monotonic() - begun < 5.0
        assert here.records.runs == ()
        assert [path.name for path in ops.home.rglob("*") if path.is_file()] == ["lock"]


async def test_a_run_as_root_whose_record_cannot_be_kept_is_ended(sudoer: Account) -> None:
    script = MARK.format(mark=sudoer.name)
    async with gpu_box() as here:
        await here.lock()
        # A disk that takes no more: not a byte may be written to any file.
        await as_user(sudoer, "prlimit", f"--pid={here.link.hello.pid}", "--fsize=0")
        with pytest.raises(HostRefused) as refused:
            await here.launch("r1", argv=python(here, script), sudo=True)
        assert "File too large" in (refused.value.cause or "")
        assert living(lambda folder: sudoer.name.encode() + b"\n" in (folder / "cmdline").read_bytes()) == []
        assert list((sudoer.home / ".local/state/dsv4-console/runs").iterdir()) == []
