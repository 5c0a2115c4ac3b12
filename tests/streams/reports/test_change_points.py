"""Where a run changed for good: found where it is, and seldom where it is not."""

import numpy as np
import pytest

from streams.reports.change_points import changes


def test_a_change_is_found_where_it_is():
    """Within some values of it, by its size."""
    dice = np.random.default_rng(1)
    values = np.r_[dice.normal(1.0, 0.03, 120), dice.normal(1.1, 0.03, 80)]
    (one,) = changes(values, 0.03)
    assert abs(one.at - 120) <= 5
    assert one.ratio == pytest.approx(0.1, abs=0.02)


def test_steady_runs_have_none():
    """Of 50 steady ones at most three have, of whatever size."""
    dice = np.random.default_rng(2)
    assert sum(bool(changes(dice.normal(1.0, 0.05, 150), 0.0)) for _ in range(50)) <= 3


def test_a_single_long_step_is_no_change():
    """A checkpoint, once."""
    values = np.ones(100)
    values[50] = 20.0
    assert changes(values, 0.03) == []


def test_short_runs_have_none():
    """Six values on either side, at least."""
    assert changes(np.r_[np.ones(5), np.full(5, 2.0)], 0.03) == []


def test_a_run_that_got_slower_and_recovered_has_two_changes():
    """There and back, with noise."""
    dice = np.random.default_rng(3)
    values = np.repeat([1.0, 1.2, 1.0], 60) + dice.normal(0, 0.02, 180)
    assert [round(one.at, -1) for one in changes(values, 0.03)] == [60, 120]
