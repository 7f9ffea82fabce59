"""A simulated SGLang router ("sgl-model-gateway 0.3.2") that really forwards."""

from sglang_router.version import __version__ as __version__
