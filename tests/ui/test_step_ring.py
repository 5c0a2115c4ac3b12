import numpy as np
import pytest

from ui.step_ring import RANKS_MAX, StepRing


def put(ring, rank, step, value):
    """Seconds of whole steps; nothing is known of their communication."""
    layers = [value, *([np.nan] * len(value) for _ in ring.layers[1:])]
    matrix(ring, rank, step, *layers)


@pytest.fixture
def ring():
    return StepRing(("step", "communication"), steps=64)


def test_what_was_not_measured_is_nan_and_zero_is_a_value(ring):
    """A measured 0 differs from nothing."""
    put(ring, [0], [3], [0.0])
    _, values, _ = ring.last(10)
    assert values[0, 0, 0] == 0.0
    assert np.isnan(values[1, 0, 0])


def test_old_steps_are_forgotten(ring):
    """Only the newest steps are kept, in order."""
    put(ring, [0] * 200, range(200), np.arange(200))
    steps, values, _ = ring.last(1000)
    assert steps.tolist() == list(range(136, 200))
    assert values[0, 0].tolist() == list(range(136, 200))


def test_a_gap_in_the_steps_stays_empty(ring):
    """Steps nobody spoke of do not show what stood in their place before."""
    put(ring, [0] * 64, range(64), np.ones(64))
    put(ring, [0], [70], [2.0])
    _, values, _ = ring.last(7)
    assert np.isnan(values[0, 0, :6]).all()


def test_a_leap_clears_everything(ring):
    """A job that resumes far ahead leaves nothing of before."""
    put(ring, [0] * 64, range(64), np.ones(64))
    put(ring, [0], [10**9], [2.0])
    assert np.isfinite(ring.last(64)[1]).sum() == 1


@pytest.mark.parametrize(
    ("rank", "step", "value"),
    [(-1, 0, 1.0), (RANKS_MAX, 0, 1.0), (0, -1, 1.0), (0, 0, -1.0), (0, 0, float("inf"))],
)
def test_impossible_rows_are_refused_and_counted(ring, rank, step, value):
    """Bad rows are counted and never stored."""
    put(ring, [rank], [step], [value])
    assert (ring.refused, ring.ranks) == (1, 0)


def matrix(ring, rank, step, *layers):
    ring.put(np.array(rank), np.array(step), np.array(layers, float))


def test_wide_rows_stand_as_they_were_told(ring):
    """A row a rank and step fills all layers at once; what was not measured is NaN; told again, it is not doubled."""
    for _ in range(2):
        matrix(ring, [0, 1], [3, 3], [1.0, 2.0], [0.0, np.nan])
    steps, values, _ = ring.last(10)
    assert steps.tolist() == [3]
    assert values[:, :, 0].tolist()[0] == [1.0, 2.0]
    assert values[1, 0, 0] == 0.0
    assert np.isnan(values[1, 1, 0])
    assert ring.refused == 0


@pytest.mark.parametrize(("rank", "step"), [(-1, 0), (RANKS_MAX, 0), (0, -1), (0, 2**53 + 1)])
def test_wide_rows_of_no_place_are_refused_and_counted(ring, rank, step):
    """All that was measured of them."""
    matrix(ring, [rank], [step], [1.0], [np.nan])
    assert (ring.refused, ring.ranks) == (1, 0)


@pytest.mark.parametrize("value", [-1.0, np.inf, 1e300])
def test_impossible_seconds_cost_their_cell_alone(ring, value):
    """The rest of the row is stored."""
    matrix(ring, [0], [3], [1.0], [value])
    _, values, _ = ring.last(1)
    assert values[0, 0, 0] == 1.0
    assert np.isnan(values[1, 0, 0])
    assert ring.refused == 1


def test_late_wide_rows_are_refused(ring):
    """A row for a step that is gone is counted."""
    matrix(ring, [0, 0], [0, 500], [1.0, 1.0], [1.0, 1.0])
    assert (ring.refused, ring.last(64)[0].tolist()) == (2, list(range(437, 501)))


def test_late_rows_are_refused(ring):
    """A row for a step that is gone is counted."""
    put(ring, [0, 0], [0, 500], [1.0, 1.0])
    assert ring.refused == 1


def test_more_ranks_keep_the_newest_steps():
    """The number of cells is bounded: more ranks, fewer steps, and the newest survive."""
    ring = StepRing(("step",), steps=4096, cells=64_000)
    put(ring, [0] * 100, range(100), np.arange(100))
    put(ring, [999], [99], [7.0])
    steps, values, _ = ring.last(4096)
    assert values.size <= 64_000
    assert steps[-1] == 99
    assert values[0, 0, -1] == 99.0
    assert values[0, 999, -1] == 7.0


def test_a_step_begins_when_its_last_rank_does(ring):
    """The latest start counts."""
    put(ring, [0, 1], [5, 5], [1.0, 1.0])
    ring.mark(np.array([5, 5]), np.array([10.0, 11.0]))
    assert ring.last(1)[2].tolist() == [11.0]
