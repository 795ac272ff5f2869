"""Limits on the size of one window: the rows it shows, and the rows that are kept in order for it."""

from __future__ import annotations

from headwater.engine.windows.window import Window
from headwater.model.limits import Limits


def outgrown(window: Window, limits: Limits) -> str | None:
    """Why a window has to be closed: it shows too many rows, or chooses those it shows among too many."""
    if window.rows > limits.result_rows_max:
        return too_large(limits.result_rows_max)
    if window.group.ranked is not None and window.group.size > limits.ranked_rows_max:
        return f"more than {limits.ranked_rows_max} rows would have to be kept in order; add a narrower WHERE"
    return None


def too_large(rows_max: int) -> str:
    return f"the result has more than {rows_max} rows; add a LIMIT or a narrower WHERE"
