"""Whether systemd-logind ends what was started from here when its user logs out (logind.conf(5))."""

from __future__ import annotations

import glob
import os
import re

from . import procfs

FOLDERS = ("/etc", "/run", "/usr/local/lib", "/usr/lib")
"""Where systemd looks for its settings; the first that has a file hides those of the same name."""
TRUE = ("1", "yes", "y", "true", "t", "on")

SESSION = re.compile(r"/session-[^/]+\.scope(/|$)")
"""What a login holds, and all that it starts. Lingering spares only the user's own systemd."""


def kills(user: str, proc: str = "/proc", root: str = "") -> bool:
    """Whether a process that is started now ends with the user's last login."""
    group = (procfs.read(proc + "/self/cgroup") or b"").decode("utf-8", "replace")
    in_session = any(SESSION.search(line) for line in group.splitlines())
    return in_session and kills_sessions_of(user, login_settings(root))


def kills_sessions_of(user: str, settings: dict[str, str]) -> bool:
    """Whether logind is told to end the processes of this user's sessions."""
    if settings.get("KillUserProcesses", "no").lower() not in TRUE:
        return False
    only = settings.get("KillOnlyUsers", "").split()
    return user not in settings.get("KillExcludeUsers", "root").split() and (not only or user in only)


def login_settings(root: str) -> dict[str, str]:
    """The section [Login]: the main file, then the drop-ins in the order of their names."""
    found: dict[str, str] = {}
    for path in settings_files(root):
        section = ""
        for line in (procfs.read(path) or b"").decode("utf-8", "replace").splitlines():
            name, equals, value = (part.strip() for part in line.partition("="))
            if line.startswith("["):
                section = line.strip()
            elif equals and section == "[Login]" and not name.startswith(("#", ";")):
                found[name] = value
    return found


def settings_files(root: str) -> list[str]:
    """In the order in which they are read."""
    main = [f"{root}{folder}/systemd/logind.conf" for folder in FOLDERS]
    drop_ins: dict[str, str] = {}
    for folder in FOLDERS:
        for path in glob.glob(f"{glob.escape(root)}{folder}/systemd/logind.conf.d/*.conf"):
            drop_ins.setdefault(os.path.basename(path), path)
    return [path for path in main if os.path.exists(path)][:1] + [drop_ins[name] for name in sorted(drop_ins)]
