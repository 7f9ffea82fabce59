"""The one way in which an order is not carried out."""

from __future__ import annotations


class Refused(Exception):
    """An order that could not, or would not, be carried out: its text is one sentence for people."""
