"""The lists in docs/sql.md are what the code gives."""

from __future__ import annotations

import re

import pytest

from tests.docs.lists import LISTS, filled
from tests.docs.pages import page


@pytest.mark.slow
def test_the_lists_are_as_the_code_has_them() -> None:
    text = page("sql.md").text
    assert filled(text) == text, "run ./dev docs and read the difference"


def test_every_list_is_shown() -> None:
    assert sorted(re.findall(r"<!-- list: (.+) -->", page("sql.md").text)) == sorted(LISTS)
