"""Medians and spreads of the others: NaN is not heard and stays NaN, 0.0 is a value, a rank alone has no peer."""

from statistics import median

import numpy as np
import pytest

from streams.robust import EXACT, MAD_SIGMA, known_or_zero, middle, nanmedian, peers_median, peers_spread

NAN = float("nan")


def others(values, at):
    """The values that are known, without the one at ``at``."""
    return [value for place, value in enumerate(values) if place != at and value == value]


def mad(values):
    return median(abs(value - median(values)) for value in values)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 33])
@pytest.mark.parametrize("blanks", [0, 1])
def test_the_peers_median_is_that_of_all_others(count, blanks):
    """By its definition, in any order, with ties and with ranks that were not heard."""
    values = np.random.default_rng(count).integers(0, 4, count + blanks).astype(float)
    values[:blanks] = NAN
    expected = [median(others(values, at)) if value == value else NAN for at, value in enumerate(values)]
    assert peers_median(values).tolist() == pytest.approx(expected, nan_ok=True)
    rows = np.stack([values, values[::-1]])
    assert np.array_equal(peers_median(rows)[1], peers_median(values)[::-1], equal_nan=True)


@pytest.mark.parametrize(
    "values", [[], [NAN], [2.0, NAN], [3.0, 1.0, 2.5], [0.1, 0.7, NAN, 0.2, -0.3], [np.inf, -np.inf], [1e308, 1.5e308]]
)
def test_the_middle_of_a_few_is_their_median(values):
    """To the last bit; 0 where nothing is known, or the two in the middle have no mean."""
    with np.errstate(invalid="ignore", over="ignore"):
        assert middle(values) == known_or_zero(nanmedian(np.array(values)))


@pytest.mark.parametrize("values", [[], [1.0], [NAN, 1.0], [NAN, NAN]])
def test_without_peers_there_is_no_median_and_no_spread(values):
    """Nobody, one rank, one rank that was heard."""
    assert np.isnan(peers_median(np.array(values))).all()
    assert peers_spread(np.array(values)).tolist() == [0.0] * len(values)


def test_zeros_are_values():
    """A phase that takes no time on most ranks has a median of no time."""
    assert peers_median(np.array([0.0, 0.0, 0.0, 1.0])).tolist() == [0.0] * 4
    assert nanmedian(np.array([0.0, 0.0, 5.0])) == 0.0


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("shape", [(1,), (6,), (5, 4), (4, 5, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_median_is_that_of_numpy(shape, kind):
    """Over every axis and over all, in either precision, whatever is not heard: the same numbers of the same kind."""
    values = np.random.default_rng(len(shape)).normal(1.0, 0.1, shape).astype(kind)
    for blanks in (0, values.size // 2, values.size):
        values.flat[:blanks] = NAN
        for axis in (None, *range(len(shape))):
            seen, expected = nanmedian(values, axis=axis), np.nanmedian(values, axis=axis)
            assert np.asarray(seen).dtype == kind
            assert np.allclose(seen, expected, rtol=1e-6, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("count", [3, 4, 9, EXACT])
def test_the_spread_of_small_cohorts_leaves_the_judged_rank_out(count):
    """By its definition; an absurd rank widens everybody's spread but its own."""
    values = np.random.default_rng(count).normal(1.0, 0.1, count)
    values[-1] = 1e9
    expected = [MAD_SIGMA * mad(others(values, at)) for at in range(count)]
    assert peers_spread(values).tolist() == pytest.approx(expected)


def test_the_spread_of_large_cohorts_is_that_of_all():
    """One more or less does not move it; who was not heard has none."""
    values = np.random.default_rng(0).normal(1.0, 0.1, EXACT + 2)
    values[0] = NAN
    spread = peers_spread(values)
    assert spread[0] == 0.0
    assert spread[1:] == pytest.approx(MAD_SIGMA * mad(values[1:].tolist()))


def test_ranks_that_are_all_alike_have_no_spread():
    """0.0, and no error."""
    assert peers_spread(np.ones(5)).tolist() == [0.0] * 5


def test_what_is_asked_is_not_changed():
    """Arrays are shared by many."""
    values = np.array([3.0, NAN, 1.0, 2.0])
    before = values.copy()
    peers_median(values), peers_spread(values), nanmedian(values)
    assert np.array_equal(values, before, equal_nan=True)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("blank", [False, True])
def test_the_median_of_what_is_known_is_numpys(axis, blank):
    """Along any axis."""
    values = np.random.default_rng(1).random((4, 5))
    values[1, 2] = NAN if blank else 0.0
    assert nanmedian(values, axis=axis) == pytest.approx(np.nanmedian(values, axis=axis))


def test_where_nothing_is_known_the_median_is_nan_and_silent():
    """A column without a number warns nobody, nor does an empty array."""
    values = np.array([[NAN, 1.0], [NAN, 3.0]])
    assert nanmedian(values, axis=0).tolist() == pytest.approx([NAN, 2.0], nan_ok=True)
    assert np.isnan(nanmedian(np.array([NAN])))
    assert np.isnan(nanmedian(np.array([])))
