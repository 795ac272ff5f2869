"""Records as they stand on disk, and the numbers made from offsets."""

from __future__ import annotations

from headwater.log.record import FIRST_OFFSET, Flaw, Kind, Record, offset_of, pack, packed_bytes, tx_of, unpack


def test_a_tx_orders_as_the_log_does() -> None:
    assert tx_of(1, 0) < tx_of(1, 65535) < tx_of(2, 0)
    assert offset_of(tx_of(77, 65535)) == 77


def test_no_tx_is_zero() -> None:
    assert tx_of(FIRST_OFFSET, 0) > 0


def test_kinds_keep_their_numbers() -> None:
    names = (
        "FRAME SUBSCRIBE UNSUBSCRIBE LEASE CAPTURE ACTIVATE ANSWER SCHEMA DECISION TICK END_EPOCH SNAPSHOT DIFFS "
        "REPORT RELEASE FETCH UNWANT MOVE"
    )
    assert " ".join(kind.name for kind in sorted(Kind)) == names
    assert sorted(Kind) == [*range(1, 18), 20]


def test_a_record_in_pieces_is_the_record_in_one() -> None:
    whole = b"".join(pack(5, Kind.TICK, 3, b"abcd"))
    assert whole == b"".join(pack(5, Kind.TICK, 3, [b"ab", b"", b"cd"]))
    assert packed_bytes(memoryview(whole)) == len(whole)
    assert unpack(memoryview(whole), 5) == Record(5, Kind.TICK, b"abcd")


def test_a_record_of_another_offset_is_a_flaw() -> None:
    whole = b"".join(pack(5, Kind.TICK, 3, b"abcd"))
    assert unpack(memoryview(whole), 6) == Flaw("offset 6", "5")


def test_an_unknown_kind_is_a_flaw() -> None:
    whole = b"".join(pack(5, 99, 3, b""))  # type: ignore[arg-type]
    flaw = unpack(memoryview(whole), 5)
    assert isinstance(flaw, Flaw) and "99" in flaw.found


def test_zeros_are_a_flaw() -> None:
    assert isinstance(unpack(memoryview(bytes(24)), 0), Flaw)
