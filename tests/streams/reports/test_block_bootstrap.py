"""Intervals of a difference: how often they are wrong, and that they see what is there."""

import numpy as np
import pytest

from streams.reports.block_bootstrap import LEAST_VALUES, Series, block_length, difference


def alike(alike_by, size, dice, mean=1.0, noise=0.03):
    """A series whose neighbours are alike, around ``mean``."""
    drawn = dice.normal(0, 1, size + 50)
    for at in range(1, size + 50):
        drawn[at] += alike_by * drawn[at - 1]
    return Series(mean * (1 + noise * drawn[50:]), np.ones(size))


@pytest.mark.long
@pytest.mark.parametrize("alike_by", [0.0, 0.6])
def test_equal_runs_are_seldom_called_different(alike_by):
    """Of 100 equal pairs at most 5 are surely slower, also where neighbours are alike. Seeded: no chance in it."""
    dice = np.random.default_rng(1)
    pairs = [(alike(alike_by, 80, dice), alike(alike_by, 80, dice)) for _ in range(100)]
    assert sum(difference(*pair).low > 0 for pair in pairs) <= 5


def test_a_tenth_more_is_seen():
    """In all of 20 pairs, and the interval holds it."""
    dice = np.random.default_rng(2)
    found = [difference(alike(0.5, 80, dice), alike(0.5, 80, dice, mean=1.1)) for _ in range(20)]
    assert all(one.low > 0 for one in found)
    assert sum(one.low <= 0.1 <= one.high for one in found) >= 17


def test_too_few_values_have_no_interval():
    """It says how many it takes."""
    few = Series(np.ones(LEAST_VALUES - 1), np.ones(LEAST_VALUES - 1))
    with pytest.raises(ValueError, match=f"{LEAST_VALUES} have"):
        difference(few, few)


def test_the_same_seed_gives_the_same_interval():
    """And another gives nearly the same."""
    dice = np.random.default_rng(3)
    pair = alike(0.3, 60, dice), alike(0.3, 60, dice)
    assert difference(*pair, seed=4) == difference(*pair, seed=4)
    assert difference(*pair, seed=4).low == pytest.approx(difference(*pair, seed=5).low, abs=0.005)


def test_constant_runs_differ_by_what_they_differ():
    """No spread, no interval, and no division by it."""
    found = difference(Series(np.full(30, 2.0), np.ones(30)), Series(np.full(30, 3.0), np.ones(30)))
    assert found.low == pytest.approx(0.5)


def test_weights_count():
    """A stretch of many steps counts as many."""
    values, weights = np.r_[np.ones(30), np.full(30, 3.0)], np.r_[np.ones(30), np.zeros(30) + 1e-9]
    assert difference(Series(values, weights), Series(np.ones(60), np.ones(60))).ratio == pytest.approx(0.0, abs=1e-6)


def test_long_runs_are_joined_first():
    """A hundred thousand values take no more memory than six hundred."""
    dice = np.random.default_rng(5)
    long = Series(dice.normal(1, 0.1, 100_000), np.ones(100_000))
    assert difference(long, long).ratio == 0.0


def test_blocks_are_longer_where_neighbours_are_alike():
    """And 1 where they are not."""
    dice = np.random.default_rng(6)
    assert block_length(alike(0.9, 400, dice).values) > block_length(alike(0.3, 400, dice).values) >= 1
