"""The version that is simulated."""

__version__ = "0.3.2"
