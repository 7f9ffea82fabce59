"""Let NIXL register KV memory as host memory, so that a prefill/decode pair runs on a CPU.

SGLang tells NIXL that KV buffers live on a GPU ("VRAM"); on a CPU they are host memory ("DRAM"). With
NIXL_HOST_MEMORY=1, four methods of nixl_agent are wrapped as its module is first imported.
"""

import importlib.abc
import importlib.util
import os
import sys

WRAPPED = ("register_memory", "get_xfer_descs", "get_reg_descs", "prep_xfer_dlist")


def on_host(value):
    return "DRAM" if isinstance(value, str) and value == "VRAM" else value


def wrapped(method):
    def call(self, *args, **kwargs):
        return method(self, *map(on_host, args), **{key: on_host(value) for key, value in kwargs.items()})

    return call


class NixlFinder(importlib.abc.MetaPathFinder):
    """Finds nixl's module once, by the finders behind it, and wraps what its execution made."""

    def find_spec(self, name, path, target=None):
        if name != "nixl_cu13._api":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            for method in WRAPPED:
                setattr(module.nixl_agent, method, wrapped(getattr(module.nixl_agent, method)))

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("NIXL_HOST_MEMORY") == "1":
    sys.meta_path.insert(0, NixlFinder())
