"""The thirteen laws in docs/ARCHITECTURE.md: each names tests that exist, or says plainly what is not tested yet."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.docs.pages import ROOT, page, table_rows

WORDS = {
    "Change",
    "Transaction",
    "Emission",
    "Query",
    "Template",
    "Instance",
    "Window",
    "Operator",
    "Relation",
    "Derived",
    "Answer",
    "Wholistic",
    "Arrangement",
    "Source",
    "Log",
    "Frame",
    "Cell",
    "Grid",
    "Epoch",
    "Manifest",
    "Gateway",
    "Subscription",
    "LiveResult",
    "position",
    "seq",
    "prev",
    "tx",
    "gen",
    "offset",
    "boot",
}
_TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_there_are_thirteen_and_each_names_its_tests() -> None:
    laws = [row for row in table_rows(page("ARCHITECTURE.md").section("The laws")) if row[0].isdigit()]
    assert [int(row[0]) for row in laws] == list(range(1, 14))
    for number, law, enforced in laws:
        assert law and (_TEST.search(enforced) or "not yet:" in enforced), f"law {number}"


def test_every_test_that_a_page_names_exists() -> None:
    named = [
        found
        for name in ("ARCHITECTURE.md", "life-of-a-query.md", "sqlite.md", "sql.md")
        for found in _TEST.findall(page(name).text)
    ]
    assert named
    missing = [f"{path}::{test}" for path, test in named if test not in _tests_of(path)]
    assert not missing


@cache
def _tests_of(path: str) -> frozenset[str]:
    file = ROOT / "tests" / path
    if not file.exists():
        return frozenset()
    return frozenset(node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef))


def test_the_house_words_are_explained() -> None:
    explained = {row[0].strip("`*") for row in table_rows(page("glossary.md").text)}
    assert explained >= WORDS, sorted(WORDS - explained)
