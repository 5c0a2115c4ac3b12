"""Rows x time: bounded, whatever the length, and nothing told is not 0."""

import numpy as np
import pytest

from streams.reports.time_grid import COLUMNS, TimeGrid


@pytest.mark.long
def test_a_month_of_seconds_stays_in_its_columns():
    """Columns get longer, and every value still counts with its weight."""
    grid = TimeGrid(60.0)
    for minute in range(30 * 24 * 60):
        grid.add(0, minute * 60.0, value=2.0, weight=1.0)
    means = grid.means()
    assert means.shape[1] <= COLUMNS
    assert np.allclose(means, 2.0)
    assert grid.column_s * COLUMNS >= 30 * 86_400


def test_what_was_not_told_is_not_zero():
    """A gap is NaN."""
    grid = TimeGrid(1.0)
    grid.add(0, 0.0, 1.0, 1.0)
    grid.add(0, 2.0, 1.0, 1.0)
    assert np.isnan(grid.means()[0, 1])


def test_what_comes_before_the_start_counts_in_the_first_column():
    """A clock set back takes nothing with it."""
    grid = TimeGrid(1.0)
    grid.add(0, 100.0, 1.0, 1.0)
    grid.add(1, 50.0, 3.0, 1.0)
    assert grid.means()[:, 0].tolist() == [1.0, 3.0]


def test_a_year_2500_is_one_jump_and_no_memory():
    """A clock far ahead makes columns long, not many."""
    grid = TimeGrid(1.0)
    grid.add(0, 0.0, 1.0, 1.0)
    grid.add(0, 1.7e10, 1.0, 1.0)
    assert grid.means().shape[1] <= COLUMNS
