"""The house is tidy: a stranger finds what a file does by its name, and reads it at one sitting."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/headwater"
MODULES_MAX, LINES_MAX, FUNCTION_LINES_MAX = 15, 400, 40


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")


def test_no_folder_holds_more_modules_than_one_keeps_in_mind() -> None:
    folders = {path.parent for path in modules()}
    counts = {str(folder.relative_to(SOURCE)): len([*folder.glob("[!_]*.py")]) for folder in folders}
    assert {name: count for name, count in counts.items() if count > MODULES_MAX} == {}


def test_no_module_is_named_by_a_gerund() -> None:
    assert [str(path.relative_to(SOURCE)) for path in modules() if path.stem.endswith("ing")] == []


def test_files_are_read_at_one_sitting() -> None:
    long = {str(path.relative_to(SOURCE)) for path in modules() if path.read_text().count("\n") > LINES_MAX}
    assert long == set()


def test_functions_fit_a_screen() -> None:
    assert {f"{path.relative_to(SOURCE)}::{name}" for path in modules() for name in _long(path)} == set()


def test_a_class_name_belongs_to_one_class() -> None:
    counts = Counter(name for path in modules() for name in _classes(path))
    assert {name for name, count in counts.items() if count > 1} == set()


def _classes(path: Path) -> Iterator[str]:
    return (node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))


def _long(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno >= FUNCTION_LINES_MAX:
                yield node.name
