"""`python -m sglang_router launch …`: what the scripts `smg`, `amg` and `sglang-router` run."""

from __future__ import annotations

import sys

from sglang_router.launch_router import main

if __name__ == "__main__":
    if sys.argv[1:2] != ["launch"]:
        print("usage: smg [-h] {launch,server} ...", file=sys.stderr)
        sys.exit(1)
    main(sys.argv[2:])
