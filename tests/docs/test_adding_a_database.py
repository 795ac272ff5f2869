"""What docs/adding-a-database.md says a database needs is what the databases have that there are."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from headwater.dialects.registry import DIALECTS
from headwater.sources.registry import KINDS
from headwater.sql.dialect import Dialect
from tests.docs.pages import ROOT, page, table_rows

PAGE = page("adding-a-database.md")
ROWS = [re.findall(r"`([^`]*)`", line) for line in PAGE.text.splitlines() if re.match(r"\| `\w+` \| `\w+`:", line)]
SOURCE = ROOT / "src/headwater"
_PATH = re.compile(r"`([\w<>./-]+/[\w<>./-]*|[\w<>-]+\.(?:py|toml|md))`")


def test_every_part_of_a_dialect_is_listed_with_its_contract() -> None:
    assert [row[0] for row in ROWS] == [each.name for each in fields(Dialect) if each.name != "name"]
    assert [row[1] for row in ROWS] == [str(each.type) for each in fields(Dialect) if each.name != "name"]


def test_every_part_of_a_dialect_is_where_the_page_says() -> None:
    for name, _, *paths in ROWS:
        modules = ["headwater." + path.removesuffix(".py").replace("/", ".") for path in paths]
        assert modules == [type(getattr(dialect, name)).__module__ for dialect in DIALECTS.values()]


def test_the_page_has_the_databases_of_the_registry_and_of_the_folders() -> None:
    assert _after("Databases today:") == list(DIALECTS)
    for half in ("dialects", "sources"):
        assert {path.parent.name for path in (SOURCE / half).glob("*/__init__.py")} == set(DIALECTS)


def test_the_page_has_the_schemes_of_the_registry() -> None:
    assert [scheme.removesuffix("://") for scheme in _after("Addresses today:")] == list(KINDS)


def _after(words: str) -> list[str]:
    return re.findall(r"`([^`]+)`", PAGE.text.partition(words)[2].partition("\n")[0])


@pytest.mark.parametrize("database", list(DIALECTS))
def test_every_database_has_every_file(database: str) -> None:
    named = [name for name in _PATH.findall(PAGE.section("The files")) if "<db>" in name]
    assert len(named) > 15
    assert [name for name in named if not _exists(name.replace("<db>", database))] == []


def test_every_other_file_that_is_named_exists() -> None:
    named = [name for name in _PATH.findall(PAGE.prose) if "<db>" not in name]
    assert [name for name in named if not _exists(name)] == []


def _exists(name: str) -> bool:
    roots = (ROOT, SOURCE, SOURCE / "dialects/sqlite/syntax")
    return any((root / name).exists() or (root / f"{name}.py").exists() for root in roots)


def test_every_protocol_of_a_source_is_where_the_page_says() -> None:
    rows = [(name.strip("`"), path.strip("`")) for name, path, _ in table_rows(PAGE.section("The source"))[1:]]
    assert {"Source", "Doctor"} <= {name for name, _ in rows}
    for name, path in rows:
        assert name in _protocols(SOURCE / path), f"{path} has no protocol {name}"


def _protocols(path: Path) -> set[str]:
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    return {node.name for node in classes if "Protocol" in {ast.unparse(base) for base in node.bases}}


def test_every_database_is_in_the_contracts() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    only = next(one for one in contracts if one["name"] == "Only the registries name a database")
    folders = {f"headwater.{half}.{database}" for half in ("dialects", "sources") for database in DIALECTS}
    assert set(only["forbidden_modules"]) == folders
