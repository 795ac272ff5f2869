"""Refuses queries whose answer changes without any change in the database: those would never be current."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headwater.model.errors import UnsupportedQuery
from headwater.sql.contracts.requery import DialectRequery


def refuse_volatile(
    sql: str, params: Sequence[Any] | Mapping[str, Any], functions: Collection[str], rules: DialectRequery
) -> None:
    values = list(params.values() if isinstance(params, Mapping) else params)
    found = sorted(name for name in functions if rules.is_volatile(name, sql, values))
    if found:
        at = re.search(rf"\b{re.escape(found[0])}\b", sql, re.I)
        raise UnsupportedQuery(
            f"{found[0]} changes without any change in the database",
            sql=sql,
            at=at.span() if at else None,
            hint="compute it in the application and pass it as a parameter",
        )
