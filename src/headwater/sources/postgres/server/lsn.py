"""Places in PostgreSQL's write-ahead log, as the whole numbers that our positions are. Pure."""

from __future__ import annotations

_PAGE_HEADER_BYTES, _SEGMENT_HEADER_BYTES = 24, 40


def parse_lsn(text: str) -> int:
    """`16/B374D848` as a number."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def end_of_record(lsn: int, page_bytes: int, segment_bytes: int) -> int:
    """Where the record before `lsn` ended: the server names the place of the next one, past the header of its page.

    Nothing ends inside a header, so both are the same place; but who waits for the latter may wait for ever.
    """
    if lsn % segment_bytes == _SEGMENT_HEADER_BYTES:
        return lsn - _SEGMENT_HEADER_BYTES
    return lsn - _PAGE_HEADER_BYTES if lsn % page_bytes == _PAGE_HEADER_BYTES else lsn
