"""Messages go out as far apart as they were, so many times faster."""

import argparse

import pytest

from paceline.pace import Pace, speed


def test_speed_is_a_number_or_max():
    """``max`` is as fast as possible."""
    assert [speed(raw) for raw in ("2", "0.5", "0", "max")] == [2.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("raw", ["-1", "inf", "nan", "fast", ""])
def test_what_is_no_speed(raw):
    """It is refused, and quoted."""
    with pytest.raises(argparse.ArgumentTypeError, match=f"^{raw}: a number of 0 or more, or max"):
        speed(raw)


def test_messages_keep_their_distance():
    """From the first one, or from the moment given; without a pace all are due at once."""
    assert [Pace(4.0, clock=lambda: 10.0).due(time_s) for time_s in (100.0,)] == [10.0]
    pace = Pace(4.0, clock=lambda: 10.0)
    assert [pace.due(time_s) for time_s in (100.0, 102.0, 101.0)] == [10.0, 10.5, 10.25]
    assert Pace(2.0, first_s=90.0, clock=lambda: 10.0).due(100.0) == 15.0
    at_once = Pace(0.0, clock=lambda: 10.0)
    assert {at_once.due(time_s) for time_s in (100.0, 500.0)} == {10.0}
