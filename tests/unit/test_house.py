"""The house's law, run: see [tool.importlinter] in pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[2]


def test_every_import_keeps_to_the_contracts(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    code = lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True)
    assert code == EXIT_STATUS_SUCCESS, capfd.readouterr().out


def test_no_module_stands_outside_the_floors() -> None:
    """Imports for type checking count too, and a module that no floor names breaks the contract."""
    law = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert law["exclude_type_checking_imports"] is False
    floors = [contract for contract in law["contracts"] if contract["type"] == "layers"]
    assert {floor["containers"][0]: floor["exhaustive"] for floor in floors} == {
        "console": True,
        "console.ui": True,
    }
