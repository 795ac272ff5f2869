"""The index of emissions says in columns what its entries say one by one, also after it was on its way."""

from __future__ import annotations

import random

import msgspec
import pytest

from headwater.engine.emissions.index import NOTHING, Entry, Index, PackedIndex, pack, unpack

ENTRIES = [
    Entry(7, 3, 0, "result", "b"),
    Entry(2, 3, 1, "error", "a", "integer overflow"),
    Entry(2, 1, 0, "diff", "c"),
    Entry(2, 3, 1, "closed", "a", "the table was dropped"),
]


def test_an_index_is_what_its_entries_say() -> None:
    index = Index.of(ENTRIES)
    assert list(index) == ENTRIES and len(index) == 4
    assert (index[1], index[1:3]) == (ENTRIES[1], ENTRIES[1:3])
    assert index.templates == ("a", "b", "c")
    assert [*index.moments()] == [(entry.tx, entry.instance) for entry in ENTRIES]


@pytest.mark.parametrize("seed", range(10))
def test_parts_come_together_by_tx_and_instance(seed: int) -> None:
    rng = random.Random(seed)
    entries = [rng.choice(ENTRIES) for _ in range(20)]
    cuts = sorted(rng.randrange(20) for _ in range(3))
    parts = [Index.of(entries[start:end]) for start, end in zip([0, *cuts], [*cuts, 20], strict=True)]
    together = Index.together(parts)
    assert list(together) == sorted(entries, key=lambda entry: (entry.tx, entry.instance))
    assert pack(together) == pack(Index.together([Index.of(entries)]))


@pytest.mark.parametrize("index", [NOTHING, Index.of(ENTRIES), Index.of(ENTRIES[2:3])])
def test_an_index_travels(index: Index) -> None:
    raw = msgspec.msgpack.encode(pack(index))
    assert list(unpack(msgspec.msgpack.decode(raw, type=PackedIndex))) == list(index)


def test_damage_is_noticed() -> None:
    packed = pack(Index.of(ENTRIES))
    for columns, templates in ((packed.columns[:-1], packed.templates), (packed.columns, packed.templates[:2])):
        with pytest.raises(ValueError, match=r"."):
            unpack(PackedIndex(columns, templates, {}))
