"""Installed from a wheel and started from anywhere, the console finds all that it ships."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built wheel's content, without dependencies (the tests' own environment has them)."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), str(REPOSITORY)], check=True)
    return target


def run(installed: Path, cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)


def test_it_runs_from_its_own_folder_and_not_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, sys.executable, "-c", "import console; print(console.__file__)")
    assert done.stdout.strip() == str(installed / "console" / "__init__.py")


@pytest.mark.parametrize("name", ["profiles", "themes"])
def test_profiles_and_themes_travel_along(installed: Path, tmp_path: Path, name: str) -> None:
    code = f"from console.settings import shipped_folder; print(shipped_folder({name!r}))"
    folder = Path(run(installed, tmp_path, sys.executable, "-c", code).stdout.strip())
    assert folder.is_relative_to(installed)
    shipped = sorted(path.name for path in folder.glob("*.toml"))
    assert shipped == sorted(path.name for path in (REPOSITORY / name).glob("*.toml"))
    assert shipped


def test_the_command_is_there(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, str(installed / "bin" / "dsv4-console"), "--version")
    assert done.stdout.startswith("dsv4-console, version ")


def test_the_demo_runs(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, sys.executable, "-m", "console", "status", "--demo")
    assert "(DEMO)" in done.stdout, done.stderr
    assert done.stdout.count("GPU ") == 8
