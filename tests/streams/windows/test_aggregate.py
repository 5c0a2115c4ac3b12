"""What steps amount to: the same numbers whether all is known or not."""

import numpy as np
import pytest

from paceline.events import OP_INDEX, OPS, JobWindow, RankWindow
from streams.ingest.step_rows import TOTAL
from streams.ingest.steps import NEVER, Step
from streams.windows.aggregate import COLUMNS, median, merge, part, windows

COMMON = {"cluster": "c", "job": "job", "attempt": 0, "start_s": 100.0, "length_s": 1.0}
FORWARD = OP_INDEX["forward"]


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


def steps_of(forward_s, lasted_s=2.0):
    """Steps by the forward of each rank in each; NaN is a rank that did not close the step."""
    made = []
    for number, row in enumerate(forward_s):
        row = np.array(row, dtype=float)
        seconds = np.zeros((len(OPS), row.size))
        seconds[FORWARD] = row
        seconds[TOTAL] = lasted_s + number + np.arange(row.size)
        seconds[:, np.isnan(row)] = np.nan
        made.append(Step(number, seconds, 100.0 + number + 0.0 * row))
    return made


def told_from(ranks, first=0, told=range(10**9)):
    """Ranks that report a forward from step ``first`` on."""
    made = np.full((len(OPS), ranks), NEVER)
    made[FORWARD, [rank for rank in range(ranks) if rank in told]] = first
    return made


def windows_of(steps, first_told=None, nodes=None):
    ranks = steps[-1].starts_s.size
    nodes = dict.fromkeys(range(ranks), "node-0") if nodes is None else nodes
    return windows(part(steps, nodes), told_from(ranks) if first_told is None else first_told, nodes, COMMON)


FULL = [[0.1 * (1 + rank) + 0.01 * step for rank in range(3)] for step in range(5)]


def test_a_rank_that_is_placed_and_silent_changes_nothing_of_the_others():
    """Then not all cells are known: sums, medians and phases are those of the ranks that reported."""
    assert windows_of(steps_of([[*row, np.nan] for row in FULL])) == windows_of(steps_of(FULL))


def test_rows_of_a_rank_that_no_node_speaks_for_are_no_rank():
    nodes = dict.fromkeys(range(3), "node-0")
    assert windows_of(steps_of([[*row, 9.0] for row in FULL]), nodes=nodes) == windows_of(steps_of(FULL))


def test_a_step_that_one_rank_has_not_closed_counts_for_the_others():
    """Its phases do not count either."""
    *ranks, job = windows_of(steps_of([*FULL[:-1], [*FULL[-1][:2], np.nan]]))
    assert [one.steps for one in ranks] == [5, 5, 4]
    assert (job.steps, job.ranks) == (5, 3)
    assert [one.phase_mean_s["forward"] for one in ranks] == pytest.approx([0.12, 0.22, 0.315])
    assert job.phase_median_s == pytest.approx({"forward": 0.22})


def test_a_phase_that_one_rank_alone_reports_is_of_that_rank():
    """Others do not count as zero."""
    *ranks, job = windows_of(steps_of([[0.0, 0.5, 0.0]] * 4), told_from(3, told=[1]))
    assert [one.phase_mean_s for one in ranks] == [{}, {"forward": 0.5}, {}]
    assert job.phase_median_s == {"forward": 0.5}
    assert "forward" in COLUMNS


def test_a_phase_that_is_reported_later_is_not_there_yet():
    """Messages may be ahead of the window: it says the same in whatever batches they come."""
    *ranks, _ = windows_of(steps_of(FULL), told_from(3, first=5))
    assert [one.phase_mean_s for one in ranks] == [{}, {}, {}]


def test_two_parts_are_the_whole_though_ranks_have_joined_in_between():
    few, more = steps_of(FULL), [step._replace(step=step.step + 5) for step in steps_of([[*row, 0.7] for row in FULL])]
    nodes = dict.fromkeys(range(4), "node-0")
    both, whole = merge(part(few, nodes), part(more, nodes)), part([*few, *more], nodes)
    for name in ("count", "step_sum_s", "phase_sum_s", "per_step_s"):
        np.testing.assert_allclose(getattr(both, name), getattr(whole, name))
    assert (both.first_step, both.last_step, both.left_out) == (whole.first_step, whole.last_step, whole.left_out)


@pytest.mark.parametrize("ranks", [100, 101, 140])
def test_of_more_ranks_than_have_windows_the_worst_have(ranks):
    """Each by its own rank, ascending."""
    *told, job = windows_of(steps_of([[0.1] * ranks] * 2))
    # The higher the rank, the longer its steps.
    assert [one.rank for one in told] == list(range(ranks - 100, ranks))
    assert all(isinstance(one, RankWindow) for one in told)
    assert isinstance(job, JobWindow)
    assert (job.worst_rank, job.ranks) == (ranks - 1, ranks)
