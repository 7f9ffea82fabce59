"""dsv4-console: watch and run DeepSeek-V4-Flash on SGLang over SSH."""

__version__ = "0.1.0"
