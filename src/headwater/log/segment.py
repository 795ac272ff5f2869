"""The embedded log: a directory of segment files, one writer, any number of readers in any process.

    00000000000000000001.segment   records from offset 1 on; the last segment is the one appended to
    head                           how far the log may be read; the write to it wakes the readers
    lock, generation               who may write

`writer` appends, `reader` reads, `recovery` opens after a crash; `ownership` is the right to write, `group_commit` the
shared fsync, `segment_file` and `head_file` the files.
"""

from __future__ import annotations

from headwater.log.reader import OLDEST, SegmentReader
from headwater.log.writer import SegmentWriter

__all__ = ["OLDEST", "SegmentReader", "SegmentWriter"]
