"""What EXPLAIN says of a table that is held by key."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.pipeline.activation.activator import Activator
from headwater.plan.template import Template, key_columns


def by_key_notes(activator: Activator, template: Template) -> Iterator[str]:
    """Nothing of a table that is held whole."""
    if activator.held_by_key(template):
        rows, limit = activator.source.rows_about(template.table), activator.by_key_rows_min
        about = "" if rows is None else f" of about {rows:,}"
        yield (
            f"{template.table} is held by key ({', '.join(key_columns(template))}): of its rows{about} only those that "
            f"subscribers ask for; tables of {limit:,} rows or more are, while they are only asked for by key"
        )
