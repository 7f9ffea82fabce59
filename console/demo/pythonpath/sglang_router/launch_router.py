"""`python -m sglang_router.launch_router …`. The process renames itself, as the real one does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from demohost import lifeline, proctitle

from sglang_router.gateway import Gateway
from sglang_router.router_args import parse


def main(argv: Sequence[str]) -> None:
    """Parse, serve, end. Exits the process."""
    args = parse(argv)
    try:
        folder = lifeline.folder()
    except lifeline.NoDemoHostError as error:
        sys.exit(str(error))
    proctitle.rename("sglang::router")
    lifeline.end_with_the_demo(folder)
    asyncio.run(Gateway(args, folder).run())


if __name__ == "__main__":
    main(sys.argv[1:])
