"""SQLite as a `Dialect`."""

from __future__ import annotations

from headwater.dialects.sqlite.bind.aggregates import SQLITE_AGGREGATES
from headwater.dialects.sqlite.bind.binder import SQLITE_BINDER
from headwater.dialects.sqlite.bind.order import SQLITE_ORDER
from headwater.dialects.sqlite.evaluator import SqliteEvaluator
from headwater.dialects.sqlite.names import SQLITE_NAMES
from headwater.dialects.sqlite.requery import SQLITE_REQUERY
from headwater.dialects.sqlite.syntax.syntax import SQLITE_SYNTAX
from headwater.dialects.sqlite.types import SQLITE_TYPES
from headwater.sql.dialect import Dialect

SQLITE = Dialect(
    name="sqlite",
    syntax=SQLITE_SYNTAX,
    names=SQLITE_NAMES,
    binder=SQLITE_BINDER,
    types=SQLITE_TYPES,
    aggregates=SQLITE_AGGREGATES,
    order=SQLITE_ORDER,
    evaluator=SqliteEvaluator(),
    requery=SQLITE_REQUERY,
)
