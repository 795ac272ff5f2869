"""Queries that read a clock or a random number are refused."""

from __future__ import annotations

import pytest

from headwater.dialects.sqlite.requery import SQLITE_REQUERY
from headwater.model.errors import UnsupportedQuery
from headwater.plan.volatile_functions import refuse_volatile


@pytest.mark.parametrize(
    ("sql", "params", "functions"),
    [
        ("SELECT random() FROM t", (), {"random"}),
        ("SELECT date('now') FROM t", (), {"date"}),
        ("SELECT unixepoch() FROM t", (), {"unixepoch"}),
        ("SELECT datetime(?) FROM t", ("NOW",), {"datetime"}),
        ("SELECT strftime('%s') FROM t", (), {"strftime"}),
    ],
)
def test_what_changes_by_itself_is_refused(sql: str, params: tuple[str, ...], functions: set[str]) -> None:
    with pytest.raises(UnsupportedQuery, match="changes without any change"):
        refuse_volatile(sql, params, functions, SQLITE_REQUERY)


def test_a_date_of_a_column_is_no_clock() -> None:
    refuse_volatile("SELECT date(a) FROM t", (), {"date"}, SQLITE_REQUERY)
