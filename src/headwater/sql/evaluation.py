"""The error of an aggregate whose result its type does not hold."""

from __future__ import annotations


class Overflow(Exception):
    """In the origin's words."""
