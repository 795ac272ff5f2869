"""Hostile statements against a real server: each is refused with a sentence or answered
harmlessly, and all is as it was.

What must never be shown is `SECRET`: it is in no row of a user's table, only where no question may look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import headwater
from headwater.model.errors import HeadwaterError
from tests.support.databases import Place

SECRET = "s3cr3t-marker"


@dataclass(slots=True)
class Tally:
    """How many were refused and how many answered, and what became of each."""

    refused: int = 0
    answered: list[str] = field(default_factory=list)


def attack(here: Place, statements: Iterable[str], plain: bool) -> Tally:
    """Every way a statement can go: live, explained, and as a plain query where the client has them."""
    tally = Tally()
    ways: list[Callable[[str], Any]] = [partial(_live, here), here.db.explain, *([here.db.query] if plain else [])]
    for sql in statements:
        outcomes = [_tried(way, sql) for way in ways]
        for outcome in outcomes:
            assert SECRET not in str(outcome), sql
        if all(isinstance(outcome, HeadwaterError) for outcome in outcomes):
            tally.refused += 1
        else:
            tally.answered.append(sql)
    return tally


def _live(here: Place, sql: str) -> Any:
    live = here.db.query(sql, live=True, timeout=120)
    shown = live.rows
    live.abort(forget=True)
    return shown


def _tried(ask: Callable[[str], Any], sql: str) -> Any:
    """The answer, or the refusal: an error of ours, with a sentence, that is not about a mistake of ours."""
    try:
        return ask(sql)
    except HeadwaterError as refusal:
        assert refusal.message.strip() and "internal error" not in refusal.message, refusal
        return refusal


def follows(here: Place, live: headwater.LiveResult, rows: Sequence[Any], sql: str) -> None:
    """A quiet live query still sees the next write."""
    assert live.wait(here.write(sql)) and live.state == "ready"
    assert [tuple(row.values()) for row in live.rows] == list(rows)
