"""The demo host: an SSH server on loopback in front of simulated GPUs and simulated SGLang servers.

To the console it is a host like any other. `pythonpath/` is on the PYTHONPATH of everything that runs there,
so that `import pynvml` and `python -m sglang.launch_server` find the simulated ones; it is no part of the
console's own packages.
"""
