"""What a relation may cost, told before it is computed: no join meets more pairs, and no relation has more rows."""

from __future__ import annotations

import pytest

from headwater.engine.operators.derived import Derived
from headwater.engine.operators.join import pair_bound
from headwater.engine.operators.join.condition import Equation
from headwater.engine.operators.join.pair_bound import pairs_at_most, rows_at_most
from headwater.engine.rows.work import Work
from headwater.model.budget import Budget
from headwater.model.errors import OverBudget
from headwater.model.limits import DEFAULT
from headwater.model.value import Type
from headwater.sql.ir.expr import Call, ColumnRef
from headwater.sql.ir.relation import Exists, Join, Mark, Relation, RelColumn, Scan
from tests.engine.operators.alone import LEFT, RIGHT, L, R
from tests.engine.operators.join.test_join import SAME_KEY
from tests.engine.operators.test_compile import story
from tests.engine.world import FUZZ, batch_of

_MATCHED_TWICE = 3  # an outer join looks its pairs up for itself, and for what is left over on either side


@pytest.mark.slow
def test_no_random_tree_costs_more_than_its_bound() -> None:
    met = 0
    for seed in range(3000, 3000 + 40 * FUZZ):
        told = story(seed, transactions=1)
        rows = {name: len(each) for name, each in told.first.items()}
        work = Work()
        derived = Derived("d", told.relation, told.world.tables, work)
        tables = told.world.tables
        (loaded,) = derived.load({name: [batch_of(tables[name], each)] for name, each in told.first.items()})
        used = DEFAULT.work_pairs_max - work.budget.pairs
        made = loaded.num_rows
        assert made <= rows_at_most(told.relation, rows), seed
        assert used <= _MATCHED_TWICE * pairs_at_most(told.relation, rows) + 2 * sum(rows.values()) + made, seed
        met += used > 0
    assert met > 10


def test_a_join_on_a_key_meets_each_row_once_and_any_other_all_with_all() -> None:
    left, right = Scan("t", ("a", "b"), LEFT, (LEFT[1].name,)), Scan("u", ("a", "b"), RIGHT, (RIGHT[0].name,))
    rows = {"t": 1000, "u": 300}
    assert pairs_at_most(Join("inner", left, right, SAME_KEY), rows) == 1000
    assert pairs_at_most(Join("inner", left, right, None), rows) == 300_000
    assert rows_at_most(Join("full", left, right, SAME_KEY), rows) == 1000 + 1000 + 300
    assert pairs_at_most(Join("inner", L, R, None), {L.table: 10**6, R.table: 10**6}) == 10**12


def test_what_is_known_of_a_relation_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins upon joins: each asks for the rows and the keys of all beneath it."""
    relation: Relation = Scan("t0", ("a",), (RelColumn("c0", Type.INTEGER),), ("c0",))
    for n in range(1, 20):
        right = Scan(f"t{n}", ("a",), (RelColumn(f"c{n}", Type.INTEGER),), (f"c{n}",))
        on = Call("=", (ColumnRef("c0", Type.INTEGER), ColumnRef(f"c{n}", Type.INTEGER)), Type.INTEGER)
        relation = Join("inner", relation, right, on)
    asked, equations = list[Join | Exists | Mark](), pair_bound._equations

    def counted(join: Join | Exists | Mark) -> list[Equation]:
        asked.append(join)
        return equations(join)

    monkeypatch.setattr(pair_bound, "_equations", counted)
    assert pairs_at_most(relation, {f"t{n}": 10 for n in range(20)}) == 19 * 10
    assert len(asked) <= 2 * 19


def test_a_budget_is_charged_before_anything_is_made() -> None:
    budget = Budget.of(DEFAULT)
    budget.charge_pairs(DEFAULT.work_pairs_max)
    with pytest.raises(OverBudget, match="at least 33,554,433 pairs of rows at once, more than the 33,554,432 allowed"):
        budget.charge_pairs(1)
    with pytest.raises(OverBudget, match=r"take at least 1,280,000,000,000 bytes at once"):
        Budget(bytes=0, bytes_max=0).charge_pairs(32_000_000_000)
