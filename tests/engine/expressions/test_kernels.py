"""Wide templates: their kernels are compiled once, by whoever activates them, and shared by object."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.engine.activation import compile_ahead
from headwater.engine.expressions import kernels
from headwater.plan import planner
from headwater.plan.planner import logged_template, plan, template_from_sql
from tests.sql.written import TABLE

RESULTS = ", ".join(f"id + {n} AS a_column_with_a_long_name_{n}" for n in range(2 * kernels.WIDE))
WIDE = {"one table": f"SELECT id, {RESULTS} FROM t", "joined": f"SELECT {RESULTS.replace('id', 'a.id')} FROM t a, t b"}


@pytest.mark.parametrize("sql", WIDE.values(), ids=WIDE)
def test_who_activates_a_wide_template_compiles_for_its_cell(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    template = plan(sql, [TABLE]).template
    compile_ahead(template, {TABLE.name: TABLE})
    monkeypatch.setattr(kernels, "_compiled", pytest.fail)
    compile_ahead(template_from_sql(template.sql, [TABLE]), {TABLE.name: TABLE})


def test_other_expressions_or_another_table_are_compiled_anew() -> None:
    one, other = (list(plan(f"SELECT {RESULTS} FROM t", [TABLE]).template.outputs) for _ in range(2))
    exprs = [output.expr for output in one]
    first = kernels.kernels_of(exprs, TABLE)
    wider = replace(TABLE, columns=(*TABLE.columns, TABLE.columns[-1]))
    assert kernels.kernels_of(exprs, TABLE) is first
    assert kernels.kernels_of([output.expr for output in other], TABLE) is not first
    assert kernels.kernels_of([*exprs[:-1], exprs[0]], TABLE) is not first
    assert kernels.kernels_of(exprs, wider) is not first


def test_a_long_text_is_bound_once_to_the_same_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    template = plan(WIDE["joined"], [TABLE]).template
    fewer = replace(TABLE, columns=TABLE.columns[:-1])
    assert template_from_sql(template.sql, [fewer]) is not template
    template = plan(WIDE["joined"], [TABLE]).template
    monkeypatch.setattr(planner, "_bound_again", pytest.fail)
    assert template_from_sql(template.sql, [replace(TABLE, schema_id=9)]) is template
    assert logged_template(template.id, template.sql, [TABLE]) is template


def test_only_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_kept", {})
    some = [[output.expr for output in plan(WIDE["one table"], [TABLE]).template.outputs[1:]] for _ in range(3)]
    first, second, third = some
    monkeypatch.setattr(kernels, "_KEPT_MAX", 2)
    found = [kernels.kernels_of(exprs, TABLE) for exprs in some]
    assert kernels.kernels_of(second, TABLE) is found[1]
    assert kernels.kernels_of(third, TABLE) is found[2]
    assert kernels.kernels_of(first, TABLE) is not found[0]
