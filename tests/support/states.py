"""States, emissions and the way from one state to another, made by hand and by chance.

The differ here is naive on purpose and shares nothing with the engine: what it builds is what an emission may say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from headwater.model.emission import Diff, Fields, RowChange, State
from headwater.model.value import Value

COLUMNS = ("a", "b")
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.binary(max_size=3),
)
FIELDS: st.SearchStrategy[Fields] = st.tuples(VALUES, VALUES).map(lambda row: dict(zip(COLUMNS, row, strict=True)))
HASHES = st.sampled_from([f"h{n}" for n in range(8)])


@dataclass(frozen=True, slots=True)
class Move:
    """A state, where it shall go, and what became of each old row: its new hash, or nothing."""

    before: State
    rows: Sequence[Fields]
    hashes: Sequence[str]
    became: Mapping[str, str]
    ordered: bool


def states(seq: int = 10, gen: int = 1) -> st.SearchStrategy[State]:
    return st.lists(st.tuples(HASHES, FIELDS), max_size=6, unique_by=lambda pair: pair[0]).map(
        lambda pairs: State([row for _, row in pairs], [hash for hash, _ in pairs], COLUMNS, seq, gen, 100)
    )


@st.composite
def moves(draw: st.DrawFn, ordered: bool | None = None) -> Move:
    before, after = draw(states()), draw(states())
    placed = draw(st.booleans()) if ordered is None else ordered
    became = {hash: hash for hash in before.hashes if hash in after.hashes}
    gone = [hash for hash in before.hashes if hash not in became]
    fresh = [hash for hash in after.hashes if hash not in became]
    renamed = draw(st.integers(0, min(len(gone), len(fresh))))
    became |= dict(zip(gone[:renamed], fresh[:renamed], strict=True))
    if draw(st.booleans()):
        became = dict(zip(became, draw(st.permutations(list(became.values()))), strict=True))
    return Move(before, after.rows, after.hashes, became, placed)


def diff(move: Move, *, seq: int = 12, partial: bool = False) -> Diff:
    """Every row that left, came or is another now; `partial` updates carry only the columns that changed."""
    before = {new: old for old, new in move.became.items()}
    changes = [_gone(move, at) for at, hash in enumerate(move.before.hashes) if hash not in move.became]
    for at, hash in enumerate(move.hashes):
        changes += _coming(move, at) if hash not in before else _updated(move, at, before[hash], partial)
    return Diff(seq, move.before.seq, move.before.gen, 101, tuple(changes))


def _gone(move: Move, at: int) -> RowChange:
    place = at if move.ordered else None
    return RowChange("delete", move.before.rows[at], None, move.before.hashes[at], None, None, place)


def _coming(move: Move, at: int) -> list[RowChange]:
    place = at if move.ordered else None
    return [RowChange("insert", None, move.rows[at], None, move.hashes[at], place)]


def _updated(move: Move, at: int, old_hash: str, partial: bool) -> list[RowChange]:
    """Nothing where neither row, nor hash, nor place changed. Rows between two places are moved by all the others."""
    from_ = list(move.before.hashes).index(old_hash)
    old, new = move.before.rows[from_], move.rows[at]
    if not move.ordered and same(old, new) and old_hash == move.hashes[at]:
        return []
    fields = {name: value for name, value in new.items() if not partial or repr(old[name]) != repr(value)}
    places = (at, from_) if move.ordered else (None, None)
    return [RowChange("update", old, fields, old_hash, move.hashes[at], *places)]


def same(left: Fields, right: Fields) -> bool:
    """To the bit: repr tells 1 from 1.0, 0.0 from -0.0, and takes NaN for itself."""
    return repr(dict(left)) == repr(dict(right))


def shown(rows: Sequence[Fields]) -> list[str]:
    return [repr(dict(row)) for row in rows]


def pairs(rows: Sequence[Fields], hashes: Sequence[str]) -> dict[str, str]:
    return dict(zip(hashes, shown(rows), strict=True))
