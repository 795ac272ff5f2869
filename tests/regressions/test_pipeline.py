"""The smallest lives in which the pipeline once went wrong, stepped by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.model.errors import LogError, UnsupportedQuery
from headwater.model.limits import DEFAULT
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.pipeline.planning.plan_cache import PlanCache
from headwater.pipeline.records.control import Control, Expel, Schema, SubscribeRecord, encode_control
from headwater.plan.planner import plan
from headwater.sources.source import NotCaptured
from tests.support.byhand import Works

Make = Callable[..., Works]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Works] = []

    def works(**options: Any) -> Works:
        made.append(Works(tmp_path / str(len(made)), **options))
        made[-1].write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        return made[-1]

    yield works
    for one in made:
        one.close()


def test_rows_read_ahead_of_the_log_are_not_counted_twice(make: Make) -> None:
    """The table was captured for another template; a commit was read with its rows, and logged only after that."""
    works = make()
    works.subscribe("SELECT id FROM t WHERE n = 1")
    works.write("INSERT INTO t VALUES (1, 1)")
    works.subscribe("SELECT id FROM t")
    works.write("DELETE FROM t")
    works.run()
    works.check()


def test_what_was_committed_before_the_first_frame_was_logged_survives_a_crash(make: Make) -> None:
    works = make()
    works.subscribe("SELECT id FROM t")
    works.run()
    works.write("INSERT INTO t VALUES (1, 1)")
    works.crash()
    works.resume()
    works.run()
    works.check()


def test_two_templates_without_keys_may_live_in_different_cells(make: Make) -> None:
    """The second one needs the rows too: the first one's cell has them, its own has not."""
    works = make(cells=3)
    works.write("INSERT INTO t VALUES (1, 1), (2, 2)")
    for n in range(6):
        works.subscribe(f"SELECT id, n + {n} AS m FROM t")
    assert len({works.pipeline.cell_of(one.planned) for one in works.watched.values()}) == 3
    works.run()
    works.check()


def test_emissions_before_a_transaction_in_parts_are_not_lost(make: Make) -> None:
    """A step that ends between two parts."""
    works = make(limits=replace(DEFAULT, frame_bytes_max=300, step_records_max=3))
    works.subscribe("SELECT id, n FROM t")
    works.run()
    works.write("INSERT INTO t VALUES (1, 1)")
    works.capture()
    works.write(*(f"INSERT INTO t VALUES ({n}, {n})" for n in range(100, 150)))
    works.run()
    works.check()
    assert len(next(iter(works.watched.values())).told) == 3


def test_parts_that_a_crash_cut_off_never_count(make: Make) -> None:
    works = make(limits=replace(DEFAULT, frame_bytes_max=300))
    works.subscribe("SELECT id, n FROM t")
    works.run()
    works.write(*(f"INSERT INTO t VALUES ({n}, {n})" for n in range(50)))
    append_many = works.pipeline._log.append_many
    works.pipeline._log.append_many = lambda items: append_many(list(items)[:2])  # type: ignore[method-assign]
    works.capture()
    for cell in works.cells:
        cell.turn(0)
        cell.save()
    works.crash()
    works.resume()
    while works.cells[0].turn(0):
        pass
    works.look()
    assert [one.live.state for one in works.watched.values()] == ["ready"], "it was told where it stands"
    works.run()
    works.check()


def test_a_subscription_logged_after_its_table_went_is_closed(make: Make) -> None:
    """The record stands in the log whatever we do; a cell that raised about it would raise about it for ever."""
    works = make(cells=2)
    id = works.subscribe("SELECT id FROM t")
    works.run()
    instance = works.watched[id].planned.instance
    log = works.pipeline._log
    log.append(*encode_control(Schema("t", None, "the table t was dropped")))
    log.append(*encode_control(SubscribeRecord(instance.template, instance.id, (), None, 0, works.pipeline.boot)))
    works.run()
    assert works.watched[id].live.state == "closed"
    assert "dropped" in (works.watched[id].live.reason or "")
    later = works.pipeline.capture
    works.source.execute("CREATE TABLE u (id INTEGER PRIMARY KEY)")
    del works.watched[id]
    works.subscribe("SELECT id FROM u")
    works.write("INSERT INTO u VALUES (1)")
    works.run()
    works.check()
    assert later.failure is None


def test_the_log_an_activation_reads_is_kept_until_every_manifest_is_past_it(make: Make) -> None:
    """Rows were read at one position and logged later; in between the log went on, and cells wrote manifests."""
    works = make(limits=replace(DEFAULT, segment_bytes_max=200))
    works.subscribe("SELECT id FROM t WHERE n = 1")
    works.run()
    snapshot = works.source.snapshot

    def slow(table: str) -> Any:
        read = snapshot(table)
        for n in range(30):
            works.write(f"INSERT INTO t VALUES ({n}, {n})")
            works.run()
            works.cells[0].save()
            works.pipeline._retention.sweep()
        return read

    works.source.snapshot = slow  # type: ignore[method-assign]
    works.subscribe("SELECT id, n FROM t")
    works.source.snapshot = snapshot  # type: ignore[method-assign]
    for _ in range(3):
        works.pipeline._retention.sweep()
    works.crash_cell(0)
    works.run()
    works.check()
    for n in range(3):
        works.write(f"DELETE FROM t WHERE id = {n}")
        works.run()
        works.cells[0].save()
        works.pipeline._retention.sweep()
    assert list(works.pipeline.layout.hydration.iterdir()) == []
    works.crash()
    works.resume()
    works.run()
    works.check()


def test_a_manifest_still_being_written_beside_its_place_never_counts(make: Make) -> None:
    """It would say that the log before it may go, while the cell goes back to the one before."""
    works = make(limits=replace(DEFAULT, segment_bytes_max=200))
    works.subscribe("SELECT id FROM t")
    works.write("INSERT INTO t VALUES (1, 1)")
    works.run()
    works.cells[0].save()
    works.write("INSERT INTO t VALUES (2, 2)")
    works.run()
    directory = works.pipeline.layout.cell(0)
    works.cells[0].save()
    newest = max(directory.glob("manifest-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    for n in range(3, 20):
        works.write(f"INSERT INTO t VALUES ({n}, {n})")
        works.run()
    works.cells[0].save()
    ahead = max(directory.glob("manifest-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    ahead.rename(ahead.with_name(ahead.name + ".new"))
    assert newest.exists()
    works.crash()
    works.resume()
    works.pipeline._retention.sweep()
    works.crash()
    works.resume()
    works.run()
    works.check()


def test_a_window_that_ended_in_its_cell_is_not_taken_for_a_living_one(make: Make) -> None:
    """Its result was still on the way when nobody wanted it any more; then somebody did again."""
    works = make()
    works.unsubscribe(works.subscribe("SELECT id FROM t"), forget=True)
    works.look()
    works.run()
    works.subscribe("SELECT id FROM t")
    works.write("INSERT INTO t VALUES (1, 1)")
    works.run()
    works.check()


def test_a_window_of_an_earlier_life_is_asked_for_anew_before_its_lease_runs_out(make: Make) -> None:
    works = make()
    id = works.subscribe("SELECT id FROM t")
    del works.watched[id]
    works.crash()
    works.resume()
    works.run()
    works.subscribe("SELECT id FROM t")
    works.run()
    works.pipeline._templates.expire()
    works.write("INSERT INTO t VALUES (1, 1)")
    works.run()
    works.check()


def test_a_window_that_could_not_be_asked_for_can_be_asked_for_again(make: Make) -> None:
    works = make()
    append_many = works.pipeline._log.append_many

    def full(items: Any) -> Any:
        raise LogError("the disk is full")

    works.pipeline._log.append_many = full  # type: ignore[method-assign]
    with pytest.raises(LogError, match="full"):
        works.subscribe("SELECT id FROM t")
    works.watched.clear()
    works.pipeline._log.append_many = append_many  # type: ignore[method-assign]
    works.subscribe("SELECT id FROM t")
    works.run()
    works.check()
    assert works.hub.subscriptions == 1


def test_a_window_nobody_asked_for_in_time_is_ended_in_its_cell(make: Make) -> None:
    """Its end was logged before its beginning: two threads, in the other order."""
    works = make()
    planned = works.pipeline.plan("SELECT id FROM t")
    works.pipeline.unsubscribe(planned.instance.id)
    works.pipeline.subscribe(planned)
    works.run()
    assert works.cells[0]._dataflow._state.windows
    for instance in list(works.hub._windows.idle):
        works.hub._windows.idle.set(instance, 0.0)
    works.run()
    works.run()
    assert not works.cells[0]._dataflow._state.windows and not works.hub._windows.idle


def test_a_plan_that_is_known_takes_no_number_that_planning_refuses() -> None:
    """PostgreSQL refuses it as out of range; the plan was filled with it, and the query had no rows."""
    table = Table("t", (Column("id", Type.INTEGER, "integer", "C"),), ("id",), dialect="postgres")
    plans = PlanCache(lambda sql, params: plan(sql, [table], params))
    plans.plan("SELECT id FROM t WHERE id = $1", [1])
    with pytest.raises(UnsupportedQuery, match="3000000000"):
        plans.plan("SELECT id FROM t WHERE id = $1", [3_000_000_000])


def test_what_is_over_is_forgotten_before_anybody_can_read_of_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who heard of it from a cell, and asked again at once, was taken for one who knows a template that is still there:
    the query ended, or was never asked again."""
    works = make()
    works.subscribe("SELECT id, n FROM t")
    works.subscribe("SELECT id, row_number() OVER (ORDER BY id) AS place FROM t")
    works.run()
    pipeline, known = works.pipeline, []
    append_many = pipeline._controls.append_many

    def noting(controls: Iterable[Control]) -> None:
        given = list(controls)
        known.append((len(given), dict(pipeline._catalog.templates), pipeline._requery.windows.reading("t")))
        append_many(given)

    monkeypatch.setattr(pipeline._controls, "append_many", noting)
    works.write("DROP TABLE t")
    works.run()
    assert known == [(2, {}, [])]  # that of the table, and that of the window which the source answers


def test_what_a_cell_cannot_get_past_is_forgotten_before_anybody_can_read_of_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = make()
    planned = works.watched[works.subscribe("SELECT id, n FROM t")].planned
    works.run()
    pipeline, known = works.pipeline, []
    append = pipeline._controls.append

    def noting(control: Control) -> int:
        known.append(dict(pipeline._catalog.templates))
        return append(control)

    monkeypatch.setattr(pipeline._controls, "append", noting)
    pipeline._expel(Expel(0, pipeline.log_offset - 1, planned.template.id, "a mistake of ours"))
    assert known == [{}]


def test_a_table_that_ends_while_the_log_cannot_be_written_ends_later(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was forgotten, and nobody was ever told."""
    works = make()
    works.subscribe("SELECT id, n FROM t")
    works.subscribe("SELECT id, row_number() OVER (ORDER BY id) AS place FROM t")
    works.run()
    works.write("DROP TABLE t")

    def full(_: Iterable[Control]) -> None:
        raise LogError("no space left")

    with monkeypatch.context() as patched, pytest.raises(LogError):
        patched.setattr(works.pipeline._controls, "append_many", full)
        works.capture()
    works.run()
    assert {one.live.state for one in works.watched.values()} == {"closed"}


def test_a_new_data_directory_of_an_old_database_says_where_it_stands(make: Make, tmp_path: Path) -> None:
    """Its position stayed 0 until the next commit, and `wait` for the last one ran into its timeout."""
    works = make()
    works.subscribe("SELECT id FROM t")
    works.write("INSERT INTO t VALUES (1, 1)")
    works.run()
    works.crash()
    works.data_dir = tmp_path / "fresh"
    works.resume()
    works.run()
    works.check()


@pytest.mark.parametrize(
    "asked", ["SELECT id, rank() OVER (ORDER BY n) AS r FROM t", "SELECT id, json_quote(n) AS q FROM t"]
)
def test_an_answer_logged_behind_a_later_transaction_does_not_have_it_logged_twice(make: Make, asked: str) -> None:
    """The answer was asked for before the transaction and logged after it; the next life went on from the answer's
    position, and the sum was wrong for good."""
    works = make()
    works.write("INSERT INTO t VALUES (1, 1), (2, 2)")
    works.subscribe("SELECT sum(n) AS s FROM t")
    works.subscribe(asked)
    works.run()

    def overtaken(position: int) -> None:
        works._reached(position)
        works.write("UPDATE t SET n = n + 10 WHERE id = 1")
        works.capture()

    works.write("UPDATE t SET n = n + 100 WHERE id = 2")
    works.pipeline._requery._refresh._logged = overtaken
    works.capture()
    works.ask()
    reached = works.pipeline.capture.position
    works.crash()
    works.resume()
    assert works.pipeline.capture.position == reached
    works.run()
    works.check()


def test_a_table_whose_changes_were_lost_is_captured_again_for_who_comes_before_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source knows first. A query that came in between was refused: table 't' is not captured."""
    works = Works(tmp_path)
    works.write("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    snapshot, refused = works.source.snapshot, list[str]()

    def late(table: str, *given: Any) -> Any:
        if not refused:
            refused.append(table)
            raise NotCaptured(f"table {table!r} is not captured")
        return snapshot(table, *given)

    monkeypatch.setattr(works.source, "snapshot", late)
    planned = works.pipeline.plan("SELECT id FROM t")
    assert works.pipeline.prepare(planned).template == planned.template
    assert refused == ["t"]
    works.subscribe("SELECT id FROM t")
    works.run()
    works.check()
    works.close()
