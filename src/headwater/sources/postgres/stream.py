"""The stream of changes: connected when needed, read by whoever waits for it, resumed where it was cut.

One thread reads for all; the others are woken when it has. Items wait here until they are asked for. It never
acknowledges what it was not told is durable.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from headwater.model.change import Transaction
from headwater.model.errors import SourceError
from headwater.sources.postgres.catalog.event_trigger import PREFIX
from headwater.sources.postgres.decode.columnar import NeedsRowWise
from headwater.sources.postgres.decode.row_wise import Reread, RowWiseDecoder
from headwater.sources.postgres.decode.table_shapes import Look
from headwater.sources.postgres.item_queue import ItemQueue
from headwater.sources.postgres.row_cache.row_cache import LOOK_AHEAD_MIN, RowCache
from headwater.sources.postgres.row_cache.unsettled_fetches import UnsettledFetches
from headwater.sources.postgres.server.connections import Connection, Sessions
from headwater.sources.postgres.wire.messages import LogicalMessage
from headwater.sources.postgres.wire.replication import Received, Replication
from headwater.sources.postgres.wire.simple_transactions import SimpleTransactions
from headwater.sources.postgres.wire.snapshot_position import PgSnapshot, RecentTransactions
from headwater.sources.postgres.wire.transaction_assembly import SIMPLE_MIN, Assembly, CommittedTransaction
from headwater.sources.source import Item, SchemaChange

_NUDGE_S = 0.02


@dataclass(frozen=True, slots=True)
class Slot:
    """`since` is where it began: nothing was captured before."""

    name: str
    since: int


class Stream:
    """Every method may be called from any thread."""

    def __init__(
        self,
        sessions: Sessions,
        slot: Slot,
        row_cache: RowCache,
        look: Look,
        reread: Reread,
        link: Connection | None = None,
    ) -> None:
        """`link` is the connection that a temporary slot belongs to: without it there is no slot."""
        self._sessions, self._slot, self._row_cache, self._link = sessions, slot, row_cache, link
        self.moved = threading.Condition(threading.RLock())
        self._reading = self._closed = False
        self._stopping = 0  # who waits until nobody reads
        self._replication: Replication | None = None
        self._assembly = Assembly()
        self._recent = RecentTransactions()
        self.position = self._start = max(slot.since, row_cache.position)
        self._durable = self._committed = self._start
        self._queue = ItemQueue()
        self._reread = reread
        self.decoder = RowWiseDecoder(row_cache, look, self.position, reread)
        self.fetches = UnsettledFetches(row_cache)

    # For the one who takes changes

    def take(self, after: int, rows_max: int) -> list[Item]:
        """What waits here, behind a position."""
        with self.moved:
            taken = self._queue.take(after, rows_max)
            self.moved.notify_all()
            return taken

    def progress(self, is_due: Callable[[int], bool]) -> list[Item]:
        """How far all was taken that may be, where that is to be told. In one piece: what others read or hold back
        meanwhile is not passed over."""
        with self.moved:
            reached = self.reportable
            if self.has_items() or not is_due(reached):
                return []
            self._queue.handed = max(self._queue.handed, reached)
            return [Transaction(reached, ())]

    def stand_at(self, after: int) -> None:
        """What comes next is for somebody who has everything up to here."""
        with self.moved:
            self._queue.handed = after

    def has_items(self) -> bool:
        """That may be taken."""
        return self._queue.has_items

    @property
    def has_shapes(self) -> bool:
        """Something waits here that is no transaction."""
        return self._queue.has_shapes

    @property
    def is_held(self) -> bool:
        return self._queue.is_held

    @property
    def is_crowded(self) -> bool:
        """Too much is held back."""
        return self._queue.is_held and self._queue.is_full

    @property
    def reportable(self) -> int:
        """The position that may be reported as reached, once all items before it are taken."""
        return min(self.position, self._queue.held_from - 1)

    def hold(self, position: int) -> bool:
        """The catalog may have changed before this position: nothing from there on is handed out until somebody has
        looked, and given what they found. False where it was handed out before."""
        with self.moved:
            if not self._queue.hold(position):
                return False
            self.decoder.heard_ddl = True
            self.wake()
            return True

    def release(self, seen: PgSnapshot | None) -> None:
        """Somebody has looked, with this snapshot; or there is nothing to look at."""
        with self.moved:
            if seen is None:
                self._queue.release(None)
            elif self._queue.is_held:
                self._queue.release(min(seen.upto, self.position, self._recent.seen_through(seen)))

    def passed(self, position: int) -> None:
        """Whoever takes changes knows that nothing was missing up to here."""
        with self.moved:
            self.decoder.shapes.reported = max(self.decoder.shapes.reported, position)

    def give(self, items: Sequence[Item]) -> None:
        """More of them, from elsewhere, that come after all that were read so far; or before what is held."""
        with self.moved:
            if items:
                self._queue.insert(items, self.position)
                self.moved.notify_all()

    def give_first(self, items: Sequence[SchemaChange]) -> None:
        """The ends of tables of which nothing that waits here may be told any more."""
        with self.moved:
            self._queue.insert_first(items)
            self.moved.notify_all()

    def end(self, reason: str, after: int) -> list[Item]:
        """Nothing more comes: what waits here, and then the end of every captured table."""
        with self.moved:
            self._queue.release(None)
            last = max(self.position, self.decoder.shapes.reported, after) + 1
            captures = list(self._row_cache.captures.values())
            ends = [replace(self.decoder.shapes.ended(capture, reason, last), lost=True) for capture in captures]
            self._queue.add(last, ends)
            return self.take(after, sys.maxsize)

    def rewind(self) -> None:
        """Begins again where everything is known to be durable. Not while somebody reads: what comes by the connection
        of before would be taken for what follows."""
        with self.moved:
            self._stop_reading()
            self._disconnect()
            self._row_cache.rewind()
            self.fetches.rewound()
            self.position = self._start = max(self._slot.since, self._row_cache.position)
            self._committed = self._start
            self._queue.clear()
            self.decoder = RowWiseDecoder(self._row_cache, self.decoder.shapes.look, self.position, self._reread)

    def settle(self, position: int) -> None:
        """The server may forget what we have settled: what is durable in the log alone, we shall ask for again. After a
        restart that is ahead of us: what was not read again yet cannot settle."""
        with self.moved:
            self._row_cache.settle(min(position, self.position))
            self._durable = max(self._durable, self._row_cache.position)
            if self._replication is not None:
                self._replication.acknowledge(self._durable)
        self._row_cache.tidy()

    # For whoever waits

    def follow(self, done: Callable[[], bool], timeout_s: float, *, takes: bool = False) -> bool:
        """Reads, or lets read, until `done`; False at the timeout, or at the end. `takes`: by who takes changes."""
        until_s = time.monotonic() + timeout_s
        with self.moved:
            while not done():
                left_s = until_s - time.monotonic()
                if left_s <= 0 or self._closed:
                    return False
                if self._reading or self._stopping or (self._queue.is_full and not takes):
                    self.moved.wait(left_s)
                else:
                    self._read(left_s)
            return True

    def place(self, seen: PgSnapshot, floor: int, nudge: Callable[[], None], timeout_s: float) -> int | None:
        """The position of a snapshot; None where another one must be taken."""
        if not self.follow(lambda: self.position >= seen.upto, _NUDGE_S):
            nudge()
            if not self.follow(lambda: self.position >= seen.upto, timeout_s):
                raise SourceError(
                    f"PostgreSQL did not send its changes up to {seen.upto} within {timeout_s:g} s: "
                    f"they were read up to {self.position}",
                    hint="check that the pipeline is running: it reads the changes",
                )
        with self.moved:
            return self._recent.place(seen, floor)

    def let_go(self) -> None:
        """A server that shuts down waits for us until it has our word for all that it sent: it need not."""
        with self.moved:
            self._stop_reading()
            self._disconnect()

    def wake(self) -> None:
        with self.moved:
            if self._replication is not None:
                self._replication.wake()
            self.moved.notify_all()

    def close(self) -> None:
        with self.moved:
            self._closed = True
            self.wake()
            self.moved.wait_for(lambda: not self._reading)
            self._disconnect()
            if self._link is not None:
                self._link.close()

    # Reading

    def _read(self, timeout_s: float) -> None:
        """Called with the lock, which others may have meanwhile."""
        self._reading = True
        self.moved.release()
        try:
            received = self._connected().read(timeout_s)
        except BaseException:
            self.moved.acquire()
            self._disconnect()
            raise
        else:
            self.moved.acquire()
            self._received(received)
        finally:
            self._reading = False
            self.moved.notify_all()

    def _stop_reading(self) -> None:
        """Called with the lock. Nobody reads until it is given back."""
        self._stopping += 1
        self.wake()
        self.moved.wait_for(lambda: not self._reading)
        self._stopping -= 1
        self.moved.notify_all()

    def _connected(self) -> Replication:
        if self._replication is None:
            start, name = max(self.position, self._start), self._slot.name
            link, self._link = self._link, None
            self._replication = Replication(self._sessions, name, name, start, link)
            self._replication.acknowledge(self._durable)
        return self._replication

    def _received(self, received: Received) -> None:
        try:
            for some in self._assembly.take_all(received.payloads):
                if isinstance(some, SimpleTransactions):
                    self._commit_simple(some)
                else:
                    self._commit_all(some)
        except BaseException:
            self._disconnect()
            raise
        self.position = max(self.position, received.upto)
        self.fetches.come_to(self.position + 1, self.position)
        if self._replication is not None and self._committed <= self._durable:
            self._replication.pass_over(self.position)  # nothing of ours lies in between

    def _commit_simple(self, simple: SimpleTransactions) -> None:
        """As columns, but for those transactions that must be read row by row."""
        try:
            transactions = self.decoder.columns(simple, self.position)
        except NeedsRowWise as needed:
            self._commit_row_wise(simple, needed)
            return
        self._recent.extend(simple.positions.tolist(), simple.xids.tolist())
        self.position = self._committed = max(self.position, int(simple.positions[-1]))
        self._queue.add_transactions(transactions)

    def _commit_row_wise(self, simple: SimpleTransactions, needed: NeedsRowWise) -> None:
        """The others are read as columns again, in order, where they are still many."""
        places = range(len(simple.positions))
        for is_row_wise, group in groupby(
            places, lambda place: not needed.transactions or place in needed.transactions
        ):
            some = list(group)
            part = simple.between(some[0], some[-1] + 1)
            if is_row_wise or len(part.payloads) < SIMPLE_MIN:
                self._commit_all(Assembly().take_each(part.payloads))
            else:
                self._commit_simple(part)

    def _commit_all(self, committed: Sequence[CommittedTransaction]) -> None:
        are_many = sum(len(one.said) for one in committed) >= LOOK_AHEAD_MIN
        wanted = (place for one in committed for place in self.decoder.places(one)) if are_many else ()
        with self._row_cache.looking_ahead(wanted):
            for one in committed:
                self._commit(one)

    def _commit(self, committed: CommittedTransaction) -> None:
        if committed.position <= self.position:
            return
        self.fetches.come_to(committed.position, self.position)
        items = self.decoder.items(committed)
        if any(isinstance(said, LogicalMessage) and said.prefix == PREFIX for said in committed.said):
            self.hold(committed.position)
        self._recent.add(committed.position, committed.xid)
        self.position = committed.position
        if not all(isinstance(said, LogicalMessage) and said.prefix != PREFIX for said in committed.said):
            self._committed = committed.position  # a nudge of ours need not be durable anywhere
        self._queue.add(committed.position, items)

    def _disconnect(self) -> None:
        if self._replication is not None:
            self._replication.close()
            self._replication = None
        self._assembly.close()
        self._assembly = Assembly()
