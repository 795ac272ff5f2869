"""The order of joins is planned anew where rows turned out ten times as many as estimated: windows go on, nothing is
emitted twice, and a restart comes to the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from headwater import LiveResult
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader
from headwater.model.emission import Diff, Emission
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.data_dir.catalog import RelationPlan
from headwater.pipeline.moves.replanner import Replanner
from headwater.pipeline.pipeline import Pipeline
from headwater.pipeline.planning.options import PlanOptions
from headwater.pipeline.records.control import Activate, decode_control
from headwater.plan.join_order.order import JOIN, ClusterOrder, JoinOrder
from tests.support.databases import WAYS, Place, place
from tests.support.processes import eventually

CHAIN = "SELECT a.id, b.id AS b, c.id AS c FROM a JOIN b ON b.k = a.k JOIN c ON c.j = b.j WHERE c.n + 0 < 2"
DEMAND = "SELECT a.id, b.id AS b, c.id AS c FROM a JOIN b ON b.k = a.k JOIN c ON c.j = b.j WHERE c.n = ?"
SOON = replace(DEFAULT, replan_transactions_min=1, replan_rows_min=100, build_pairs_min=1 << 60)
TURNED = JoinOrder((ClusterOrder((2, 1, JOIN, 0, JOIN), (1, 1)),))
BESIDE = replace(SOON, build_bytes_min=1)  # operators are made in another process


@contextmanager
def opened(
    here: Path, limits: Limits = SOON, way: str = "embedded", url: str = "memory://", options: PlanOptions | None = None
) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.pipeline.cell.cost_meter._REPORTED_US", 0)
        with place(way, here, limits=limits, url=url, options=options) as made:
            made.server.pipeline.mover.stop()  # the test looks itself
            yield made


def filled(here: Place) -> None:
    """A row of `a` finds few rows of `b`, and a row of `b` finds ten of `c`."""
    here.write("CREATE TABLE a (id INTEGER PRIMARY KEY, k INTEGER)")
    here.write("CREATE TABLE b (id INTEGER PRIMARY KEY, k INTEGER, j INTEGER)")
    here.write("CREATE TABLE c (id INTEGER PRIMARY KEY, j INTEGER, n INTEGER)")
    here.write_together(
        "INSERT INTO a VALUES (1, 1), (2, 2)",
        f"INSERT INTO b VALUES {', '.join(f'({n}, {n % 50}, {n % 10})' for n in range(100))}",
        f"INSERT INTO c VALUES {', '.join(f'({n}, {n % 10}, {n})' for n in range(100))}",
    )


def grown(here: Place) -> int:
    """Every new row of `a` finds the same two rows of `b`: the join of these two is the large one now."""
    return here.write(f"INSERT INTO a VALUES {', '.join(f'({n}, {n % 50})' for n in range(10, 1200))}")


def replans(here: Place) -> list[Activate]:
    found: list[Activate] = []
    with closing(SegmentReader(here.server.pipeline.layout.log)) as reader:
        while records := reader.poll():
            activations = [decode_control(one) for one in records if one.kind is Kind.ACTIVATE]
            found += [one for one in activations if isinstance(one, Activate) and one.replanned]
    return found


def plan_of(here: Place) -> RelationPlan:
    [plan] = here.server.pipeline._catalog.plans.values()
    return plan


def looked(here: Place) -> None:
    """Once the cells have reported that an estimate was wrong."""
    mover = here.server.pipeline.mover
    eventually(lambda: any(one.is_wrong for one in mover.replanner._estimates.values()))
    mover.look()


def right(here: Place, live: LiveResult, sql: str, position: int) -> bool:
    """Its rows are the database's, now."""
    assert live.wait(position)
    return sorted(tuple(row.values()) for row in live.rows) == sorted(here.source_rows(sql))


@pytest.mark.parametrize("limits", [SOON, BESIDE], ids=["in the cell", "beside it"])
@pytest.mark.parametrize("way", WAYS)
def test_a_table_that_grows_after_the_plan_was_made_has_the_joins_planned_anew(
    way: str, limits: Limits, tmp_path: Path
) -> None:
    with opened(tmp_path, limits, way) as here:
        filled(here)
        live, told = here.db.query(CHAIN, live=True), list[Emission | None]()
        live.listen(told.append)
        before = plan_of(here)
        assert right(here, live, CHAIN, grown(here)) and not replans(here)
        looked(here)
        [record] = replans(here)
        assert record.order == plan_of(here).order != before.order and bool(record.built) == (limits is BESIDE)
        for n in range(5):
            assert right(here, live, CHAIN, here.write(f"INSERT INTO a VALUES ({5000 + n}, {n})"))
            assert right(here, live, CHAIN, here.write(f"UPDATE c SET n = {n} WHERE id = {n + 3}"))
            assert right(here, live, CHAIN, here.write(f"DELETE FROM b WHERE id = {n}"))
        assert all(isinstance(one, Diff) for one in told) and live.resyncs == 0
        assert live.strategy == "incremental" and live.state == "ready"


def test_explain_says_so_and_shows_the_order_that_runs(tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        filled(here)
        live = here.db.query(CHAIN, live=True)
        assert "was changed" not in here.db.explain(CHAIN)
        assert live.wait(grown(here))
        looked(here)
        told = here.db.explain(CHAIN)
        assert "the order of joins was changed once while the query was live: a join was expected to have" in told
        rows = plan_of(here).order.clusters[0].rows
        assert all(f"~{each:,} rows" in told for each in rows)
        assert f"~{rows[0]:,} rows  [" in here.db.explain(CHAIN, analyze=True)


@pytest.mark.parametrize("cells", ["1x1", "2x1"])
def test_who_asks_for_some_rows_goes_on_with_these_and_others_come(cells: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.pipeline.cell.cost_meter._REPORTED_US", 0)
        with place("embedded", tmp_path, limits=SOON, cells=cells) as here:
            filled(here)
            lives = {n: here.db.query(DEMAND, n, live=True) for n in (1, 2, 77)}
            end = grown(here)
            assert all(live.wait(end) for live in lives.values())
            replanner = here.server.pipeline.mover.replanner
            [relation] = here.server.pipeline._catalog.plans
            assert replanner.look(relation, "by a test", TURNED)
            lives[5] = here.db.query(DEMAND, 5, live=True)
            lives.pop(2).abort(forget=True)
            end = here.write("UPDATE b SET j = 7 WHERE id < 10")
            for n, live in lives.items():
                assert right(here, live, DEMAND.replace("?", str(n)), end), n
                assert live.resyncs == 0


def test_estimates_that_are_wrong_are_no_reason_where_the_order_is_the_best_still(tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        filled(here)
        live = here.db.query(CHAIN, live=True)
        before = plan_of(here)
        values = ", ".join(f"({n}, {n % 10}, {n % 3})" for n in range(200, 4000))
        assert live.wait(here.write(f"INSERT INTO c VALUES {values}"))
        files = set(here.server.pipeline.layout.hydration.iterdir())
        looked(here)
        assert not replans(here) and plan_of(here) == before
        assert set(here.server.pipeline.layout.hydration.iterdir()) <= files, "what was read for it is left"


@pytest.mark.parametrize("order", ["written", 3])
def test_a_forced_order_is_never_left(order: str | int, tmp_path: Path) -> None:
    with opened(tmp_path, options=PlanOptions(join_order=order)) as here:
        filled(here)
        live = here.db.query(CHAIN, live=True)
        assert live.wait(grown(here)) and live.wait(grown_more(here))
        here.server.pipeline.mover.look()
        assert not replans(here) and not here.server.pipeline.mover.replanner._estimates


def grown_more(here: Place) -> int:
    return here.write("INSERT INTO a VALUES (9000, 1)")


def test_each_look_doubles_the_transactions_before_the_next(tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        filled(here)
        here.db.query(CHAIN, live=True)
        [relation] = here.server.pipeline._catalog.plans
        replanner: Replanner = here.server.pipeline.mover.replanner
        replanner._estimates.clear()
        limits = replace(SOON, replan_transactions_min=10)
        for transactions, due in ((9, False), (1, True), (10, False), (9, False), (1, True), (39, False), (1, True)):
            replanner.reported(relation, transactions, 10, 1000)
            assert bool(replanner.due(limits)) is due
        replanner.reported(relation, 1000)
        assert not replanner.due(limits), "the estimates are right"


@pytest.mark.parametrize("limits", [SOON, BESIDE], ids=["in the cell", "beside it"])
def test_a_restart_goes_on_in_the_order_that_was_chosen(limits: Limits, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    with opened(tmp_path / "data", limits, url=url) as here:
        filled(here)
        live = here.db.query(CHAIN, live=True)
        assert live.wait(grown(here))
        looked(here)
        assert live.wait(here.write("INSERT INTO a VALUES (9000, 1)"))
        after = plan_of(here)
        assert after.replans == 1
    with opened(tmp_path / "data", limits, url=url) as here:
        live = here.db.query(CHAIN, live=True)
        assert plan_of(here) == after and "was changed once" in here.db.explain(CHAIN)
        assert right(here, live, CHAIN, here.write("UPDATE c SET n = 1 WHERE id > 50"))


def test_what_the_cells_report_reaches_the_one_who_decides(tmp_path: Path) -> None:
    """A running server looks by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.pipeline.cell.cost_meter._REPORTED_US", 0)
        with place("embedded", tmp_path, limits=SOON) as here:
            filled(here)
            live = here.db.query(CHAIN, live=True)
            assert live.wait(grown(here))
            eventually(lambda: plan_of(here).replans)
            assert right(here, live, CHAIN, grown_more(here))


def test_a_relation_that_ended_meanwhile_is_not_planned(tmp_path: Path) -> None:
    with opened(tmp_path) as here:
        filled(here)
        here.db.query(CHAIN, live=True)
        pipeline: Pipeline = here.server.pipeline
        [relation] = pipeline._catalog.plans
        pipeline._catalog.plans.clear()
        assert not pipeline.mover.replanner.look(relation, "by a test") and not replans(here)
