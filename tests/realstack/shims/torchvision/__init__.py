"""A stand-in for torchvision: SGLang and transformers import it, a text model never calls it."""

import importlib.machinery
import sys
import types

__version__ = "0.28.0"

SUBMODULES = (
    "io",
    "ops",
    "models",
    "datasets",
    "utils",
    "transforms",
    "transforms.functional",
    "transforms.v2",
    "transforms.v2.functional",
)


class Anything:
    """Any class of torchvision's; the constants are read while modules are imported."""

    BILINEAR, BICUBIC, NEAREST, NEAREST_EXACT, BOX, HAMMING, LANCZOS = range(7)
    RGB, GRAY = range(2)

    def __init__(self, *args, **kwargs):
        pass


class StandIn(types.ModuleType):
    """A module that has every class asked of it."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Anything,), {})


for submodule in SUBMODULES:
    module = StandIn(f"torchvision.{submodule}")
    module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    sys.modules[module.__name__] = module
    parent, _, child = module.__name__.rpartition(".")
    setattr(sys.modules[parent], child, module)
