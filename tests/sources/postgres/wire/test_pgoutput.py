"""The decoder of logical replication: every message reads back, broken ones say so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.errors import SourceError
from headwater.sources.postgres.server.lsn import end_of_record, format_lsn, parse_lsn
from headwater.sources.postgres.wire.messages import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    NamedType,
    Origin,
    Prepared,
    Relation,
    RelationColumn,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    Update,
)
from headwater.sources.postgres.wire.pgoutput import MessageDecoder
from tests.sources.postgres.wire.encoder import written
from tests.support.fuzz import MULTIPLIER

_EXAMPLES = 150 * MULTIPLIER
_lsns = st.integers(0, 2**64 - 1)
_times = st.integers(-(2**63), 2**63 - 1)
_ids = st.integers(1, 2**32 - 1)
_words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
_cells = st.lists(st.none() | st.just(UNCHANGED) | st.binary(max_size=9), max_size=6).map(tuple)
_columns = st.builds(RelationColumn, st.booleans(), _words, _ids, st.integers(-(2**31), 2**31 - 1))


def _changes(xids: st.SearchStrategy[int]) -> st.SearchStrategy[Message]:
    return st.one_of(
        st.builds(
            Relation,
            xids,
            _ids,
            _words.map(lambda name: name or "pg_catalog"),
            _words,
            st.sampled_from("dnfi"),
            st.lists(_columns, max_size=4).map(tuple),
        ),
        st.builds(NamedType, xids, _ids, st.just("pg_catalog"), _words),
        st.builds(Insert, xids, _ids, _cells),
        st.builds(Update, xids, _ids, st.none(), st.just(False), _cells),
        st.builds(Update, xids, _ids, _cells, st.booleans(), _cells),
        st.builds(Delete, xids, _ids, _cells, st.booleans()),
        st.builds(Truncate, xids, st.lists(_ids, max_size=4).map(tuple), st.booleans(), st.booleans()),
        st.builds(LogicalMessage, xids, st.booleans(), _lsns, _words, st.binary(max_size=20)),
    )


_others = st.one_of(
    st.builds(Begin, _lsns, _times, _ids),
    st.builds(Commit, _lsns, _lsns, _times),
    st.builds(Origin, _lsns, _words),
    st.builds(StreamCommit, _ids, _lsns, _lsns, _times),
    st.builds(StreamAbort, _ids, _ids),
    st.builds(Prepared, st.sampled_from("bPKrp"), _lsns, _lsns, _ids, _words),
)
_block = st.tuples(st.builds(StreamStart, _ids, st.booleans()), st.lists(_changes(_ids), max_size=4)).map(
    lambda block: [block[0], *block[1], StreamStop()]
)
_sequences = st.lists(_block | _others.map(lambda one: [one]) | _changes(st.just(0)).map(lambda one: [one]), max_size=6)


@settings(max_examples=_EXAMPLES, derandomize=True, deadline=None)
@given(_sequences, st.booleans())
def test_what_is_written_reads_back(sequence: list[list[Message]], parallel: bool) -> None:
    decoder = MessageDecoder()
    for part in sequence:
        streaming = isinstance(part[0], StreamStart)
        for message in part:
            assert decoder.decode(written(message, streaming, parallel)) == message


@settings(max_examples=_EXAMPLES, derandomize=True, deadline=None)
@given(_changes(st.just(0)) | _others, st.data())
def test_a_message_cut_short_is_refused_or_shorter(message: Message, data: st.DataObject) -> None:
    """Never another exception, and never the message that was meant."""
    whole = written(message)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        assert MessageDecoder().decode(cut) != message
    except SourceError as error:
        assert "logical replication" in str(error)


@settings(max_examples=_EXAMPLES, derandomize=True, deadline=None)
@given(st.binary(max_size=40))
def test_noise_is_refused_or_read_but_never_breaks(noise: bytes) -> None:
    try:
        MessageDecoder().decode(noise)
    except SourceError as error:
        assert error.hint


def test_places_in_the_log_read_as_the_server_writes_them() -> None:
    assert parse_lsn("16/B374D848") == 0x16B374D848
    assert format_lsn(0x16B374D848) == "16/B374D848"


@pytest.mark.parametrize(
    ("lsn", "end"),
    [(0x3000028, 0x3000000), (0x3002018, 0x3002000), (0x3000100, 0x3000100), (0x3002028, 0x3002028)],
)
def test_a_place_behind_a_page_header_is_the_end_of_the_record_before(lsn: int, end: int) -> None:
    assert end_of_record(lsn, 8192, 16 << 20) == end
