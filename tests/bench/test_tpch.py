"""TPC-H: the rows are as its specification describes them; every query is followed, also one that is too slow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.tpch.queries import NUMBERS, query
from bench.tpch.report import is_dear, remarks
from bench.tpch.rows import Population

SCALE = 0.001


@pytest.fixture(scope="module")
def population() -> Population:
    return Population(SCALE)


def test_tables_have_the_rows_of_their_scale(population: Population) -> None:
    for table, count in {"region": 5, "nation": 25, "supplier": 10, "part": 200, "customer": 150}.items():
        rows = list(getattr(population, table)())
        assert len(rows) == count == population.count(table)
        assert len({row[0] for row in rows}) == count
    offers = {row[:2] for row in population.partsupp()}
    assert len(offers) == 4 * 200
    assert list(Population(SCALE).supplier()) == list(population.supplier())


def test_orders_add_up(population: Population) -> None:
    orders = list(population.loaded_orders())
    offers = {row[:2] for row in population.partsupp()}
    assert len({order[0] for order, _ in orders}) == 1500
    for order, lines in orders:
        key, customer, status = order[:3]
        assert int(str(customer)) % 3 != 0 and 1 <= int(str(customer)) <= 150
        assert [line[3] for line in lines] == list(range(1, len(lines) + 1)) and 1 <= len(lines) <= 7
        assert all(line[0] == key and line[1:3] in offers for line in lines)
        states = {line[9] for line in lines}
        assert states == {status} if status != "P" else len(states) == 2


def test_a_new_order_has_a_key_of_its_own(population: Population) -> None:
    taken = {order[0] for order, _ in population.loaded_orders()}
    new = [population.new_order(n)[0][0] for n in range(100)]
    assert len(set(new)) == 100 and taken.isdisjoint(new)


def test_rewritten_queries_have_nothing_left_that_is_to_be_rewritten() -> None:
    for number in NUMBERS:
        asked = query(number, 1.0)
        assert not any(word in asked.rewritten for word in ("interval", "extract(", "substring(", ":fraction"))
    assert query(3, 1.0).limit == 10 and not query(3, 1.0).unlimited.endswith("10")


@pytest.mark.slow
def test_queries_are_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--scale", str(SCALE), "--queries", "2,4,21", "--transactions", "8"]
    main(["tpch", "--out", str(tmp_path), *words])
    found = json.loads((tmp_path / "tpch.json").read_text())["queries"]
    assert [(one["query"], one["check"]) for one in found] == [(2, "equal"), (4, "equal"), (21, "equal")]
    assert all(one["engine_cpu_ms"] > 0 and one["again_ms"] > 0 for one in found)
    said = capsys.readouterr().out
    assert "Q21" in said and "by the CPU of the whole pipeline:" in said
    assert "Q4: not as the standard writes it: an interval of fields is not supported yet" in said


def test_what_costs_more_than_asking_is_named_with_the_strategy_that_is_chosen() -> None:
    cheap = {"query": 1, "engine_cpu_ms": 1.0, "other_cpu_ms": 1.0, "again_cpu_ms": 9.0, "check": "equal"}
    dear = {**cheap, "query": 2, "again_cpu_ms": 1.5, "chosen": "requery"}
    worse = {**cheap, "query": 3, "again_cpu_ms": 0.5}
    assert [is_dear(one) for one in (cheap, dear, worse)] == [False, True, True]
    assert list(remarks([cheap, dear, worse])) == [
        "dearer to follow than to ask again, by the engine's CPU: Q3",
        "dearer to follow than to ask again, by the CPU of the whole pipeline: Q2, Q3",
        "  Q2, its strategy left open, ends as requery",
    ]


@pytest.mark.slow
def test_a_query_past_its_deadline_is_named(tmp_path: Path) -> None:
    main(["tpch", "--out", str(tmp_path), "--scale", str(SCALE), "--queries", "1", "--deadline", "0.1"])
    [found] = json.loads((tmp_path / "tpch.json").read_text())["queries"]
    assert found["check"] == "stopped after 0.1 s" and found["again_ms"] > 0
