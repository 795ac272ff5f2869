"""The 22 queries of TPC-H as its specification writes them, with its validation parameters, and the same queries
without what our SQL cannot follow yet.

Both forms have the same answer. The standard's texts are in `queries/`; `_REWRITES` is what the second form
changes: a construct that becomes incremental shows in the benchmark's table, and its line here can go. Q19 has a second
text, with the join's condition outside of OR.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

NUMBERS = tuple(range(1, 23))
_TEXTS = Path(__file__).parent / "queries"
_PHONE = "substring(c_phone FROM 1 FOR 2)"
_REWRITES = (
    ("date '1998-12-01' - interval '90' day", "date '1998-09-02'"),
    ("date '1993-07-01' + interval '3' month", "date '1993-10-01'"),
    ("date '1993-10-01' + interval '3' month", "date '1994-01-01'"),
    ("date '1996-01-01' + interval '3' month", "date '1996-04-01'"),
    ("date '1995-09-01' + interval '1' month", "date '1995-10-01'"),
    ("date '1994-01-01' + interval '1' year", "date '1995-01-01'"),
    ("0.06 - 0.01", "0.05"),
    ("0.06 + 0.01", "0.07"),
    ("<= 1 + 10", "<= 11"),
    ("<= 10 + 10", "<= 20"),
    ("<= 20 + 10", "<= 30"),
    ("extract(year FROM l_shipdate)", "cast(to_char(l_shipdate, 'YYYY') AS integer)"),
    ("extract(year FROM o_orderdate)", "cast(to_char(o_orderdate, 'YYYY') AS integer)"),
    (_PHONE, "left(cast(c_phone AS text), 2)"),
)
_LIMIT = re.compile(r"\nLIMIT (\d+)\s*$")


@dataclass(frozen=True, slots=True)
class TpchQuery:
    number: int
    standard: str
    rewritten: str

    @property
    def name(self) -> str:
        return f"Q{self.number}"

    @property
    def is_refreshed(self) -> bool:
        """RF1 and RF2 change what it reads."""
        return "orders" in self.standard or "lineitem" in self.standard

    @property
    def limit(self) -> int | None:
        found = _LIMIT.search(self.standard)
        return int(found[1]) if found else None

    @property
    def unlimited(self) -> str:
        """The standard's text without its LIMIT: rows that tie for the last place may be any of these."""
        return _LIMIT.sub("", self.standard)


def query(number: int, scale: float) -> TpchQuery:
    """The fraction in Q11 depends on the scale."""
    standard = rewritten = _text(f"q{number:02}.sql").replace(":fraction", f"{0.0001 / scale:.10f}")
    if (_TEXTS / f"q{number:02}_rewritten.sql").exists():
        rewritten = _text(f"q{number:02}_rewritten.sql")
    for before, after in _REWRITES:
        rewritten = rewritten.replace(before, after)
    return TpchQuery(number, standard, rewritten)


def _text(name: str) -> str:
    return (_TEXTS / name).read_text().strip()
