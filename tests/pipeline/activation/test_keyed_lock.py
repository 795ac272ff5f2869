"""One at a time for each name, several names beside each other."""

from __future__ import annotations

import threading

from headwater.pipeline.activation.keyed_lock import KeyedLock


def test_one_name_waits_for_itself_and_for_no_other() -> None:
    turns, took = KeyedLock(), threading.Event()

    def take() -> None:
        with turns.of("a"):
            took.set()

    with turns.of("a"):
        second = threading.Thread(target=take)
        second.start()
        with turns.of("b"):
            assert not took.is_set()
    second.join(60)
    assert took.is_set()


def test_the_log_is_needed_from_where_the_first_reads() -> None:
    turns = KeyedLock()
    assert turns.floor is None
    with turns.of("a"), turns.of("b"):
        assert turns.floor is None
        turns.reads("a", 7)
        turns.reads("b", 5)
        assert turns.floor == 5
    assert turns.floor is None


def test_a_turn_that_fails_is_over() -> None:
    turns = KeyedLock()
    try:
        with turns.of("a"):
            raise ValueError
    except ValueError:
        with turns.of("a"), turns.nobody() as quiet:
            assert not quiet
    with turns.nobody() as quiet:
        assert quiet
