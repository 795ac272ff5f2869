"""Small or large: the one place that decides which of two implementations takes an input.

Most steps hold one row, and some hold a million. Where it pays, there are two implementations with the same output: one
in plain Python or with a simpler plan, fast for few rows, and one over whole columns. The size of the input decides
between them, by a threshold below: up to so many the small side takes it, from there on the large one.

Both sides of every threshold give the same output: `tests/engine/test_small_or_large.py` runs each input through both.
The figures are µs of CPU, small | large, at the threshold and at eight times as many (`./dev bench sizes`). Its values
are short, which favours the small side: a threshold may be lower than the figures alone would have it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SmallSizes:
    """The largest input of the small side, by what is decided. Only tests and measurements change it."""

    # sort and join keys: encoded value by value, or as Arrow columns (127 | 490; 888 | 907)
    encoded_rows: int = 24
    # keys: one call of the hash per row, or all rows at once (1,551 | 1,904; 9,412 | 9,808)
    hashed_rows: int = 511
    # texts and blobs: one call of the hash per value, or all values at once (799 | 1,475; 4,086 | 6,441)
    row_hash_rows: int = 1023
    # a step's keys: hashed as they were encoded, or as whole columns (6 | 40; 19 | 56)
    key_hash_rows: int = 1023
    # of an operator: hashed in Python's integers, or as columns (16 | 21; 134 | 24)
    mixed_rows: int = 8
    # compared, or sorted by two passes of sixteen bits (125 | 174; 963 | 1,076)
    sorted_hashes: int = 2048
    # of a side of a join: looked up as they come, or in the order of their hashes (9,773 | 9,641; 78,405 | 75,937)
    sorted_updates: int = 1023
    # written out, or one number for all places, which takes no memory (35 | 52; 192 | 169)
    equal_numbers: int = 4095
    # computed exactly, row by row, or by Arrow kernels (240 | 330; 1,182 | 299)
    expression_rows: int = 16
    # of a log record: Arrow converts rows, or columns (43 | 51; 88 | 86)
    frame_rows: int = 16
    # of an emission: sorted and converted as rows, or as columns (50 | 94; 172 | 126)
    edit_rows: int = 16
    # removals and additions: paired in a loop, or by sorting (119 | 132; 257 | 223)
    paired_rows: int = 16
    # of a pool: compared as tuples, or column by column (50 | 532; 130 | 589)
    compared_rows: int = 16
    # of a replay: compared as tuples, or column by column (23 | 42; 60 | 199)
    silent_changes: int = 8
    # of a step: their groups found one by one, or in the arrays of slots (61 | 92; 294 | 245)
    grouped_rows: int = 64
    # of a step of unordered windows: taken one by one, or as columns (104 | 212; 589 | 266)
    linear_changes: int = 64
    # of an index of emissions: made one by one, or as columns (318 | 405; 980 | 462)
    entries: int = 64
    # of a replay: each transaction stepped, or those behind every frame skipped (819 | 760; 2,335 | 1,221)
    near_changes: int = 64
    # of a window: each found by its identity, or the whole bucket read (605 | 701; 1,318 | 1,771)
    fetched_rows: int = 64
    # of a table: each looked up in the runs of an index, or all at once (48 | 50; 370 | 61)
    found_rows: int = 8
    # of a group with bounds: encodings compared, or columns (119 | 110; 380 | 153)
    wanted_rows: int = 64
    # rows times groups with bounds: each pair tested, or found in a segment tree (223 | 313; 1,333 | 489)
    wanted_pairs: int = 64
    # of few groups with bounds: found as pairs, or tested as columns per group (223 | 239; 582 | 342)
    masked_rows: int = 64
    # that come to a group in a step: added one by one, or all at once where the aggregate can (617 | 472; 1,035 | 637)
    added_values: int = 31
    # of a new window: a list of keys, or keys of one length packed in an array (1,364 | 821; 5,653 | 2,145)
    sort_key_rows: int = 1024


SMALL = SmallSizes()
