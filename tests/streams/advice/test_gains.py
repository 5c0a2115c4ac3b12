"""What a suggestion should bring: no number beyond what can be told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.advice.config import AdviceConfig
from streams.advice.gains import of_lost_time

SHARES = st.floats(0.0, 1.0)


def test_a_high_end_that_nobody_can_tell_is_left_out():
    """Nine tenths are lost, and it is not sure: what would be left of a step may be next to nothing."""
    gain = of_lost_time(0.88, 8, 0.85, 1.0, AdviceConfig())
    assert gain.throughput_ratio == pytest.approx(7.33, abs=0.01)
    assert gain.throughput_low == pytest.approx(2.97, abs=0.01)
    assert gain.throughput_high is None


def test_of_a_job_that_nearly_stands_no_throughput_is_told():
    """Its device-hours are lost all the same."""
    gain = of_lost_time(0.999, 8, 0.9, 1.0, AdviceConfig())
    assert (gain.throughput_ratio, gain.throughput_low, gain.throughput_high) == (None, None, None)
    assert gain.gpu_hours_per_day == pytest.approx(8 * 24, rel=0.01)


@pytest.mark.long
@given(lost=st.floats(-1.0, 2.0), sure=SHARES, duty=SHARES, gpus=st.integers(1, 100_000))
def test_numbers_are_in_order_and_bounded(lost, sure, duty, gpus):
    """Low, middle, high; no more device-hours than there are, and no job more than twenty times as fast."""
    gain = of_lost_time(lost, gpus, sure, duty, AdviceConfig())
    assert 0 <= gain.gpu_hours_low <= gain.gpu_hours_per_day <= gain.gpu_hours_high <= gpus * 24 + 1e-3
    told = [gain.throughput_low, gain.throughput_ratio, gain.throughput_high]
    known = [value for value in told if value is not None]
    assert known == sorted(known)
    assert all(0 <= value <= 19 for value in known)
    assert gain.throughput_ratio is not None or not known
