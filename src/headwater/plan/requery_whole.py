"""The floor under everything: any query the source can run, asked again whenever something it reads has changed.

What it reads is the source's word. Whatever depends on more than the tables is refused: it would never be current.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.dialects.registry import DIALECTS
from headwater.model.encoding.tagged_bytes import alike
from headwater.model.value import Row, Type
from headwater.plan.fingerprint import instance_id, template_id
from headwater.plan.planner import Planned
from headwater.plan.requery_by_key import Selection
from headwater.plan.requery_by_value import AskedColumn, AskedKeys, asked_keys
from headwater.plan.strategy import ASKED as ASKED
from headwater.plan.strategy import REQUERY, SELECTIVE
from headwater.plan.template import Instance, Template
from headwater.sql.ir.expr import Const, OrderKey, Output

_HOW = {
    REQUERY: "the source is asked again, and its answer compared with the one before",
    SELECTIVE: "the source is asked again for the rows that a change may have made",
}


@dataclass(frozen=True, slots=True)
class Requeried:
    """`mask` tells for each table which columns count; rows that come or go always do. `why` says why it is neither
    incremental nor, where it has no selection, selective. `learned`: after so many redefinitions of views and functions
    it was found what the query reads. It calls `functions`. `asks` are the columns that instances of the template ask
    for values of, `only` the values of this one: other changes of these tables do not concern it. One that was `moved`
    could be followed."""

    template: str
    instance: int
    sql: str
    values: Row
    keywords: tuple[str, ...]
    names: tuple[str, ...]
    ordered: bool
    mask: Mapping[str, frozenset[str]]
    why: tuple[str, ...]
    selection: Selection | None = None
    learned: int = 0
    asks: tuple[AskedColumn, ...] = ()
    functions: frozenset[str] = frozenset()
    only: Mapping[str, AskedKeys] = field(default_factory=dict)
    moved: bool = False

    @property
    def strategy(self) -> str:
        return REQUERY if self.selection is None else SELECTIVE

    @property
    def asked(self) -> str:
        """What the source is asked for the whole of it."""
        return self.sql if self.selection is None else self.selection.whole

    @property
    def effective(self) -> str:
        """The query as it is answered. Ties of one that is asked for the whole fall as the source lets them fall."""
        return self.sql if self.selection is None else self.selection.effective

    @property
    def params(self) -> Any:
        """As the source's driver takes them: by name, or in order."""
        return dict(zip(self.keywords, self.values, strict=True)) if self.keywords else self.values


def planned_requery(query: Requeried) -> Planned:
    """As everyone else knows a plan. Its one order key stands for the order the source gave."""
    given = (OrderKey(Const(0, Type.INTEGER)),) if query.ordered else ()
    outputs = tuple(Output(name, Const(None, Type.ANY)) for name in query.names)
    template = Template(query.template, query.sql, "", (), None, outputs, given, False)
    instance = Instance(query.instance, query.template, query.values)
    return Planned(template, instance, query.strategy, (*query.why, *_depends(query)))


def _values(planned: Planned) -> list[str]:
    return [DIALECTS[planned.template.dialect].syntax.write(value) for value in planned.instance.values]


def explain_requery(planned: Planned, notes: Iterable[str] = ()) -> str:
    lines = [
        f"template {planned.template.id}",
        f"instance {planned.instance.id}",
        f"strategy {planned.strategy}: {_HOW[planned.strategy]}",
        "query",
        *(f"  {line}" for line in planned.template.sql.strip().splitlines()),
        *(f"  {n}: {text}" for n, text in enumerate(_values(planned), 1)),
        "notes",
        *(f"  {note}" for note in (*planned.notes, *notes)),
    ]
    return "\n".join(lines)


def _depends(query: Requeried) -> Iterator[str]:
    for table, columns in sorted(query.mask.items()):
        named = ", ".join(sorted(columns - {""}))
        how = "again" if query.selection is None else _how(query.selection, table)
        where = "".join(f" where {one}" for one in query.asks if one.table == table and table in query.only)
        what = f"a row of {table}{where} comes or goes"
        yield f"asked {how} when {what}" + (f", or one of {named} changes" if named else "")
    if query.selection is not None and query.selection.order:
        yield f"rows that its order leaves equal are ordered by {', '.join(query.selection.ties)}"


def _how(selection: Selection, table: str) -> str:
    asks = [selection.asks[way.ask] for way in selection.ways.get(table, ())]
    told = [" and ".join(selection.columns[place] for place in ask) for ask in dict.fromkeys(asks)]
    return f"for rows by {' or by '.join(told)}" if told else "whole"


def requeried(
    sql: str,
    params: Sequence[Any] | Mapping[str, Any],
    names: tuple[str, ...],
    mask: Mapping[str, frozenset[str]],
    why: tuple[str, ...],
    selection: Selection | None = None,
    asks: tuple[AskedColumn, ...] = (),
    functions: frozenset[str] = frozenset(),
) -> Requeried:
    keywords, values = _given(params)
    template = template_id("\0".join(("", *names)), sql)  # a text whose columns are others by now is another one
    instance = instance_id(template, (*keywords, *values), None, 0)
    ordered = has_order(sql) if selection is None else bool(selection.order)
    made = Requeried(
        template, instance, sql, values, keywords, names, ordered, mask, why, selection, 0, asks, functions
    )
    return replace(made, only=asked_keys(asks, params))


def another_instance(query: Requeried, params: Sequence[Any] | Mapping[str, Any]) -> Requeried:
    """The same text with other values."""
    keywords, values = _given(params)
    instance = instance_id(query.template, (*keywords, *values), None, 0)
    only = asked_keys(query.asks, params)
    return replace(query, instance=instance, values=values, keywords=keywords, only=only)


def _given(params: Sequence[Any] | Mapping[str, Any]) -> tuple[tuple[str, ...], Row]:
    keywords = tuple(sorted(params)) if isinstance(params, Mapping) else ()
    return keywords, tuple(params[name] for name in keywords) if isinstance(params, Mapping) else tuple(params)


def has_order(sql: str) -> bool:
    """Whether ORDER BY stands outside all parentheses, quotes and comments."""
    depth = 0
    for found in _TOKENS.finditer(sql):
        text = found[0]
        depth += text == "("
        depth -= text == ")"
        if depth == 0 and text[:1] in "oO":
            return True
    return False


_TOKENS = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|[()]|\border\s+by\b""", re.I | re.S
)


def touches(
    mask: Mapping[str, frozenset[str]], table: str, names: Sequence[str], old: Row | None, new: Row | None
) -> bool:
    """Whether a change of a row may change the answer."""
    columns = mask.get(table)
    if columns is None:
        return False
    if old is None or new is None:
        return True
    return any(name in columns and not alike(a, b) for name, a, b in zip(names, old, new, strict=True))
