"""The type of a value that is one of several: of CASE, COALESCE, columns that USING merges."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.model.value import Type


def common_type(types: Iterable[Type | None]) -> Type | None:
    """The one type of all branches, NULLs aside; ANY where they differ."""
    known = {type for type in types if type is not None}
    if len(known) > 1:
        return Type.ANY
    return known.pop() if known else None
