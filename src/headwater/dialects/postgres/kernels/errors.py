"""What PostgreSQL says of a row that it cannot compute."""

from __future__ import annotations


class Failed(Exception):
    """The error that PostgreSQL raises for a row."""
