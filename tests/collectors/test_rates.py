import pytest

from collectors.rates import Rate


def test_rate_is_growth_over_time():
    """A counter's rate is its growth over the seconds between two readings."""
    rate = Rate()
    rate.update(100, 10.0)

    assert rate.update(400, 12.0) == 150.0


@pytest.mark.parametrize(
    ("first", "second"),
    [((100, 1.0), (50, 2.0)), ((100, 1.0), (200, 1.0)), ((None, 1.0), (200, 2.0)), ((100, 1.0), (None, 2.0))],
    ids=["reset or wrapped", "no time passed", "no reading before", "no reading now"],
)
def test_an_unknown_interval_has_no_rate(first, second):
    """Where nothing is known of the interval the rate is None, not 0."""
    rate = Rate()
    rate.update(*first)

    assert rate.update(*second) is None


def test_a_counter_at_rest_has_the_rate_zero():
    """A counter that did not move is a measured 0."""
    rate = Rate()
    rate.update(0, 1.0)

    assert rate.update(0, 2.0) == 0.0
