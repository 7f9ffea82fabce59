"""Run by a Python of the host's: its version and what is installed for it. Imports none of it.

Out: a JSON object on the last line of stdout. `packages` maps distributions to versions; `parsers` are the
files that make the command lines of SGLang and its router, as [path, mtime in ns, size]: with the versions
they tell one installation from another, an editable one from itself a day ago.
"""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import json
import os
import platform

DISTRIBUTIONS = {
    "sglang": ("sglang",),
    "sglang-router": ("sglang-router",),
    "nixl": ("nixl", "nixl-cu13", "nixl-cu12"),
    "torch": ("torch",),
    "httpx": ("httpx",),
    "nvidia-ml-py": ("nvidia-ml-py",),
}
"""The names under which each may be installed."""
PARSERS = {
    "sglang": ("srt/server_args.py", "srt/arg_groups/**/*.py"),
    "sglang_router": ("router_args.py", "launch_router.py"),
}


def version(names: tuple[str, ...]) -> str | None:
    """The version of the first of these distributions that is installed."""
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def packages() -> dict[str, str]:
    """Those that are installed."""
    found = {name: version(names) for name, names in DISTRIBUTIONS.items()}
    return {name: number for name, number in found.items() if number is not None}


def parsers() -> list[tuple[str, int, int]]:
    """The files of both parsers."""
    found = []
    for package, patterns in PARSERS.items():
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            for pattern in patterns:
                for path in glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True):
                    status = os.stat(path)
                    found.append((path, status.st_mtime_ns, status.st_size))
    return sorted(found)


if __name__ == "__main__":
    print(json.dumps({"version": platform.python_version(), "packages": packages(), "parsers": parsers()}))
