"""Turn a parcel of sources into importable modules: how the agent runs where nothing is installed.

The bootstrap (console/remote/agent_parcel.py) executes this module's text in a bare namespace, so it must not
import its siblings.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any, Sequence

PACKAGE = "dsv4_agent"


class ParcelFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads the modules of one package from a mapping of name to source text."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = {self._full_name(name): text for name, text in sources.items()}

    @staticmethod
    def _full_name(name: str) -> str:
        return PACKAGE if name == "__init__" else PACKAGE + "." + name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for a module of the parcel, else None."""
        if fullname not in self._sources:
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=fullname == PACKAGE)

    def get_source(self, fullname: str) -> str:
        """A module's text, which the agent gives on to a process of its own."""
        return self._sources[fullname]

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's source; tracebacks name it as <dsv4_agent.NAME>."""
        name = module.__name__
        exec(compile(self._sources[name], f"<{name}>", "exec"), module.__dict__)


def run(parcel: dict[str, Any], out: int) -> None:
    """Install the parcel's modules and hand over to the agent, which does not come back.

    `out` is a descriptor of the real stdout; descriptor 1 was pointed at stderr, so that a library that
    prints cannot break a frame.
    """
    sys.meta_path.insert(0, ParcelFinder(parcel["modules"]))
    service = importlib.import_module(PACKAGE + ".service")
    service.serve(0, out, parcel["options"])
