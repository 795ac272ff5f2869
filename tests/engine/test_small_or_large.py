"""Small or large: both implementations behind every threshold of `model/size.py` give the same output.

Each pair gets the same input; whole dataflows emit the same, to the bit, with every input forced to one side. Payloads
may differ in bytes that mean nothing: Arrow pads columns of NULLs. And no threshold lies anywhere else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.engine.emissions.codec import decode
from tests.engine.ranges.test_range_index import several
from tests.engine.test_dataflow import SEEDS, history, run_in_steps
from tests.engine.world import FUZZ, random_plan, table_of
from tests.fuzz.check import Running, plans_of
from tests.fuzz.invent import invented
from tests.support.fuzz import tries
from tests.support.sizes import NAMES, PAIRS, SIDES, forced, plain

SOURCE = Path(__file__).parents[2] / "src/headwater"
# A number of rows compared with a constant: a threshold, unless it is listed here, where it decides something else.
COMPARED = re.compile(r"(?:len\([\w.\[\]]+\)|num_rows|\bcount|\brows) *(?:<=?|>=?) *(_?[A-Z][A-Z_0-9]+|\d\d+)\b")
OTHERS = {
    "engine/activation.py: WIDE",  # expressions
    "engine/emissions/edits.py: _OLD_ROWS_MIN",  # a format on disk
    "engine/emissions/few_edits.py: _ROWS_MAX",  # a format on disk
    "engine/expressions/kernels.py: WIDE",  # expressions
    "engine/operators/group/accumulators.py: PIECES_MAX",  # in memory, or on disk
    "engine/operators/group/accumulators.py: VALUES_MAX",  # in memory, or on disk
    "engine/operators/join/hot_keys.py: PAIRS_MAX",  # made at once
    "engine/ranges/range_index.py: _MASKED_GROUPS_MAX",  # groups; the rows are in `masked_rows`
    "engine/ranges/ranges.py: _SPANS_MAX",  # ranges of one group; the rows are in `wanted_rows`
    "engine/ranking/rank.py: _BLOCK_MAX",  # keys in a block
    "engine/rows/hashes.py: _CHUNK_ROWS",  # so many at a time, by one implementation
    "engine/state/ordered_keys_head.py: _TRIM",  # keys in memory
    "model/budget.py: _WEIGHED_PAIRS_MIN",  # what is charged
    "pipeline/records/diff_record.py: _MANY_VALUES",  # read in pauses
}


def test_every_threshold_has_a_pair() -> None:
    assert set(PAIRS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@tries(25)
@given(st.integers(0, 2**32), st.integers(1, 40))
@example(1, 1)
@example(2, 90)
def test_both_sides_give_the_same(name: str, seed: int, count: int) -> None:
    found = []
    for side in SIDES:
        run = PAIRS[name](random.Random(seed), count)
        with forced(side):
            found.append(plain(run()))
    assert found[0] == found[1]


@pytest.mark.parametrize(("key", "seed"), SEEDS[::3])
def test_a_table_emits_the_same_whichever_side_is_forced(key: tuple[str, ...], seed: int) -> None:
    rng = random.Random(f"side {key}{seed}")
    table = table_of(key)
    first, txs = history(table, rng, 40)
    plans = [*(random_plan(table, rng) for _ in range(5)), *several(rng, table, 5)]
    for cut in (1, 40):
        emitted = []
        for side in (None, *SIDES):
            with forced(side):
                emitted.append(plain(run_in_steps(table, first, txs, plans, cut)))
        assert emitted[0] == emitted[1] == emitted[2]


@pytest.mark.slow
def test_relations_emit_the_same_whichever_side_is_forced(tmp_path: Path) -> None:
    for seed in range(12 * FUZZ):
        case = invented(seed)
        plans = plans_of(case)
        emitted = []
        for side in (None, *SIDES):
            with forced(side):
                emitted.append([plain(decode(each)) for each in Running(case, plans, tmp_path, case.cut).run()])
        assert emitted[0] == emitted[1] == emitted[2], seed


def test_no_threshold_lies_anywhere_else() -> None:
    found = {
        f"{path.relative_to(SOURCE)}: {constant}"
        for folder in ("engine", "model", "pipeline/records")
        for path in (SOURCE / folder).rglob("*.py")
        for constant in COMPARED.findall(path.read_text())
        if constant != "SMALL" and "BYTES" not in constant
    }
    assert found == OTHERS
