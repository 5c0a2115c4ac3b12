"""What steps amount to: the same numbers whether all is known or not."""

import numpy as np
import pytest

from paceline.events import JobWindow, RankWindow
from streams.windows.aggregate import median, part, windows
from streams.windows.collective_tables import CollectiveTables
from streams.windows.open_steps import COLUMNS, OpenSteps
from tests.streams.windows.step_cells import rows_of

COMMON = {"cluster": "c", "job": "job", "attempt": 0, "start_s": 100.0, "length_s": 1.0}


@pytest.mark.parametrize("unknown", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_median_is_that_of_what_was_measured(unknown, axis):
    """NaN of what nobody measured."""
    rng = np.random.default_rng(7)
    for shape in [(1, 1), (3, 4), (4, 3), (10, 8)]:
        values = rng.random(shape)
        values[rng.random(shape) < unknown] = np.nan
        known = [one[~np.isnan(one)] for one in (values if axis else values.T)]
        expected = [np.median(one) if one.size else np.nan for one in known]
        np.testing.assert_array_equal(median(values, axis), expected)


def windows_of(cells, ranks=3):
    opened = OpenSteps()
    opened.place(range(ranks), "node-0")
    opened.update(rows_of(cells))
    return windows(part(opened, opened.used, CollectiveTables()), opened, COMMON)


CELLS = [(rank, step, 0.1 * (1 + rank) + 0.01 * step, True) for step in range(5) for rank in range(3)]


def test_a_rank_that_is_placed_and_silent_changes_nothing_of_the_others():
    """Then not all cells are known: sums, medians and phases are those of the ranks that were heard."""
    assert windows_of(CELLS, ranks=4) == windows_of(CELLS)


def test_a_step_that_one_rank_has_not_closed_counts_for_the_others():
    """Its phases do not count either."""
    *ranks, job = windows_of([*CELLS[:-1], (2, 4, 9.0, False)])
    assert [one.steps for one in ranks] == [5, 5, 4]
    assert (job.steps, job.ranks) == (5, 3)
    assert [one.phase_mean_s["forward"] for one in ranks] == pytest.approx([0.12, 0.22, 0.315])
    assert job.phase_median_s == pytest.approx({"forward": 0.22})


def test_a_phase_that_one_rank_alone_tells_of_is_of_that_rank():
    """Others do not count as zero."""
    cells = [(rank, step, 0.5 if rank == 1 else None, True) for step in range(4) for rank in range(3)]
    *ranks, job = windows_of(cells)
    assert [one.phase_mean_s for one in ranks] == [{}, {"forward": 0.5}, {}]
    assert job.phase_median_s == {"forward": 0.5}
    assert "forward" in COLUMNS


@pytest.mark.parametrize("ranks", [100, 101, 140])
def test_of_more_ranks_than_have_windows_the_worst_have(ranks):
    """Each by its own rank, ascending; of equal ones the lowest."""
    cells = [(rank, step, 0.1, True) for step in range(2) for rank in range(ranks)]
    *told, job = windows_of(cells, ranks)
    # The rows' order gives every rank and step a length of its own: the later, the longer.
    assert [one.rank for one in told] == list(range(ranks - 100, ranks))
    assert all(isinstance(one, RankWindow) for one in told)
    assert isinstance(job, JobWindow)
    assert (job.worst_rank, job.ranks) == (ranks - 1, ranks)
