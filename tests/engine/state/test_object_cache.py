"""The object cache against a plain dictionary: after merges, saves and restores, a key has its newest object."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.rows.work import Work
from headwater.engine.state import persistence
from headwater.engine.state.object_cache import ObjectCache
from tests.support.fuzz import tries

_KEYS = st.integers(0, 12)
_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), _KEYS),
        st.tuples(st.just("drop"), _KEYS),
        st.tuples(st.sampled_from(("save", "let go", "restore")), st.just(0)),
    ),
    max_size=60,
)


def made(max: int = 10_000) -> ObjectCache[list[int]]:
    """Pieces that are changed where they are."""
    return ObjectCache(lambda piece: bytes([1, *piece]), lambda packed: list(packed[1:]), Work(), max)


@tries(150)
@given(_ACTIONS, st.sampled_from((0, 3, 1000)))
def test_each_key_has_its_newest_piece(actions: list[tuple[str, int]], max: int) -> None:
    memos, model = made(max), dict[int, list[int]]()
    with TemporaryDirectory() as place:
        for number, (action, key) in enumerate(actions):
            match action:
                case "change":
                    changed(memos, key, number)
                    model.setdefault(key, []).append(number)
                case "drop" if key in model:
                    memos.fetch([key])
                    memos.drop(key)
                    del model[key]
                case "save":
                    persistence.save(memos, Path(place))
                case "let go":
                    for _ in range(2):
                        persistence.save(memos, Path(place))
                    for idle in memos.inside():
                        idle.let_go()
                    assert not memos._here
                case "restore":
                    memos = again(memos, Path(place), max)
            if number % 20 == 19:
                assert contents(memos) == model
        assert contents(memos) == model


def changed(memos: ObjectCache[list[int]], key: int, number: int) -> None:
    memos.fetch([key])
    piece = memos.get(key)
    if piece is None:
        piece = []
        memos.put(key, piece)
    piece.append(number)


def again(memos: ObjectCache[list[int]], place: Path, max: int) -> ObjectCache[list[int]]:
    other = made(max)
    persistence.restore(other, place, persistence.save(memos, place))
    return other


def contents(memos: ObjectCache[list[int]]) -> dict[int, Any]:
    memos.fetch(range(13))
    return {key: list(piece) for key in range(13) if (piece := memos.get(key)) is not None}


def test_a_save_files_what_has_changed_and_nothing_else(tmp_path: Path) -> None:
    memos = made()
    for key in range(1000):
        changed(memos, key, key % 200)
    persistence.save(memos, tmp_path)
    changed(memos, 7, 1)
    persistence.save(memos, tmp_path)
    assert [len(run) for run in memos.runs] == [1000, 1]
    files = [run.file for run in memos.runs]
    assert persistence.save(memos, tmp_path) == files


def test_what_nobody_touches_leaves_memory(tmp_path: Path) -> None:
    memos = made()
    for key in range(1000):
        changed(memos, key, key % 200)
    persistence.save(memos, tmp_path)
    assert not list(memos.inside()), "all of it was in use a moment ago"
    changed(memos, 7, 1)
    persistence.save(memos, tmp_path)
    (idle,) = memos.inside()
    assert idle.bytes > 999 * 1024
    idle.let_go()
    assert len(memos._here) == 1
    assert not list(memos.inside())


def test_only_so_many_are_in_memory() -> None:
    memos = made(100)
    for key in range(1000):
        changed(memos, key, key % 200)
        assert len(memos._here) <= 100
    memos.fetch(range(50))
    assert [memos.get(key) for key in range(50)] == [[key] for key in range(50)]
