"""The load generator: sends prompts, C at a time, and tells when every chunk arrived.

It travels to the host with the agent, which starts it as a child (loads.py) under a Python that has httpx.
Here it begins; loadlead.py leads the processes of loadworker.py, which measure.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any, Dict

DEFAULTS = {"warmup": [], "workers": 1, "idle_limit_s": 60.0, "total_limit_s": None, "api_key": None}

Spec = Dict[str, Any]


def main(spec: Spec) -> None:
    """Carry out a load with the fields of console.domain.bench.load.LoadSpec, from stdin to stdout."""
    try:
        httpx = importlib.import_module("httpx")
    except ImportError as error:
        fail(f"{sys.executable} has no httpx to send requests with: {error}")
        return
    try:
        scheme = httpx.URL(spec["url"]).scheme
    except httpx.InvalidURL as error:
        fail(f"{spec['url']} is no address: {error}")
        return
    if scheme != "http":
        fail(f"{spec['url']} is no address for a load: it does not begin with http://")
        return
    importlib.import_module(".loadlead", __package__).generate(dict(DEFAULTS, **spec))


def fail(reason: str) -> None:
    """The only event there is."""
    print(json.dumps({"event": "failed", "reason": reason}), flush=True)
