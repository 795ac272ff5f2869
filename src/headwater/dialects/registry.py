"""The dialects there are, by name and by the tables that a query reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.dialects.postgres.dialect import POSTGRES
from headwater.dialects.sqlite.dialect import SQLITE
from headwater.model.schema import Table
from headwater.sql.dialect import Dialect

Tables = Mapping[str, Table] | Sequence[Table]
DIALECTS: Mapping[str, Dialect] = {"sqlite": SQLITE, "postgres": POSTGRES}


def dialect_of(tables: Tables) -> Dialect:
    """Tables come from one source; without any, nothing can be asked."""
    every = tables.values() if isinstance(tables, Mapping) else tables
    return DIALECTS[next((table.dialect for table in every), "sqlite")]
