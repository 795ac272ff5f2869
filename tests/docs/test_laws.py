"""The thirteen laws in docs/ARCHITECTURE.md: each names tests that exist, or says plainly what is not tested yet."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.docs.pages import ROOT, page, pages, table_rows

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
    "Requery",
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
    laws, tests = (dict(_numbered(heading)) for heading in ("The laws", "Tests of the laws"))
    assert list(laws) == list(tests) == list(range(1, 14))
    for number, enforced in tests.items():
        assert _TEST.search(enforced) or "not yet:" in enforced, f"law {number}"


def _numbered(heading: str) -> list[tuple[int, str]]:
    rows = table_rows(page("ARCHITECTURE.md").section(heading))
    return [(int(number), text) for number, text in rows if number.isdigit()]


def test_every_test_that_a_page_names_exists() -> None:
    named = [found for each in pages() for found in _TEST.findall(each.text)]
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
