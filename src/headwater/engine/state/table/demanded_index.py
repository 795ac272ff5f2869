"""An index of the rows of a table that subscribers ask for: a row enters with the first subscriber, and leaves with
the last.

It takes 12 bytes for each row that is asked for, however many others the table has. A change of the table enters it as
any other index, with its step. It never reads a row whose demand did not change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.engine.rows.arrays import Ints
from headwater.engine.state.table.key_index import IndexKey, KeyIndex
from headwater.engine.state.table.table_store import TableStore, narrowed
from headwater.model.encoding.keys import Uint64s

Turned = Sequence[tuple[IndexKey, Uint64s]]  # key hashes that are asked for since now, or no longer, by an index


def let_in(store: TableStore, key: IndexKey, turned: Turned) -> None:
    """The rows under these, where all demands let them pass now. None of them was in the index."""
    places = _places(store, turned)
    index, rows = _narrow(store, key), store.heap.rows(places, _columns(store, key))
    hash, passing = index.hash_rows(rows), index.keyed(rows)
    if passing is not None:
        hash, places = hash[passing], places[passing]
    store.work.reindexed += len(places)
    index.places.extend(hash, places, store.heap.live)


def let_out(store: TableStore, key: IndexKey, turned: Turned) -> None:
    """The rows under these go, as far as they are in the index."""
    places = _places(store, turned)
    index, rows = _narrow(store, key), store.heap.rows(places, _columns(store, key))
    store.work.reindexed += len(places)
    index.places.remove(index.hash_rows(rows), places)


def _places(store: TableStore, turned: Turned) -> Ints:
    """Each once: a row may be under several."""
    found = np.concatenate([store.probe(by, hashes)[1] for by, hashes in turned])
    return np.unique(found) if len(turned) > 1 else found


def _narrow(store: TableStore, key: IndexKey) -> KeyIndex:
    """The index, over rows with the columns that it needs alone."""
    columns = [store.table.names[place] for place in _columns(store, key)]
    return KeyIndex(key, narrowed(store.table, columns), store.indexes[key].places)


def _columns(store: TableStore, key: IndexKey) -> list[int]:
    needed = {*key.columns, *(name for each in key.asked for name in each.columns)}
    return [place for place, name in enumerate(store.table.names) if name in needed]
