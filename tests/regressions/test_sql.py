"""The smallest SQL that once went wrong in sql/ or plan/."""

from __future__ import annotations

import pytest

from headwater.model.value import Type
from headwater.sql.bind import bind
from headwater.sql.render import render
from sql.written import TABLE

CASES = ("id IS NOT DISTINCT FROM id IS NOT FALSE",)


@pytest.mark.parametrize("text", CASES)
def test_binding_rendered_text_gives_the_same_expression(text: str) -> None:
    expr = bind(f"SELECT {text} FROM t", [TABLE]).outputs[0].expr
    assert bind(f"SELECT {render(expr)} FROM t", [TABLE]).outputs[0].expr == expr


def test_replacing_nothing_gives_back_what_was_there() -> None:
    """Found with `replace(id, x'', id)`: an integer."""
    assert bind("SELECT replace(id, x'', id) AS a FROM t", [TABLE]).outputs[0].expr.type is Type.ANY
