"""Pairs of measurements: the interval holds the true median as often as it says."""

import functools
import random

import pytest

from paceline.paired import LEAST_PAIRS, median_interval


def test_the_interval_is_that_of_the_sign_test() -> None:
    """The textbook's ranks: lowest and highest of 6, the 6th and 15th of 20, the 40th and 61st of 100."""
    for n, low, high in ((6, 1, 6), (20, 6, 15), (100, 40, 61)):
        assert median_interval([float(value) for value in range(n, 0, -1)])[1:] == (low, high)


def test_too_few_have_none() -> None:
    with pytest.raises(ValueError, match="5 differences have no interval"):
        median_interval([1.0] * (LEAST_PAIRS - 1))


@pytest.mark.long
@pytest.mark.parametrize("pairs", [6, 7, 23, 80])
def test_it_holds_the_true_median_in_95_of_100_cases(pairs: int) -> None:
    """Also where single differences are far off, as when a checkpoint falls into a window."""
    chance = random.Random(pairs)
    held = 0
    for _ in range(2000):
        low, high = median_interval([chance.gauss(1.0, 1.0) / max(chance.random(), 0.05) for _ in range(pairs)])[1:]
        held += low <= _true_median() <= high
    assert held >= 0.94 * 2000


@functools.cache
def _true_median() -> float:
    """Of so many that chance has no part in it."""
    chance = random.Random(0)
    values = sorted(chance.gauss(1.0, 1.0) / max(chance.random(), 0.05) for _ in range(200_001))
    return values[100_000]
