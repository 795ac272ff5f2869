"""What the rows that we keep of a table rest on, beside the names and types of its columns: that each column is still
the one it was, that nobody wrote the table anew with other values, and that enums and composites still read the same.

The stream tells of none of these. It reads the catalog, and no row of the user's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from headwater.model.schema import Table
from headwater.sources.postgres.server.connections import Connection

T = TypeVar("T", int, str)


class CacheValidity(msgspec.Struct, frozen=True):
    """`columns`: number and collation, by name. `altered`: what is another after every ALTER of the column, by name.

    `file` is another after the table was rewritten, or truncated, or packed by VACUUM FULL. `values` are the labels of
    enums, by oid: more may come. `types` are the columns of composites, by oid. Of a partitioned table, by oid: `files`
    are those of its partitions, and `touched` the transactions that last changed what the catalog has of them.
    """

    file: int = 0
    columns: dict[str, str] = {}
    altered: dict[str, str] = {}
    values: dict[int, str] = {}
    types: dict[int, str] = {}
    files: dict[int, int] = {}
    touched: dict[int, int] = {}


_COLUMNS = """
SELECT attrelid::int8, attname, attnum || ' ' || attcollation, xmin::text FROM pg_attribute
WHERE attrelid = ANY (%(oids)s::int8[]) AND attnum > 0 AND NOT attisdropped
"""
_FILES = "SELECT oid::int8, relfilenode::int8 FROM pg_class WHERE oid = ANY (%(oids)s::int8[]) AND relkind = 'r'"
_PARTITIONS = """
SELECT c.oid::int8, l.oid::int8, l.relfilenode::int8, l.xmin::text::int8
FROM pg_class c CROSS JOIN pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid
WHERE c.oid = ANY (%(oids)s::int8[]) AND c.relkind = 'p' AND t.isleaf
"""
_MADE = """
WITH RECURSIVE made(relation, type) AS (
    SELECT attrelid, atttypid FROM pg_attribute
    WHERE attrelid = ANY (%(oids)s::int8[]) AND attnum > 0 AND NOT attisdropped AND atttypid >= 16384
    UNION
    SELECT m.relation, inner_type
    FROM made m JOIN pg_type t ON t.oid = m.type CROSS JOIN LATERAL (
        SELECT t.typelem UNION ALL SELECT t.typbasetype
        UNION ALL SELECT atttypid FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped
        UNION ALL SELECT rngsubtype FROM pg_range WHERE t.oid IN (rngtypid, rngmultitypid)
    ) i(inner_type)
    WHERE inner_type >= 16384
)
"""
VALUES = f"{_MADE} SELECT relation::int8, e.oid::int8, enumlabel::text FROM made JOIN pg_enum e ON enumtypid = type"
TYPES = f"""
{_MADE}
SELECT relation::int8, type::int8, string_agg(concat_ws(' ', attnum, atttypid, atttypmod), ',' ORDER BY attnum)
FROM made JOIN pg_type t ON t.oid = type JOIN pg_attribute ON attrelid = typrelid
WHERE typrelid <> 0 AND attnum > 0 AND NOT attisdropped GROUP BY relation, type
"""


def read_validity(db: Connection, oids: Sequence[int]) -> dict[int, CacheValidity]:
    """By table."""
    asked = {"oids": list(oids)}
    columns: dict[int, dict[str, str]] = defaultdict(dict)
    altered: dict[int, dict[str, str]] = defaultdict(dict)
    for oid, name, number, version in db.execute(_COLUMNS, asked):
        columns[oid][name], altered[oid][name] = number, version
    whole = dict(db.execute(_FILES, asked).fetchall())
    files, touched = read_files(db, oids)
    values, types = _by_table(db, VALUES, asked), _by_table(db, TYPES, asked)
    return {
        oid: CacheValidity(
            whole.get(oid, sum(files[oid].values())),
            columns[oid],
            altered[oid],
            values.get(oid, {}),
            types.get(oid, {}),
            files[oid],
            touched[oid],
        )
        for oid in oids
    }


def read_files(db: Connection, oids: Sequence[int]) -> tuple[dict[int, dict[int, int]], dict[int, dict[int, int]]]:
    """By partitioned table, and none for others: `files` and `touched`."""
    files: dict[int, dict[int, int]] = defaultdict(dict)
    touched: dict[int, dict[int, int]] = defaultdict(dict)
    for table, partition, file, transaction in db.execute(_PARTITIONS, {"oids": list(oids)}):
        files[table][partition], touched[table][partition] = file, transaction
    return files, touched


def _by_table(db: Connection, sql: str, asked: Mapping[str, list[int]]) -> dict[int, dict[int, str]]:
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for table, oid, fact in db.execute(sql.encode(), asked):
        found[table][oid] = fact
    return found


def shaken(table: Table, before: CacheValidity, now: CacheValidity) -> str | None:
    """Why rows that were read before may not be what the table holds now; None where they are.

    A table may be written anew with the same values; with others only if one of its columns was altered.
    """
    anew = [name for name in table.names if _differs(name, before.columns, now.columns)]
    if anew:
        return f"column {anew[0]} of table {table.name} was recreated or given another collation"
    if before.file != now.file and any(_differs(name, before.altered, now.altered) for name in table.names):
        return f"table {table.name} was rewritten when a column of it was altered"
    if any(_differs(oid, before.types, now.types) for oid in before.types):
        return f"a composite type that table {table.name} holds was altered"
    renamed = [label for oid, label in before.values.items() if _differs(oid, before.values, now.values)]
    return f"the value {renamed[0]!r} of an enum that table {table.name} holds was renamed" if renamed else None


def emptied(before: CacheValidity, now: CacheValidity, told: Collection[int]) -> bool:
    """Whether a partition was truncated by itself, which the stream does not tell: its file is another one, and not by
    the transactions that were told to have truncated the whole. One that was only packed looks the same."""
    there = before.files.keys() & now.files.keys()
    return any(before.files[one] != now.files[one] and now.touched[one] not in told for one in there)


def _differs(key: T, before: Mapping[T, str], now: Mapping[T, str]) -> bool:
    return key in before and now.get(key) != before[key]
