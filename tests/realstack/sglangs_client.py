"""sglang's own benchmark client, as it is, run once for each line on stdin: a JSON list of words.

It imports for ten seconds, in which the speed of a shared machine changes: so it is started once, before the
measurements that are to be compared. SGLang's Python runs this file; each run is answered with a line.
"""

import contextlib
import json
import sys

from sglang.benchmark import serving

for line in sys.stdin:
    sys.argv = ["serving", *json.loads(line)]
    with contextlib.redirect_stdout(sys.stderr):
        serving.cli_main()
    print("done", flush=True)
