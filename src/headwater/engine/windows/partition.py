"""The query partition of an instance: by the values of its keys, or by its template where it has no keys.

It never looks at a row.
"""

from __future__ import annotations

from functools import lru_cache

from headwater.model.encoding.keys import encode_row, hash_encoded
from headwater.plan.template import Instance, Template


@lru_cache(maxsize=1024)
def partition_salt(table: str, keys: tuple[str, ...]) -> int:
    return hash_encoded(encode_row((table, *keys), ("BINARY",) * (1 + len(keys))))


def partition_of(template: Template, instance: Instance, partitions: int) -> int:
    """The query partition an instance lives in: by the values of its keys, or by its template where there are none.

    Texts are folded as NOCASE does, so that values equal by either collation live together.
    """
    if partitions == 1:
        return 0
    if not template.keys:
        return home_of(template, partitions)
    values = instance.keyed(template)
    folded = hash_encoded(encode_row(values, ("NOCASE",) * len(values)))
    return (folded + partition_salt(template.table, template.keys)) % 2**64 % partitions


def home_of(template: Template, partitions: int) -> int:
    """Where all instances of a template without keys live."""
    return home(template.id, partitions)


def home(template_id: str, partitions: int) -> int:
    return hash_encoded(template_id.encode()) % partitions
