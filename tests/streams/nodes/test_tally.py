"""One GPU's samples of one look, added up."""

import pytest

from paceline.gpu import throttle
from streams.nodes.tally import Tally

THERMAL, BRAKE, CAP = (reason.bit for reason in (throttle.HARDWARE_THERMAL, throttle.POWER_BRAKE, throttle.POWER_CAP))


@pytest.fixture
def tally_of(make_row):
    """Adds samples up."""

    def added(*samples):
        tally = Tally()
        for number, values in enumerate(samples):
            tally.add(make_row(float(number), **values))
        return tally

    return added


def test_a_mean_is_of_what_was_measured(tally_of):
    """Samples without the number do not count."""
    tally = tally_of({"power_w": 100.0}, {}, {"power_w": 200.0})
    assert (tally.rows, tally.counts["power_w"], tally.mean("power_w")) == (3, 2, 150.0)


def test_what_was_never_measured_has_no_mean():
    """Not even 0.0: an empty look, and one of blanks."""
    assert Tally().mean("power_w") is None
    assert Tally().rows == 0


def test_zero_is_a_value(tally_of):
    """It is the mean, the most and the last."""
    tally = tally_of({"utilization_ratio": 0.0})
    assert tally.mean("utilization_ratio") == 0.0
    assert (tally.most, tally.last) == ({"utilization_ratio": 0.0}, {"utilization_ratio": 0.0})


def test_the_most_does_not_depend_on_the_order_and_the_last_does(tally_of):
    """Peaks are kept; the newest is what came last."""
    up, down = tally_of({"power_w": 1.0}, {"power_w": 3.0}), tally_of({"power_w": 3.0}, {"power_w": 1.0})
    assert up.most == down.most == {"power_w": 3.0}
    assert (up.last["power_w"], down.last["power_w"]) == (3.0, 1.0)


def test_reasons_that_are_a_fault_are_counted_one_by_one(tally_of):
    """A sample with two is one slowed sample; the power cap and a mask of 0 are none."""
    masks = (THERMAL, THERMAL | BRAKE, CAP, 0)
    tally = tally_of(*({"throttle_reasons": float(mask)} for mask in masks))
    assert (tally.slowed, tally.slowdowns) == (2, {THERMAL: 2, BRAKE: 1})
    assert tally.counts["throttle_reasons"] == 4


def test_bits_that_nobody_knows_slow_nothing(tally_of):
    """The largest mask that is believed, without the bits of a fault."""
    assert tally_of({"throttle_reasons": float(2**52)}).slowed == 0


def test_looks_share_nothing(tally_of):
    """A new look begins with nothing."""
    tally_of({"power_w": 1.0})
    assert Tally().sums == {}
