"""Windows that are moved to another strategy and back at random moments: right at every position that they name, while
others write, on both databases, and after kills."""

from __future__ import annotations

import itertools
import random
import time
from contextlib import closing
from pathlib import Path

import pytest

import headwater
from tests.fuzz.postgres.oracle import journal, watch
from tests.fuzz.postgres.writers import run
from tests.pipeline.requery.test_selective import SCHEMA, checked_answers, committed, write_journalled
from tests.pipeline.test_faults import kill_server
from tests.pipeline.test_kill_all_strategies import (
    DATABASES,
    GROUPS,
    KILLS,
    Load,
    Watched,
    check_all,
    fill,
    until_all_move,
)
from tests.support.answered import Answers, Query, check_answers, settled
from tests.support.moving import Restless, pipeline_of
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import Served

QUERIES = (
    Query("SELECT o.id, o.status, p.email FROM orders o JOIN people p ON p.id = o.customer"),
    Query("SELECT o.id, o.total FROM orders o JOIN people p ON p.id = o.customer WHERE o.customer = ?", (3,)),
    Query("SELECT o.id, o.total FROM orders o JOIN people p ON p.id = o.customer WHERE o.customer = ?", (5,)),
    Query(
        "SELECT customer, count(*) AS n, min(total) AS least FROM orders GROUP BY customer ORDER BY n DESC, customer"
    ),
    Query("SELECT id, status FROM orders WHERE customer IN (1, 2, 4) ORDER BY id LIMIT 4"),
    Query(
        "SELECT o.id, q.id AS q, p.email FROM orders o JOIN people p ON p.id = o.customer "
        "JOIN orders q ON q.customer = p.id WHERE o.status = q.status"
    ),
    Query("SELECT id, email FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = p.id)"),
)
POSTGRES = (
    "SELECT p.id, c.id AS child, c.note, c.f FROM parents p JOIN children c ON c.parent = p.id",
    "SELECT p.id, p.name, c.n FROM parents p LEFT JOIN children c ON c.parent = p.id AND c.n > 1 WHERE p.level = 3",
    "SELECT level, count(*) AS n, max(name) AS name FROM parents GROUP BY level",
    "SELECT c.id, c.note FROM children c WHERE c.parent IN (SELECT p.id FROM parents p WHERE p.ok)",
    "SELECT id, name, ok FROM parents WHERE level = 5",
    "SELECT p.id, c.id AS child, d.id AS other FROM parents p JOIN children c ON c.parent = p.id "
    "JOIN children d ON d.n = c.n",
)


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["1x1", "2x1"])
def test_at_every_named_position_the_rows_are_the_oracles(cells: str, tmp_path: Path) -> None:
    def restless(db: headwater.Database) -> Restless:
        mover.append(Restless(pipeline_of(db)))
        return mover[0]

    mover: list[Restless] = []
    checked = check_answers(tmp_path, "incremental", QUERIES, cells, restless, lambda: _is_enough(mover[0]))
    assert checked > 40, "too few to prove much"


def _is_enough(mover: Restless) -> bool:
    return min(*mover.moves.values(), mover.replans) > 5


@pytest.mark.slow
def test_on_postgresql_too_while_four_connections_write(servers: Servers, tmp_path: Path) -> None:
    server = servers[VERSIONS[-1]]
    with server.database() as database, server.database() as scratch:
        with server.connect(database) as db:
            run(db, SCHEMA)
            watch(db)
        commits: dict[int, int] = {}
        with headwater.connect(server.url(database), runner="inline", data_dir=tmp_path) as live:
            marker = live.query("SELECT id, xid FROM journal", live=True)
            marker.listen(lambda emission: commits.update(committed(emission)))
            answers = [Answers(live.query(sql, live=True)) for sql in POSTGRES]
            assert {one.live.strategy for one in answers} == {"incremental"}
            with Restless(pipeline_of(live)) as mover:
                for round in itertools.count():
                    write_journalled(server.url(database), round)
                    end = live.position()
                    assert marker.wait(end)
                    if settled(end, answers) > 50 and round >= 3 and _is_enough(mover):
                        break
            assert all(one.live.state == "ready" for one in answers)
        with server.connect(database) as db, server.connect(scratch) as oracle:
            run(oracle, SCHEMA)
            checked = checked_answers(oracle, journal(db), commits, answers, end)
    assert checked > 40, "too few answers to prove much"


class MovingServed(Served):
    """A server that moves its queries by chance."""

    def start(self) -> None:
        self._command[1:3] = ["-m", "tests.support.moving"]
        super().start()


KILLED = {
    GROUPS: "incremental",
    "SELECT a.id, a.bal, n.name FROM acct a JOIN branch n ON n.id = a.b": "incremental",
    "SELECT id, bal FROM acct ORDER BY bal DESC, id LIMIT 20": "incremental",
    "SELECT a.id, b.name, c.id AS o FROM acct a JOIN branch b ON b.id = a.b JOIN acct c ON c.bal=a.bal": "incremental",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", DATABASES)
def test_after_kills_in_the_middle_of_moves_nothing_is_lost(kind: str, tmp_path: Path, servers: Servers) -> None:
    moments = random.Random(8)
    with DATABASES[kind](tmp_path, servers) as (url, connect, _):
        with closing(connect()) as db:
            fill(db)
        server = MovingServed(url, tmp_path / "data", runner="inline")
        try:
            with headwater.connect(server.url) as ours:
                watched = {}
                for sql in KILLED:
                    live = ours.query(sql, live=True)
                    watched[sql] = Watched(live, live.strategy)
                load = Load(connect)
                try:
                    for _ in range(2 * KILLS):
                        until_all_move(watched)
                        time.sleep(moments.uniform(0.0, 0.5))
                        kill_server(server)
                    until_all_move(watched)
                finally:
                    load.stop()
                check_all(watched, ours.position(), connect)
        finally:
            server.kill()


@pytest.mark.parametrize("cells", ["1x1", "2x1"])
def test_who_comes_and_goes_while_templates_move_has_the_rows_of_the_query(cells: str, tmp_path: Path) -> None:
    """Subscriptions and moves are logged by different threads: each has the strategy of its place in the log."""
    sql = "SELECT a.id, b.name FROM a JOIN b ON b.id = a.b WHERE a.g = ? ORDER BY a.id"
    with headwater.connect("memory://comings", runner="inline", data_dir=tmp_path, cells=cells) as db:
        db.execute("CREATE TABLE b (id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, b INTEGER, g INTEGER)")
        db.execute("INSERT INTO b VALUES (0, 'x'), (1, 'y')")
        lives: list[headwater.LiveResult] = []
        with Restless(pipeline_of(db), pause_s=0.02) as mover:
            for turn in range(80):
                lives.append(db.query(sql, turn % 3, live=True))
                position = db.execute(f"INSERT INTO a VALUES ({turn}, {turn % 2}, {turn % 3})")
                for group, live in enumerate(lives):
                    assert live.wait(position), (live.strategy, live.state, live.position, position)
                    assert [row["id"] for row in live.rows] == list(
                        range((turn - len(lives) + 1 + group) % 3, turn + 1, 3)
                    )
                if len(lives) > 4:
                    lives.pop(0).abort(forget=turn % 2 == 0)
        assert min(mover.moves.values()) > 3, mover.moves
