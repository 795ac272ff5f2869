"""PostgreSQL as a `Dialect`."""

from __future__ import annotations

from headwater.dialects.postgres.bind.aggregates import POSTGRES_AGGREGATES
from headwater.dialects.postgres.bind.binder import POSTGRES_BINDER
from headwater.dialects.postgres.bind.order import POSTGRES_ORDER
from headwater.dialects.postgres.evaluator import PostgresEvaluator
from headwater.dialects.postgres.names import POSTGRES_NAMES
from headwater.dialects.postgres.requery import POSTGRES_REQUERY
from headwater.dialects.postgres.syntax.syntax import POSTGRES_SYNTAX
from headwater.dialects.postgres.types.column_types import POSTGRES_TYPES
from headwater.sql.dialect import Dialect

POSTGRES = Dialect(
    name="postgres",
    syntax=POSTGRES_SYNTAX,
    names=POSTGRES_NAMES,
    binder=POSTGRES_BINDER,
    types=POSTGRES_TYPES,
    aggregates=POSTGRES_AGGREGATES,
    order=POSTGRES_ORDER,
    evaluator=PostgresEvaluator(),
    requery=POSTGRES_REQUERY,
)
