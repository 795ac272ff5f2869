"""What docs/adding-a-database.md says a database needs is what the databases have that there are."""

from __future__ import annotations

import re
from dataclasses import fields

from headwater.dialects.registry import DIALECTS
from headwater.sql.dialect import Dialect
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/adding-a-database.md").read_text()
ROWS = [re.findall(r"`([^`]*)`", line) for line in PAGE.splitlines() if re.match(r"\| `\w+` \| `\w+`:", line)]
SOURCE = ROOT / "src/headwater"


def test_every_part_of_a_dialect_is_listed_with_its_contract() -> None:
    assert [row[0] for row in ROWS] == [each.name for each in fields(Dialect) if each.name != "name"]
    assert [row[1] for row in ROWS] == [str(each.type) for each in fields(Dialect) if each.name != "name"]


def test_every_part_of_a_dialect_is_where_the_page_says() -> None:
    for name, _, *paths in ROWS:
        modules = ["headwater." + path.removesuffix(".py").replace("/", ".") for path in paths]
        assert modules == [type(getattr(dialect, name)).__module__ for dialect in DIALECTS.values()]


def test_every_database_is_two_folders() -> None:
    for name in DIALECTS:
        assert (SOURCE / "dialects" / name).is_dir() and (SOURCE / "sources" / name / "source.py").is_file()
