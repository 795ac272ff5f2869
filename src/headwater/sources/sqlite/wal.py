"""Finds the ends of transactions in SQLite's write-ahead log. Pure functions on bytes, and the file they are read from.

Every transaction that logs a change also writes the one page of `_headwater_position`. So each commit in the WAL that
holds that page tells the log's last `seq` at that commit. Frames count only when their salts and
their running checksum say that they belong to the present WAL; what follows the last commit is not read yet.

A WAL that is started over is written from its beginning again, with other salts: behind its last frame, frames of the
one before are left. They still tell of commits that were made while nobody read along.

Only the `-wal` file is ever opened: closing the database or its `-shm` file would drop the locks of the whole process.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headwater.fs.reopening_file import ReopeningFile

HEADER_BYTES = 32
FRAME_BYTES = 24  # before the page
READ_BYTES_MAX = 4 << 20
READ_FRAMES_MIN = 16
LEFT_BYTES_MAX = 16 << 20  # of the WAL before; 1,000 pages of 4 kB are usual
ENDS_MAX = 1 << 20  # remembered; older ones go, and what is read again that far back is merged
_MAGIC = (0x377F0682, 0x377F0683)  # checksums over little- and big-endian words
_LEAF_OF_TABLE = 0x0D
_SALTS = struct.Struct(">II")
_HEAD = struct.Struct(">6I")  # of a frame: page, size of the database after a commit, salts, checksum

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class WalHeader:
    """`checksum` is what the first frame's checksum starts from."""

    page_bytes: int
    salts: tuple[int, int]
    checksum: tuple[int, int]
    big_endian: bool

    @property
    def frame_bytes(self) -> int:
        return FRAME_BYTES + self.page_bytes


@lru_cache(maxsize=4)
def parse_header(data: bytes) -> WalHeader | None:
    """None for anything that is not a whole and valid header."""
    if len(data) < HEADER_BYTES:
        return None
    magic, _, page_bytes, _, salt1, salt2, sum1, sum2 = (
        int.from_bytes(data[at : at + 4], "big") for at in range(0, 32, 4)
    )
    if magic not in _MAGIC or page_bytes < 512 or page_bytes & (page_bytes - 1):
        return None
    big_endian = magic == _MAGIC[1]
    found = checksums(np.frombuffer(data[:24], _words(big_endian)).reshape(1, 6), np.zeros((1, 2), np.uint32))[0]
    if (int(found[0]), int(found[1])) != (sum1, sum2):
        return None
    return WalHeader(page_bytes, (salt1, salt2), (sum1, sum2), big_endian)


def checksums(words: Words, before: Words) -> Words:
    """SQLite's running checksum, for many equally long stretches at once: from `before` over the words of each row.

    A step is s0 += x + s1; s1 += y + s0. That is linear, so all steps of a stretch are one product modulo 2³².
    """
    carry, weights = _coefficients(words.shape[1] // 2)
    result: Words = before @ carry + words.astype(np.uint32, copy=False) @ weights
    return result


def frame_checksums(frames: Words, before: Words) -> Words:
    """As `checksums`, over what is summed of each frame: the first words of its head, and its page."""
    carry, weights = _coefficients(frames.shape[1] // 2 - 2)
    frames, weights = frames.astype(np.uint32, copy=False), weights.T
    result: Words = before @ carry + (weights[:, :2] @ frames[:, :2].T + weights[:, 2:] @ frames[:, 6:].T).T
    return result


@lru_cache(maxsize=16)
def _coefficients(pairs: int) -> tuple[Words, Words]:
    weights = np.zeros((pairs * 2, 2), np.uint32)
    a, b, c, d = 1, 0, 0, 1  # the steps still to come, as a matrix [[a, b], [c, d]]
    mask = 0xFFFFFFFF
    for pair in reversed(range(pairs)):
        weights[2 * pair] = ((a + b) & mask, (c + d) & mask)
        weights[2 * pair + 1] = (b, d)
        a, b, c, d = (a + b) & mask, (a + 2 * b) & mask, (c + d) & mask, (c + 2 * d) & mask
    return np.array([[a, c], [b, d]], np.uint32), np.asfortranarray(weights)


def _words(big_endian: bool) -> np.dtype[np.uint32]:
    return np.dtype(">u4" if big_endian else "<u4")


@dataclass(frozen=True, slots=True)
class WalCommits:
    """What a stretch of frames holds: frames up to the last commit, its checksum, and the seqs told on the way."""

    frames: int
    checksum: tuple[int, int]
    seqs: list[int]
    whole: bool  # every frame read is valid, so there may be more


def read_commits(
    data: bytes, header: WalHeader, checksum: tuple[int, int], name: bytes, trusted: int = 0
) -> WalCommits:
    """Reads whole frames; `checksum` is that of the frame before. `name` marks the row of the position, in the encoding
    of the file. So many frames as are `trusted` need no checksum."""
    count = len(data) // header.frame_bytes
    if not count:
        return WalCommits(0, checksum, [], False)
    heads = _heads(data, header, count, trusted)
    valid = max(_valid(data, heads, header, checksum), min(trusted, count))
    commits = [frame for frame, head in enumerate(heads[:valid]) if head[1]]
    if not commits:
        return WalCommits(0, checksum, [], valid == count)
    last = commits[-1]
    return WalCommits(last + 1, (heads[last][4], heads[last][5]), _seqs(data, header, commits, name), valid == count)


def _heads(data: bytes, header: WalHeader, count: int, trusted: int) -> list[tuple[int, ...]]:
    """Those of the first frames, up to one that was left there by the WAL before."""
    heads: list[tuple[int, ...]] = []
    for frame in range(count):
        head = _HEAD.unpack_from(data, frame * header.frame_bytes)
        if head[2:4] != header.salts and not _is_bare(head) and frame >= trusted:
            break
        heads.append(head)
    return heads


def _valid(data: bytes, heads: list[tuple[int, ...]], header: WalHeader, checksum: tuple[int, int]) -> int:
    """How many frames from the start belong to this WAL.

    In some versions of SQLite (3.40 is one) a savepoint that is rolled back after the cache spilled leaves frames with
    no salts and no checksum, on which the next valid one builds. Such frames count when a valid one follows them.
    """
    if not heads:
        return 0
    count, valid = len(heads), 0
    words = np.frombuffer(data, _words(header.big_endian), count * header.frame_bytes // 4).reshape(count, -1)
    before = np.array([checksum, *(head[4:] for head in heads[:-1])], np.uint32)
    sums = frame_checksums(words, before).tolist()
    for frame, (head, sum) in enumerate(zip(heads, sums, strict=True)):
        if head[2:] == (*header.salts, *sum):
            valid = frame + 1
        elif not _is_bare(head):
            break
    return valid


def _is_bare(head: tuple[int, ...]) -> bool:
    return head[0] != 0 and not any(head[2:])


def _seqs(data: bytes, header: WalHeader, commits: list[int], name: bytes) -> list[int]:
    """The last seq of each commit that tells one. Of a page that was written more than once the last frame counts: the
    others may have spilled from a savepoint that was rolled back. Of several pages the greatest counts: the others can
    only be copies of the table."""
    found: dict[int, dict[bytes, int]] = {}
    for frame in _frames_with(data, header, (commits[-1] + 1) * header.frame_bytes, name):
        start = frame * header.frame_bytes
        seq = sequence_in(data[start + FRAME_BYTES : start + header.frame_bytes], name)
        if seq is not None:
            commit = commits[bisect_left(commits, frame)]
            found.setdefault(commit, {})[data[start : start + 4]] = seq
    return [max(found[commit].values()) for commit in sorted(found)]


def _frames_with(data: bytes, header: WalHeader, end: int, name: bytes) -> list[int]:
    frames: list[int] = []
    at = data.find(name, 0, end)
    while at >= 0:
        frames.append(at // header.frame_bytes)
        at = data.find(name, (frames[-1] + 1) * header.frame_bytes, end)
    return frames


def sequence_in(page: bytes, name: bytes) -> int | None:
    """The seq beside the name, where the page is a leaf of a table and has a row (name, seq)."""
    if page[0] != _LEAF_OF_TABLE:
        return None
    cells = int.from_bytes(page[3:5], "big")
    if cells == 1:
        return _sequence_at(page, int.from_bytes(page[8:10], "big"), name)
    pointers = (int.from_bytes(page[8 + 2 * cell : 10 + 2 * cell], "big") for cell in range(cells))
    return max((seq for at in pointers if (seq := _sequence_at(page, at, name)) is not None), default=None)


def _sequence_at(page: bytes, at: int, name: bytes) -> int | None:
    """A cell is its length, its rowid, and a record: the types of its values, then the values (name, seq)."""
    _, at = _varint(page, at)
    _, at = _varint(page, at)
    head_bytes, types = _varint(page, at)
    body = at + head_bytes
    name_type, types = _varint(page, types)
    seq_type, types = _varint(page, types)
    if types != body or name_type != 13 + 2 * len(name) or page[body : body + len(name)] != name:
        return None
    return _integer(page, body + len(name), seq_type)


def _integer(page: bytes, at: int, kind: int) -> int | None:
    if kind in (8, 9):
        return kind - 8
    width = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}.get(kind)
    return None if width is None else int.from_bytes(page[at : at + width], "big", signed=True)


def _varint(page: bytes, at: int) -> tuple[int, int]:
    """The number and where it ends."""
    if at < len(page) and page[at] < 0x80:
        return page[at], at + 1
    number = 0
    for place in range(at, min(at + 8, len(page))):
        number = number << 7 | page[place] & 0x7F
        if page[place] < 0x80:
            return number, place + 1
    return number << 8 | page[at + 8] if at + 8 < len(page) else 0, at + 9


def left_seqs(data: bytes, header: WalHeader, name: bytes) -> list[int]:
    """The seqs told by commits of the WAL before this one, in the frames that it has not written over. The first of
    those proves nothing; each other is proved by the checksum of the one before it."""
    before = (header.salts[0] - 1) % (1 << 32)
    frames = range(0, len(data) - header.frame_bytes + 1, header.frame_bytes)
    start = next((at for at in frames if int.from_bytes(data[at + 8 : at + 12], "big") == before), None)
    if start is None:
        return []
    salts = before, int.from_bytes(data[start + 12 : start + 16], "big")
    checksum = (
        int.from_bytes(data[start + 16 : start + 20], "big"),
        int.from_bytes(data[start + 20 : start + 24], "big"),
    )
    old = WalHeader(header.page_bytes, salts, checksum, header.big_endian)
    return read_commits(data[start + header.frame_bytes :], old, checksum, name).seqs


class WalReader:
    """Goes through the WAL from commit to commit. Remembers the ends it found until told to forget them."""

    def __init__(self, path: Path, name: bytes) -> None:
        self.path, self.name = path, name
        self.header: WalHeader | None = None
        self._file = ReopeningFile(path)
        self._frames, self._checksum = 0, (0, 0)
        self._seqs: list[int] = []

    def read(self, trusted: int = 0) -> None:
        """Reads on to the last commit that is there. Starts over where the WAL did.

        `trusted`: SQLite says that this many frames are committed, whatever we make of their checksums.
        """
        try:
            self._read_from(self._file.fileno(), trusted)
        except FileNotFoundError:
            self.header = None

    @property
    def last(self) -> int:
        """The last seq that a transaction is known to end with."""
        return self._seqs[-1] if self._seqs else 0

    def is_behind(self) -> bool:
        """Frames follow the last commit that was read, or the WAL was started over; also where there is none."""
        try:
            file = self._file.fileno()
        except FileNotFoundError:
            return True
        header = self.header
        if header is None or parse_header(os.pread(file, HEADER_BYTES, 0)) != header:
            return True
        head = os.pread(file, FRAME_BYTES, HEADER_BYTES + self._frames * header.frame_bytes)
        return head[8:16] == _SALTS.pack(*header.salts)

    def ends(self, after: int, upto: int) -> list[int]:
        """The seqs in (after, upto] that transactions are known to end with, ascending."""
        return self._seqs[bisect_right(self._seqs, after) : bisect_right(self._seqs, upto)]

    def forget(self, upto: int) -> None:
        del self._seqs[: max(bisect_right(self._seqs, upto), len(self._seqs) - ENDS_MAX)]

    def close(self) -> None:
        self._file.close()

    @property
    def bytes_read(self) -> int:
        return self._frames * self.header.frame_bytes if self.header else 0

    def _read_from(self, file: int, trusted: int) -> None:
        header = parse_header(os.pread(file, HEADER_BYTES, 0))
        if header is None:
            self.header = None
            return
        first = self.header is None
        if header != self.header:
            self.header, self._frames, self._checksum = header, 0, header.checksum
            trusted = 0  # it was told of another WAL
        wanted = READ_FRAMES_MIN
        while self._read_stretch(file, header, wanted, trusted):
            wanted = min(wanted * 4, READ_BYTES_MAX // header.frame_bytes + 1)
        if first:
            self._read_left(file, header)

    def _read_left(self, file: int, header: WalHeader) -> None:
        """What is left of the WAL before."""
        data = os.pread(file, LEFT_BYTES_MAX, HEADER_BYTES + self._frames * header.frame_bytes)
        self._seqs = sorted({*left_seqs(data, header, self.name), *self._seqs})

    def _read_stretch(self, file: int, header: WalHeader, wanted: int, trusted: int) -> bool:
        """Reads up to `wanted` frames, or as many as the next transaction has. False where the valid frames end."""
        start = HEADER_BYTES + self._frames * header.frame_bytes
        data = os.pread(file, wanted * header.frame_bytes, start)
        commits = read_commits(data, header, self._checksum, self.name, max(trusted - self._frames, 0))
        self._frames += commits.frames
        self._checksum = commits.checksum
        for seq in commits.seqs:
            if not self._seqs or seq > self._seqs[-1]:
                self._seqs.append(seq)
        more = commits.whole and len(data) == wanted * header.frame_bytes
        return self._read_stretch(file, header, wanted * 4, trusted) if more and not commits.frames else more
