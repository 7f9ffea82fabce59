"""What the demo host serves from the start: the deployment of a profile, as the console's agent leaves one.

The formats of what it writes are those of console/agent/__init__.py and console/domain/run_record.py.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import msgspec

from console.domain.launch import Launch, launches
from console.domain.profile import Profile
from console.domain.run_record import DeploymentRecord, RunRecord
from console.domain.sglang_flags import NEWEST_KNOWN
from console.profiles import Folders, load_profile
from console.settings import shipped_folder

FIRST = "demo-pd"
"""The profile that runs when the demo begins."""
TOKEN = "DSV4_RUN"
"""The variable that names a process's run."""


class Deployment:
    """The processes that the demo host itself has launched."""

    def __init__(self, state: Path, environment: Mapping[str, str]) -> None:
        self._state, self._environment = state, environment
        self._by = f"demo@{socket.gethostname()}"
        self._running: dict[Path, subprocess.Popen[bytes]] = {}
        """By the folder of the run."""

    def start(self) -> None:
        """Launch the first profile, and record what is launched. Raises ProfileError."""
        profile = load_profile(FIRST, Folders(shipped_folder("profiles")))
        deployment = _new_id(profile.name)
        runs = [
            self._launch(each, deployment, profile)
            for each in launches(profile, sys.executable, NEWEST_KNOWN)
        ]
        record = DeploymentRecord(
            id=deployment,
            profile=profile,
            runs=tuple(run.id for run in runs),
            by=self._by,
            begun_at=time.time(),
            stage="up",
            note="started with the demo host; not proven",
        )
        _write(self._state / "deployment.json", msgspec.to_builtins(record))

    def _launch(self, launch: Launch, deployment: str, profile: Profile) -> RunRecord:
        run = _new_id(launch.name)
        folder = self._state / "runs" / run
        folder.mkdir(parents=True, mode=0o700)
        log = folder / f"{launch.name}.log"
        process = self._running[folder] = self._begin(launch, run, log)
        record = RunRecord(
            id=run,
            deployment=deployment,
            profile=profile.name,
            name=launch.name,
            role=launch.role,
            pid=process.pid,
            start_ticks=_start_ticks(process.pid),
            boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            launched_at=time.time(),
            by=self._by,
            argv=launch.argv,
            environment=launch.environment,
            gpus=launch.gpus,
            port=launch.port,
            ports=launch.ports,
            log=str(log),
        )
        seen = ("alive", "exit_code")
        facts = {name: value for name, value in msgspec.to_builtins(record).items() if name not in seen}
        _write(folder / "run.json", facts)
        return record

    def _begin(self, launch: Launch, run: str, log: Path) -> subprocess.Popen[bytes]:
        with open(log, "ab") as output:
            return subprocess.Popen(
                launch.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**self._environment, **launch.environment, TOKEN: run},
                start_new_session=True,
            )

    def collect(self) -> None:
        """Take note of those that have ended: nobody else can, for the demo host is their parent."""
        for folder, process in self._running.items():
            if process.poll() is not None and not (folder / "exit").exists():
                _write(folder / "exit", process.returncode)

    def wait(self) -> None:
        """Until all have ended."""
        for process in self._running.values():
            process.wait()


def _new_id(name: str) -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{uuid4().hex[:6]}"


def _start_ticks(pid: int) -> int:
    """Field 22 of /proc/PID/stat (proc(5)), counted from behind the name, which may hold anything."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[19])


def _write(path: Path, content: object) -> None:
    """In one step for whoever reads it."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(content))
    os.replace(fresh, path)
