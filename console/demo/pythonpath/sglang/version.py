"""The version that is simulated."""

__version__ = "0.5.23"
