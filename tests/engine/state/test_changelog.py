"""A changelog is the dictionary that its owner has, whenever it is saved and loaded."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.engine.rows.work import Work
from headwater.engine.state.changelog import Changelog
from headwater.model.errors import Corrupt


@pytest.mark.parametrize("seed", range(5))
def test_what_is_loaded_is_what_was_saved(tmp_path: Path, seed: int) -> None:
    rng, owner = random.Random(seed), dict[int, bytes]()
    log = Changelog(Work())
    for _ in range(60):
        for _ in range(rng.randrange(8)):
            key = rng.choice((rng.randrange(30), (1 << 63) - 1 - rng.randrange(3)))
            if rng.random() < 0.4:
                owner.pop(key, None)
            else:
                owner[key] = rng.randbytes(rng.randrange(1, 5))
            log.note(key)
        files = log.save(owner.get, tmp_path)
        assert len(files) <= 8
        loaded = Changelog(Work())
        assert dict(loaded.load(tmp_path, files)) == owner
        log = loaded if rng.random() < 0.3 else log


def test_a_save_writes_what_changed(tmp_path: Path) -> None:
    work, owner = Work(), dict.fromkeys(range(1000), b"first")
    log = Changelog(work)
    log.note(*owner)
    first = log.save(owner.__getitem__, tmp_path)
    owner[7] = b"second"
    log.note(7)
    again = log.save(owner.__getitem__, tmp_path)
    assert work.saved == 1001 and again[:-1] == first
    assert (tmp_path / again[-1]).stat().st_size < (tmp_path / first[0]).stat().st_size / 2
    assert log.save(owner.__getitem__, tmp_path) == again


def test_a_damaged_run_is_refused(tmp_path: Path) -> None:
    log = Changelog(Work())
    log.note(1)
    [name] = log.save(lambda key: b"value", tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Corrupt):
        list(Changelog(Work()).load(tmp_path, [name]))
