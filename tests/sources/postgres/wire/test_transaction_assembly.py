"""Whole transactions out of messages, some of them streamed in blocks, some undone: against a model of them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.errors import SourceError
from headwater.sources.postgres.wire import transaction_assembly
from headwater.sources.postgres.wire.messages import (
    Begin,
    Commit,
    Insert,
    LogicalMessage,
    Message,
    Prepared,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
)
from headwater.sources.postgres.wire.transaction_assembly import Assembly, CommittedTransaction
from headwater.sources.source import ChangesLost
from tests.sources.postgres.wire.encoder import written
from tests.support.fuzz import MULTIPLIER

_EXAMPLES = 60 * MULTIPLIER


@settings(max_examples=_EXAMPLES, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0, 200, 1 << 20]))
def test_streamed_and_plain_transactions_in_any_order(seed: int, spool: int) -> None:
    chance = random.Random(seed)
    messages, expected = _world(chance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_assembly, "SPOOL_BYTES", spool)
        made = Assembly()
        found = [done for payload in messages if (done := made.take(payload)) is not None]
        made.close()
    assert [
        (one.position, one.xid, [insert.new for insert in one.said if isinstance(insert, Insert)]) for one in found
    ] == (expected)


def _world(chance: random.Random) -> tuple[list[bytes], list[tuple[int, int, list[tuple[bytes, ...]]]]]:
    """Blocks of a few transactions and their savepoints, mixed; and what must come out."""
    messages: list[bytes] = []
    expected: list[tuple[int, int, list[tuple[bytes, ...]]]] = []
    rows: dict[int, list[tuple[int, tuple[bytes, ...]]]] = {}
    for step in range(chance.randrange(30)):
        xid = 100 * chance.randrange(1, 4)
        match chance.randrange(6):
            case 0:
                messages += [written(one) for one in _plain(step)]
                expected.append((1000 + step, 5000 + step, [(b"%d" % step,)]))
            case 1 if xid in rows:
                messages.append(written(StreamCommit(xid, 0, 1000 + step, 0)))
                expected.append((1000 + step, xid, [row for _, row in rows.pop(xid)]))
            case 2 if xid in rows:
                messages.append(written(StreamAbort(xid, xid)))
                del rows[xid]
            case 3 if xid in rows:
                undone = chance.choice([sub for sub, _ in rows[xid] if sub != xid] or [1])
                messages.append(written(StreamAbort(xid, undone), parallel=chance.random() < 0.5))
                rows[xid] = [(sub, row) for sub, row in rows[xid] if sub != undone]
            case _:
                messages += _block(chance, xid, step, rows)
    return messages, expected


def _plain(step: int) -> list[Message]:
    return [Begin(0, 0, 5000 + step), Insert(0, 1, (b"%d" % step,)), Commit(0, 1000 + step, 0)]


def _block(
    chance: random.Random, xid: int, step: int, rows: dict[int, list[tuple[int, tuple[bytes, ...]]]]
) -> list[bytes]:
    """Savepoints get a new id each, so that one that was undone never goes on."""
    payloads = [written(StreamStart(xid, xid not in rows))]
    mine = rows.setdefault(xid, [])
    for number in range(chance.randrange(4)):
        sub, row = chance.choice([xid, 10_000 + step]), (b"%d/%d" % (step, number),)
        payloads.append(written(Insert(sub, 1, row), streaming=True))
        mine.append((sub, row))
    return [*payloads, written(StreamStop())]


def test_messages_of_others_are_kept_in_transactions_and_dropped_outside() -> None:
    made = Assembly()
    assert made.take(written(LogicalMessage(0, False, 1, "x", b"outside"))) is None
    made.take(written(Begin(0, 0, 7)))
    assert made.under_way
    said = LogicalMessage(0, True, 1, "x", b"inside")
    made.take(written(said))
    assert made.take(written(Commit(0, 9, 0))) == CommittedTransaction(9, 7, [said])


@pytest.mark.parametrize("streamed", [False, True])
def test_a_transaction_over_the_limit_is_not_taken_over(monkeypatch: pytest.MonkeyPatch, streamed: bool) -> None:
    """Each counts for itself: two that fit are two, and no more is kept than the limit."""
    change = written(Insert(7, 1, (b"x" * 80,)), streaming=streamed)
    first: Message = StreamStart(7, True) if streamed else Begin(0, 0, 7)
    last: list[Message] = [StreamStop(), StreamCommit(7, 0, 9, 0)] if streamed else [Commit(0, 9, 0)]
    ends = [written(one) for one in last]
    monkeypatch.setattr(transaction_assembly, "TRANSACTION_BYTES_MAX", 5 * len(change))
    made = Assembly()
    for _ in range(2):
        (done,) = made.take_each([written(first), *[change] * 5, *ends])
        assert len(done.said) == 5
    with pytest.raises(ChangesLost, match="larger"):
        made.take_each([written(first), *[change] * 6, *ends])
    made.close()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SourceError, match="COMMIT without a BEGIN"):
        Assembly().take(written(Commit(0, 9, 0)))
    with pytest.raises(SourceError, match="two-phase"):
        Assembly().take(written(Prepared("b", 1, 2, 3, "gid")))
