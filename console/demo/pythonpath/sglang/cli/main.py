"""`python -m sglang.cli.main serve …`: what the `sglang` script runs."""

from __future__ import annotations

import sys

from sglang.server import main as serve
from sglang.version import __version__


def main() -> None:
    """Serve, or print the version."""
    verb = sys.argv[1] if len(sys.argv) > 1 else None
    if verb == "serve":
        serve(sys.argv[2:])
    elif verb == "version":
        print(f"sglang version: {__version__}")
    else:
        print("usage: sglang [-h] {serve,version} ...", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
