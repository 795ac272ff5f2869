"""Random expressions: what we bind and render is what SQLite computes, type for type."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, note

from headwater.dialects.sqlite.render import render
from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.value import Row, Type
from headwater.plan.planner import plan
from headwater.sql.ir.expr import Expr
from tests.sql.written import TABLE, examples, expressions, filled, rows

Answer = list[tuple[object, bytes]] | str
_TYPES = {"integer": Type.INTEGER, "real": Type.REAL, "text": Type.TEXT, "blob": Type.BLOB}


def _answer(memory: sqlite3.Connection, text: str) -> Answer:
    """Value and type per row, or the error. Text as bytes: a blob cast to text need not be UTF-8."""
    memory.text_factory = bytes
    try:
        return memory.execute(f"SELECT {text}, CAST(typeof({text}) AS BLOB) FROM t ORDER BY id").fetchall()
    except sqlite3.Error as error:
        return str(error)


def _bound(text: str) -> Expr | SqlError:
    try:
        return plan(f"SELECT {text} FROM t", [TABLE]).template.outputs[0].expr
    except SqlError as error:
        return error


@pytest.mark.slow
@examples(500)
@given(expressions, rows())
def test_a_rendered_expression_computes_what_the_written_one_does(text: str, some: list[Row]) -> None:
    memory = filled(some)
    written, expr = _answer(memory, text), _bound(text)
    if isinstance(expr, SqlError):
        note(str(expr))
        assert isinstance(written, str) or isinstance(expr, UnsupportedQuery)
    else:
        note(render(expr))
        assert _answer(memory, render(expr)) == written


@pytest.mark.slow
@examples(500)
@given(expressions, rows())
def test_a_static_type_is_the_type_of_every_value(text: str, some: list[Row]) -> None:
    expr, written = _bound(text), _answer(filled(some), text)
    if isinstance(expr, SqlError) or isinstance(written, str) or expr.type is Type.ANY:
        return
    found = {_TYPES[type.decode()] for _, type in written if type != b"null"}
    if expr.type is Type.INTEGER and Type.REAL in found:
        assert any(isinstance(value, float) and abs(value) >= 1 << 63 for value, _ in written), (
            "overflow alone gives REAL"
        )
    else:
        assert found <= {expr.type}


@examples(400)
@given(expressions)
def test_rendering_is_stable(text: str) -> None:
    """Binding the rendered text gives the same expression: canonical text has one meaning."""
    expr = _bound(text)
    if not isinstance(expr, SqlError):
        assert _bound(render(expr)) == expr
