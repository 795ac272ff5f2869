"""`aconnect`: the same names, awaitable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import headwater
from headwater.client.aio import AsyncDatabase
from tests.support.looping import run

Story = Callable[[AsyncDatabase], Awaitable[None]]


def told(tmp_path: Path, story: Story) -> None:
    async def main() -> None:
        async with await headwater.aconnect("memory://", runner="inline", data_dir=tmp_path) as db:
            await db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
            await db.executemany("INSERT INTO t VALUES (?, ?)", [(1, 10), (2, 20)])
            await story(db)

    run(main())


def test_queries_and_writes(tmp_path: Path) -> None:
    async def story(db: AsyncDatabase) -> None:
        assert await db.query("SELECT n FROM t WHERE id = ?", 2) == [{"n": 20}]
        live = await db.query("SELECT id FROM t ORDER BY id", live=True)
        assert (live.state, live.columns, [row["id"] for row in live.rows]) == ("ready", ("id",), [1, 2])
        assert await live.wait(await db.execute("INSERT INTO t VALUES (3, 30)"))
        assert [row["id"] for row in live.rows] == [1, 2, 3] and len(live.hashes) == 3
        assert live.position == await db.position() and live.seq > 0
        await db.verify(live)
        assert "t" in await live.explain() and "t" in await db.explain("SELECT id FROM t")
        assert (await db.status())["runner"] == "inline"
        await live.abort()
        assert live.state == "closed"

    told(tmp_path, story)


def test_a_transaction_is_one_emission(tmp_path: Path) -> None:
    async def story(db: AsyncDatabase) -> None:
        live = await db.query("SELECT id FROM t", live=True)
        events = live.events()
        async with db.transaction() as tx:
            await tx.execute("DELETE FROM t WHERE id = 1")
            await tx.execute("INSERT INTO t VALUES (?, ?)", (3, 30))
        with pytest.raises(headwater.HeadwaterError):
            async with db.transaction() as failed:
                await failed.execute("DELETE FROM t")
                await failed.execute("DELETE FROM nowhere")
        assert await live.wait(tx.position)
        event = await anext(events)
        assert sorted(change.type for change in event.changes) == ["delete", "insert"]
        await live.abort()
        assert [one async for one in events] == []

    told(tmp_path, story)


def test_events_begin_where_they_were_asked_for(tmp_path: Path) -> None:
    async def story(db: AsyncDatabase) -> None:
        live = await db.query("SELECT id FROM t", live=True)
        events = live.events()
        for n in range(3, 6):
            await db.execute("INSERT INTO t (id) VALUES (?)", n)
        inserted = [(await anext(events)).changes[0].new["id"] for _ in range(3)]
        assert inserted == [3, 4, 5]

    told(tmp_path, story)


def test_many_wait_at_once(tmp_path: Path) -> None:
    async def story(db: AsyncDatabase) -> None:
        lives = await asyncio.gather(*(db.query("SELECT id FROM t WHERE n = ?", n, live=True) for n in range(5)))
        operations: list[object] = []
        lives[3].observe(operations.extend)
        position = await db.execute("UPDATE t SET n = 3")
        assert all(await asyncio.gather(*(live.wait(position) for live in lives)))
        assert [len(live.rows) for live in lives] == [0, 0, 0, 2, 0] and len(operations) == 2

    told(tmp_path, story)
