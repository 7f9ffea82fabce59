"""Accounts of their own on this machine, which only root can make."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class Account(NamedTuple):
    """A user without a password."""

    name: str
    folder: Path
    """For whatever belongs to it."""

    @property
    def home(self) -> Path:
        return self.folder / "home"


@contextlib.contextmanager
def account(shell: str, files: Mapping[str, str] | None = None) -> Iterator[Account]:
    """A user with this login shell, and these files, path to text, in the home folder."""
    assert os.geteuid() == 0, "accounts can only be made by root"
    program = shutil.which(shell)
    assert program, f"install {shell}"
    # pytest's own folders are closed to other users.
    made = Account(f"dsv4-{shell}-{os.getpid()}", Path(tempfile.mkdtemp(prefix="account-")))
    made.folder.chmod(0o755)
    made.home.mkdir()
    for path, text in (files or {}).items():
        (made.home / path).parent.mkdir(parents=True, exist_ok=True)
        (made.home / path).write_text(text)
    make = [
        "useradd",
        "--no-create-home",
        "--home-dir",
        str(made.home),
        "--shell",
        program,
        "--password",
        "*",
    ]
    subprocess.run([*make, made.name], check=True)
    try:
        for owned in (made.home, *made.home.rglob("*")):
            shutil.chown(owned, made.name)
        yield made
    finally:
        subprocess.run(["userdel", made.name], check=True, capture_output=True)
        shutil.rmtree(made.folder)
