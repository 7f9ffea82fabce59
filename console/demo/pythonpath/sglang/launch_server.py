"""`python -m sglang.launch_server …`: serves, and recommends `sglang serve`, as the real one does."""

from __future__ import annotations

import sys
import warnings

from sglang.server import main

if __name__ == "__main__":
    warnings.warn(
        "'python -m sglang.launch_server' is still supported, but "
        "'sglang serve' is the recommended entrypoint.\n"
        "  Example: sglang serve --model-path <model> [options]",
        UserWarning,
        stacklevel=1,
    )
    main(sys.argv[1:])
