"""The modules of the demo host's own PYTHONPATH, imported for a test and forgotten after it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from console.demo.host import PYTHONPATH

PACKAGES = ("demohost", "sglang", "sglang_router")

Import = Callable[[str], Any]


@contextmanager
def demo_modules() -> Iterator[Import]:
    """An import function; the simulated pynvml is `simulated_pynvml`, for the real one may be loaded."""
    sys.path.append(str(PYTHONPATH))
    try:
        yield _load
    finally:
        sys.path.remove(str(PYTHONPATH))
        for name in list(sys.modules):
            if name.partition(".")[0] in (*PACKAGES, "simulated_pynvml"):
                del sys.modules[name]


def _load(name: str) -> Any:
    if name != "simulated_pynvml":
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, PYTHONPATH / "pynvml.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
