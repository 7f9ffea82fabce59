"""Packages of the host's Python. The agent runs under `python -S`, which starts without them."""

from __future__ import annotations

import importlib
import site
import sys
from functools import lru_cache
from types import ModuleType


@lru_cache(maxsize=None)
def add() -> None:
    """Do once what `python -S` left out.

    site.main() is what Python itself runs at the start: it knows virtual environments and .pth files.
    """
    if sys.flags.no_site:
        site.main()


def load(name: str) -> ModuleType | None:
    """Import a package, looking into site-packages when it is not found without; None when absent."""
    try:
        return importlib.import_module(name)
    except ImportError:
        add()
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
