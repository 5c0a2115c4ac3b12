"""Cycles from events: jitter, drift, missed and extra events; and arrivals at random."""

import numpy as np
import pytest

from forecaster.cycles import from_events


def beats(random, count=60, period=2.37, jitter=0.05, growth=0.0):
    """Times of regular events; ``growth`` is the change of the period from first to last."""
    lengths = period * (1 + growth * np.linspace(-0.5, 0.5, count)) * (1 + jitter * random.normal(size=count))
    return 1000 + np.cumsum(lengths)


def test_jitter_is_averaged_out():
    """Ten per cent of jitter leave the period within 3 %."""
    assert from_events(beats(np.random.default_rng(1), jitter=0.1)).period_s == pytest.approx(2.37, rel=0.03)


def test_missed_events_do_not_stretch_the_period():
    """A fifth of the events is missing."""
    random = np.random.default_rng(2)
    times = beats(random)
    assert from_events(times[random.random(60) > 0.2]).period_s == pytest.approx(2.37, rel=0.03)


def test_extra_events_do_not_shorten_the_period():
    """A third more events come in between."""
    random = np.random.default_rng(3)
    times = beats(random)
    extra = random.uniform(times[0], times[-1], 20)
    assert from_events(np.concatenate((times, extra))).period_s == pytest.approx(2.37, rel=0.03)


def test_drift_is_told_and_the_next_event_follows_it():
    """Steps that become 30 % longer: the drift is that of the outer thirds, the next step is a late one."""
    times = beats(np.random.default_rng(4), jitter=0.01, growth=0.3)
    cycle = from_events(times)
    assert cycle.drift_ratio == pytest.approx(0.2, abs=0.03)
    assert cycle.next_s == pytest.approx(2.37 * 1.14, rel=0.06)


def test_one_stray_event_at_the_end_does_not_move_the_next():
    """An event half a period after the last regular one leaves the cycle's phase alone."""
    times = np.append(np.arange(20) * 4.0, 78.0)
    assert from_events(times).next_s == pytest.approx(2.0, abs=0.01)


def test_alternating_gaps_are_one_cycle():
    """Gaps of 1 and 3 s repeat every 4 s."""
    assert from_events(np.cumsum([1.0, 3.0] * 20)).period_s == pytest.approx(4.0)


def test_order_and_repeats_do_not_matter():
    """The same events, shuffled and said twice, have the same cycle."""
    times = beats(np.random.default_rng(5))
    twice = np.random.default_rng(6).permutation(np.concatenate((times, times)))
    assert from_events(twice) == from_events(times)


@pytest.mark.slow
def test_arrivals_at_random_have_no_period():
    """At most one in ten of a hundred Poisson streams gets a period."""
    random = np.random.default_rng(7)
    streams = [np.cumsum(random.exponential(size=int(random.integers(8, 400)))) for _ in range(100)]
    assert sum(from_events(times).period_s is not None for times in streams) <= 10


@pytest.mark.parametrize("times", [[], [1.0], [1.0, 2.0, 3.0], [5.0] * 50])
def test_too_few_events_are_said(times):
    """Fewer than four distinct events give no period."""
    cycle = from_events(times)
    assert cycle.period_s is None
    assert "too few" in cycle.note


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_time_that_is_no_number_is_an_error(odd):
    """It is named."""
    with pytest.raises(ValueError, match="times_s"):
        from_events([1.0, 2.0, odd, 4.0])


def test_five_exact_events_are_enough():
    """Four equal gaps are no accident."""
    assert from_events([0.0, 7.5, 15.0, 22.5, 30.0]).period_s == pytest.approx(7.5)
