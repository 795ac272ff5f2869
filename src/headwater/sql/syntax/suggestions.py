"""Names people misspell: the nearest known one, as a hint."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    spelled = {other.lower(): other for other in known}
    found = get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return spelled[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    found = nearest(name, known)
    return f"did you mean {found}?" if found else otherwise


def listed(names: Iterable[str], most: int = 8) -> str:
    """A few names for a hint, so that a wide table does not fill the screen."""
    every = list(names)
    return ", ".join(every[:most]) + (", …" if len(every) > most else "")


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())
