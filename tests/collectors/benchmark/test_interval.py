import random

import pytest

from collectors.benchmark.interval import LEAST_SAMPLES, median_interval


@pytest.mark.long
@pytest.mark.parametrize("count", [6, 7, 10, 20, 50])
def test_the_interval_holds_the_median_in_95_of_100_cases(count):
    """Whatever the distribution: here one with a long tail, whose median is known."""
    draw = random.Random(count)
    held = 0
    for _ in range(4000):
        found = median_interval([draw.expovariate(1.0) for _ in range(count)])
        held += found.low <= 0.6931471805599453 <= found.high

    assert held / 4000 >= 0.94


def test_order_of_samples_means_nothing():
    """Samples may come in any order, and equal ones are samples, too."""
    samples = [3.0, 1.0, 2.0, 2.0, 9.0, 2.0, 5.0]

    assert median_interval(samples) == median_interval(sorted(samples))
    assert median_interval([4.0] * 6) == (4.0, 4.0, 4.0)


def test_too_few_samples_are_no_interval():
    """Five samples cannot say it in 95 of 100 cases."""
    with pytest.raises(ValueError, match="5 samples"):
        median_interval([1.0] * (LEAST_SAMPLES - 1))
