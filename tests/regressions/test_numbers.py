"""Numbers of any size: the smallest cases that once went wrong."""

from __future__ import annotations

from decimal import Decimal

from headwater.model.keys import encode_value


def test_numbers_below_every_double_have_keys_in_their_order() -> None:
    """They had none at all: the distance to the double beneath them, minus infinity, is no number."""
    numbers = [Decimal(text) for text in ("-Infinity", "-21E+400", "-2E+401", "-2E+400", "-1E+400", "-1E+308", "0")]
    keys = [encode_value(number) for number in numbers]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
