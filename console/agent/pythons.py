"""The Pythons of the host, each asked about itself: it alone knows where it looks for packages."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping

from .children import Children, TookTooLong
from .logsearch import source_of

PROBE_LIMIT_S = 5.0

Probe = Dict[str, Any]


def python_fact(path: str, children: Children, environment: Mapping[str, str]) -> dict[str, Any]:
    """The fields of console.domain.host_facts.PythonFact."""
    found = probe(path, children, environment)
    if found is None:
        return {"path": path, "usable": False}
    return {"path": path, "usable": True, "version": found["version"], "packages": found["packages"]}


def probe(path: str, children: Children, environment: Mapping[str, str]) -> Probe | None:
    """What pythonprobe finds; None when this is no Python of 3.8 or later that can be run."""
    try:
        ended = children.run([path, "-c", source_of("pythonprobe")], PROBE_LIMIT_S, environment)
        found = json.loads(ended.out.splitlines()[-1])
    except (OSError, TookTooLong, ValueError, IndexError):
        return None
    return found if isinstance(found, dict) else None
