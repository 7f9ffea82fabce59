"""Let SGLang's pair with NIXL run on a CPU with two cores.

SGLang tells NIXL that KV buffers live on a GPU ("VRAM"); on a CPU they are host memory ("DRAM"). An idle
scheduler and NIXL's progress thread each spin on a core that nobody else needs on a host with GPUs; here they
are four on two cores, and a request waits for them three quarters of its time. So a scheduler without work
rests for half a millisecond, and NIXL makes its progress when it is asked how far it is, which SGLang does.
"""

import importlib.abc
import importlib.util
import os
import sys
import time

ON_HOST = ("register_memory", "get_xfer_descs", "get_reg_descs", "prep_xfer_dlist")
REST_S = 0.0005


class Changed(importlib.abc.MetaPathFinder):
    """Finds one module once, by the finders behind it, and changes what its execution made."""

    def __init__(self, name, change):
        self._name = name
        self._change = change

    def find_spec(self, name, path, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self._change(module)

        spec.loader.exec_module = exec_module
        return spec


def change_nixl(module):
    for method in ON_HOST:
        setattr(module.nixl_agent, method, on_host(getattr(module.nixl_agent, method)))
    module.nixl_agent_config.__init__ = without_thread(module.nixl_agent_config.__init__)


def on_host(method):
    def moved(value):
        return "DRAM" if isinstance(value, str) and value == "VRAM" else value

    def call(self, *args, **kwargs):
        return method(self, *map(moved, args), **{key: moved(value) for key, value in kwargs.items()})

    return call


def without_thread(method):
    def init(self, *args, **kwargs):
        method(self, *args, **dict(kwargs, enable_prog_thread=False))

    return init


def change_scheduler(module):
    module.Scheduler.on_idle = then_rest(module.Scheduler.on_idle)


def then_rest(method):
    def on_idle(self):
        method(self)
        time.sleep(REST_S)

    return on_idle


if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    sys.meta_path.insert(0, Changed("sglang.srt.managers.scheduler", change_scheduler))
if os.environ.get("NIXL_HOST_MEMORY") == "1":
    sys.meta_path.insert(0, Changed("nixl_cu13._api", change_nixl))
