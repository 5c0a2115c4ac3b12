"""Repeats are dropped and gaps counted, by producer."""

import pytest

from paceline.sequences import Sequences


def test_a_number_that_came_before_is_a_repeat():
    """The same again, and an older one."""
    sequences = Sequences()
    assert [sequences.admit("p", number) for number in (1, 2, 2, 1, 3)] == [True, True, False, False, True]
    assert (sequences.repeated, sequences.missing) == (2, 0)


def test_a_jump_is_missing_messages():
    """A producer's first number sets where its counting starts."""
    sequences = Sequences()
    for producer, number in (("p", 100), ("q", 0), ("p", 104), ("q", 1)):
        assert sequences.admit(producer, number)
    assert sequences.missing == 3


def test_what_was_passed_over_is_no_gap():
    """The next number of each producer starts anew; the gaps before stay counted."""
    sequences = Sequences()
    for number in (1, 3):
        sequences.admit("p", number)
    sequences.forget_gaps()
    sequences.admit("p", 50)
    assert sequences.missing == 1


def test_producers_are_bounded_and_the_longest_silent_is_forgotten():
    """Names come from outside; a new one is always heard."""
    sequences = Sequences(most=2)
    for producer in ("a", "b", "a", "c"):
        sequences.admit(producer, len(sequences.last) + sequences.repeated + 10)
    assert list(sequences.last) == ["a", "c"]


def test_restored_it_goes_on():
    """A snapshot holds the numbers and the gaps."""
    sequences = Sequences()
    for number in (1, 4):
        sequences.admit("p", number)
    restored = Sequences()
    restored.load(sequences.state())
    assert not restored.admit("p", 4)
    assert restored.admit("p", 6)
    assert restored.missing == 3


def test_a_state_with_more_producers_than_there_is_room_for_keeps_the_newest():
    sequences, restored = Sequences(), Sequences(most=2)
    for producer in ("a", "b", "c"):
        sequences.admit(producer, 1)
    restored.load(sequences.state())
    restored.admit("d", 1)
    assert list(restored.last) == ["c", "d"]


@pytest.mark.parametrize("odd", [{"last": [1]}, {"last": {"a": "b"}}, {"missing": None}])
def test_a_state_of_other_types_is_refused(odd):
    with pytest.raises(ValueError, match="numbers of producers"):
        Sequences().load(Sequences().state() | odd)
