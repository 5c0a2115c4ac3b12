import math

import numpy as np

from ui.stretches import in_stretch, moment_of, newest, nothing_between

NAN = math.nan


def test_columns_between_two_times_are_kept_both_ends_included():
    """One whose time is not known goes with the one before it."""
    at_s = np.array([NAN, 10.0, NAN, 20.0, 30.0])
    assert in_stretch(at_s, (10.0, 20.0)).tolist() == [True, True, True, True, False]
    assert in_stretch(at_s, (-math.inf, math.inf)).all()
    assert newest(at_s) == 30.0


def test_where_no_time_is_known_everything_is_kept():
    """Steps without a time are shown rather than hidden."""
    nowhere = np.full(3, NAN)
    assert in_stretch(nowhere, (10.0, 20.0)).all()
    assert in_stretch(np.empty(0), (10.0, 20.0)).size == 0
    assert newest(nowhere) is None
    assert moment_of(np.arange(3), nowhere, 1.0) is None


def test_a_place_between_two_steps_is_a_time_between_theirs():
    """Boxes end anywhere; beyond the steps the nearest counts, and what is no number has no time."""
    steps, at_s = np.array([5, 6]), np.array([100.0, 102.0])
    assert [moment_of(steps, at_s, x) for x in (5.5, 4, 99)] == [101.0, 100.0, 102.0]
    assert moment_of(steps, at_s, "5") is None


def test_what_is_held_is_said_where_nothing_is_in_the_stretch():
    """With its dates, in UTC."""
    assert "1970-01-01 00:00:10 to 1970-01-01 00:00:20 UTC" in nothing_between(np.array([10.0, NAN, 20.0]))
