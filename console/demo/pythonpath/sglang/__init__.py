"""A simulated SGLang server: the real one's command line, log, HTTP and metrics, without a model.

Shapes are those of SGLang 0.5.23 serving DeepSeek-V4-Flash.
"""

from sglang.version import __version__ as __version__
