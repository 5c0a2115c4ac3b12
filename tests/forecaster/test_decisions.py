"""Small decisions: grid, back-test, ensemble, chance of being above rest, when a level is reached."""

from itertools import pairwise

import numpy as np
import pytest

from forecaster import backtest, ensemble, publisher, scores, zero_inflation
from forecaster.context import ForecastContext
from forecaster.exceedance import above, exceedance
from forecaster.grid import GridError, gridded
from forecaster.models.naive import naive, seasonal_naive
from forecaster.series import Series

LEVELS = np.arange(1, 10) / 10


def test_irregular_times_take_the_nearest_place() -> None:
    """Jitter moves a sample by less than half an interval."""
    grid, interval_s = gridded(np.arange(5.0), np.array([0.0, 9.8, 20.3, 29.9, 40.1]), 10.0)
    assert interval_s == 10.0
    assert grid.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("times", [[0.0, 0.0], [10.0, 0.0], [0.0, 1.0, 2.0, 1e12]])
def test_times_that_make_no_grid_are_refused(times: list[float]) -> None:
    """They do not ascend, or the grid would be endless."""
    with pytest.raises(GridError):
        gridded(np.ones(len(times)), np.array(times))


def test_one_time_has_no_interval() -> None:
    """Unless it is given."""
    with pytest.raises(GridError, match="interval_s"):
        gridded(np.ones(1), np.zeros(1))
    assert gridded(np.ones(1), np.zeros(1), 5.0)[0].tolist() == [1.0]


def test_the_median_s_pinball_loss_is_the_absolute_error() -> None:
    """The scores are in the series' own unit."""
    assert scores.pinball(np.array([3.0]), np.array([[1.0]]), np.array([0.5])).item() == 2.0


@pytest.mark.parametrize("samples", [24, 26, 27, 40, 100, 1000])
@pytest.mark.parametrize("horizon", [1, 60, 5000])
def test_moments_leave_history_before_and_values_after(samples: int, horizon: int) -> None:
    """No back-test begins before the least history or ends after the newest sample."""
    ends, steps = backtest.moments(samples, horizon)
    assert steps <= horizon
    assert all(backtest.LEAST <= end <= samples - steps for end in ends)


def test_a_back_test_scores_who_could_take_part() -> None:
    """A model that is unsuited has no loss; the naive one has."""
    test = backtest.run(Series.of(np.arange(100.0), 60.0), 5, LEVELS, {"naive": naive, "seasonal": seasonal_naive})
    assert set(test.losses) == {"naive"}
    assert test.moments == backtest.MOMENTS


def test_weights_add_up_and_follow_the_losses() -> None:
    """The better member speaks louder, and all of them together once."""
    shares = ensemble.weights(["a", "b"], {"a": 1.0, "b": 2.0})
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["a"] > 4 * shares["b"]


def test_where_a_series_rests_what_other_series_said_counts_no_more_than_its_own_samples() -> None:
    """Elsewhere a pretrained model that did as well as a quantile of the last samples speaks louder."""
    losses = {"pretrained": 1.0, "network": 1.0, "last_60": 1.0}
    shares = ensemble.weights(losses, losses)
    assert shares["pretrained"] > shares["network"] > 5 * shares["last_60"]
    assert list(ensemble.weights(losses, losses, rests=True).values()) == pytest.approx([1 / 3] * 3)


def test_who_was_not_tried_is_not_heard() -> None:
    """A member without a back-test has no share beside one that has; alone it is all there is."""
    assert ensemble.weights(["a", "network"], {"a": 1.0}) == {"a": 1.0}
    assert ensemble.weights(["a", "network"], {})["network"] > 0.9


def test_perfect_members_share_the_weight() -> None:
    """A loss of zero divides nothing."""
    shares = ensemble.weights(["a", "b", "c"], {"a": 0.0, "b": 0.0, "c": 1.0})
    assert shares["a"] == shares["b"]
    assert shares["c"] < 1e-6


@pytest.mark.parametrize("horizon", [1, 2, 12, 60, 288, 86_400])
@pytest.mark.parametrize("samples", [1, 23, 24, 26, 27, 40, 100, 499, 2880, 40_320])
def test_moments_are_apart_and_leave_room_for_what_came(samples: int, horizon: int) -> None:
    """Newest first, each once; before none is less than half of the history, after each all steps were seen."""
    ends, steps = backtest.moments(samples, horizon)
    assert 1 <= steps <= horizon
    assert len(ends) <= backtest.MOMENTS
    assert all(later - earlier >= max(1, 2 * steps // 3) for later, earlier in pairwise(ends))
    assert all(max(backtest.LEAST, samples // 2) <= end <= samples - steps for end in ends)


def test_narrow_intervals_are_widened() -> None:
    """Intervals that held too little in the back-test grow, by more where more is known; good ones stay."""
    rng = np.random.default_rng(0)
    actual = rng.standard_normal((4, 300))
    normal = np.array([-1.2816, -0.8416, -0.5244, -0.2533, 0.0, 0.2533, 0.5244, 0.8416, 1.2816])
    good = np.broadcast_to(normal, (4, 300, 9))
    test = backtest.Backtest(LEVELS, actual, {}, {}, {})
    assert ensemble.width(test, good) == pytest.approx(1.0, abs=0.08)
    assert ensemble.width(test, 0.6 * good) > 1.3
    assert 1.0 < ensemble.width(backtest.Backtest(LEVELS, actual[:, :20], {}, {}, {}), 0.6 * good[:, :20]) < 1.3


def test_a_busy_stretch_makes_busy_more_likely() -> None:
    """Where busy minutes come in stretches, now busy means soon busy."""
    state = np.repeat(np.tile([0.0, 1.0], 40), np.random.default_rng(1).integers(10, 40, 80))
    on = np.flatnonzero(state == 1.0)[-1] + 1
    past = Series.of(state[:on] * 80.0, 60.0)
    chance = zero_inflation.probability(ForecastContext(past, 5, LEVELS), 0.0)
    assert chance[0] > 0.8
    off = np.flatnonzero(state == 0.0)[-1] + 1
    assert zero_inflation.probability(ForecastContext(Series.of(state[:off] * 80.0, 60.0), 5, LEVELS), 0.0)[0] < 0.2


def test_only_what_often_rests_is_zero_inflated() -> None:
    """A constant, or a series that never rests, is not."""
    assert not zero_inflation.resting(np.full(300, 5.0), 5.0)
    assert not zero_inflation.resting(np.arange(1.0, 300.0), 0.0)
    assert zero_inflation.resting(np.tile([0.0, 1.0], 100), 0.0)


def test_when_memory_is_full() -> None:
    """Early is when one in ten futures is there, the median when half of them are; never is None."""
    levels = np.array([0.1, 0.5, 0.9])
    values = np.array([[10.0 + step, 20.0 + step, 30.0 + step] for step in range(20)])
    full = exceedance(values, levels, 35.0, 60.0)
    assert (full.early_s, full.median_s) == (6 * 60.0, 16 * 60.0)
    assert exceedance(values, levels, 1000.0, 60.0) == exceedance(values, levels, 1000.0, 1.0)
    assert exceedance(values, levels, 1000.0, 60.0).median_s is None


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_beyond_the_outermost_levels_nothing_is_certain_at_once(scale: float) -> None:
    """It falls on without a jump, alike on both sides, to nothing in the end; a level that all share is certain."""
    levels = np.array([0.1, 0.5, 0.9])
    row = np.array([-1.0, 0.0, 1.0]) * scale
    limits = np.linspace(-6.0, 6.0, 121) * scale
    shares = np.array([above(row, levels, float(limit)) for limit in limits])
    assert (np.diff(shares) <= 0.0).all()
    assert np.abs(np.diff(shares)).max() < 0.05
    assert shares + shares[::-1] == pytest.approx(np.ones(121), abs=1e-9)
    assert (shares[0] > 0.999, shares[-1] < 0.001) == (True, True)
    same = np.full(3, scale)
    assert [above(same, levels, limit * scale) for limit in (0.5, 1.0, 1.5)] == [1.0, 0.9, 0.0]


def test_a_level_that_members_reach_together_is_reached() -> None:
    """Their average is short of it by what rounding takes, values by what single precision does: memory is full."""
    size = 101e9 / 3.0
    average, held = float(np.nextafter(size, 0.0)), float(np.float32(size))
    assert held < average < size
    levels = np.array([0.1, 0.5, 0.9])
    values = (average, held, size, size - 1e5)
    almost, kept, whole, less = (exceedance(np.full((2, 3), one), levels, size, 60.0) for one in values)
    assert almost == kept == whole
    assert less.median_s is None


def test_futures_that_are_cut_at_a_limit_are_at_it() -> None:
    """A memory that most futures fill is probably full, though none is fuller; so are just as many GPUs free."""
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    assert above(np.array([7.0, 8.0, 8.0, 8.0, 8.0]), levels, 8.0) == pytest.approx(0.75)
    assert above(np.array([6.0, 7.0, 8.0, 8.0, 9.0]), levels, 8.0) == pytest.approx(0.5)
    assert above(np.array([6.0, 8.0, 8.0, 8.0, 9.0]), levels, 8.5) == pytest.approx(0.175)
    full = exceedance(np.minimum(np.arange(1.0, 9.0)[:, None] + np.arange(5.0), 8.0), levels, 8.0, 60.0)
    assert (full.early_s, full.median_s, full.probability) == (240.0, 360.0, pytest.approx(0.9))


def test_the_whole_is_forecast_before_its_parts() -> None:
    """Cluster, jobs, nodes, devices; what has not grown is left out."""
    series = [("c/device/n/g/x", 5.0), ("c/job/j/x", 5.0), ("c/cluster/x", 5.0), ("c/node/n/x", 5.0), ("own", 5.0)]
    expected = ["c/cluster/x", "own", "c/job/j/x", "c/node/n/x", "c/device/n/g/x"]
    assert publisher.order(series, {}) == expected
    assert publisher.order(series, {"c/cluster/x": 5.0, "own": 4.0}) == expected[1:]
