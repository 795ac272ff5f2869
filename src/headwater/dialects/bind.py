"""From text to a bound query in the dialect of its tables: parsed, parameters put in, names resolved, everything typed.

Never plans, never touches data.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.dialects.registry import Tables, dialect_of
from headwater.model.errors import UnsupportedQuery
from headwater.sql.bind.query import bind_whole
from headwater.sql.ir.query import Query
from headwater.sql.syntax.parameters import Given, bind_params
from headwater.sql.syntax.parse import Parsed, parse


def bind(sql: str, tables: Tables, params: Given = (), *, lift_scalars: bool = True) -> Query:
    """Raises `SqlError` for what the source would refuse, `UnsupportedQuery` for what we do."""
    parsed = parse(sql, dialect_of(tables))
    try:
        return bind_parsed(parsed, tables, params, lift_scalars=lift_scalars)
    except RecursionError:
        raise UnsupportedQuery("the expression is nested too deeply", sql=sql, at=(0, len(sql))) from None


def bind_parsed(parsed: Parsed, tables: Tables, params: Given = (), *, lift_scalars: bool = True) -> Query:
    every = tables.values() if isinstance(tables, Mapping) else tables
    named = {table.name.lower(): table for table in every}
    return bind_whole(parsed, named, bind_params(parsed, params), lift_scalars)
