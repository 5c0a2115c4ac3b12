"""A job that waits for its input: every rank alike spends much of the step on it."""

import pytest

from streams.jobs.data_bound import DataBound, InputConfig, said


@pytest.fixture
def detector():
    """With the thresholds as they are."""
    return DataBound(InputConfig())


def judge(detector, make_sums, accused=frozenset(), has_loader=True, windows=3, **ops):
    """The states that are told of windows of the same seconds, and the last episode."""
    told = [detector.update(make_sums(number, **ops), set(accused), has_loader) for number in range(windows)]
    episodes = [episode for episode in told if episode]
    return [episode.state for episode in episodes], episodes[-1] if episodes else None


def test_input_that_all_wait_for_is_told_by_the_rank_that_waits_least(detector, make_sums):
    """0.4, 0.5 and 0.6 of the step: the job is bound by four tenths."""
    states, episode = judge(detector, make_sums, data=[0.4, 0.5, 0.6], step=[1.0] * 3)
    assert states == ["suspected", "confirmed"]
    seen = episode.measured
    assert (seen.least_share, seen.share, seen.fetched_s) == (0.4, 0.5, 0.05)
    words = said(episode, InputConfig())
    assert (
        "Every rank spends 40% or more of its step on input (50 ms on the median rank), since about step 0"
        in words.summary
    )
    assert words.subject.ranks == ()


@pytest.mark.parametrize(("least", "there"), [(0.29, False), (0.30, True)])
def test_the_bar_is_three_tenths_of_the_step(detector, make_sums, least, there):
    """Of the rank with least."""
    assert bool(judge(detector, make_sums, data=[least, 0.6], step=[1.0, 1.0])[0]) is there


def test_one_rank_with_quick_input_clears_the_job(detector, make_sums):
    """0.0 seconds are a value: the others may be waiting for that rank."""
    assert judge(detector, make_sums, data=[0.0, 0.6, 0.6], step=[1.0] * 3)[0] == []


def test_a_rank_that_is_accused_or_was_not_heard_clears_nobody(detector, make_sums):
    """It is left out, and with nobody left nothing is said; absurd numbers are no rank."""
    assert judge(detector, make_sums, accused={0, 10**9}, data=[0.0, 0.6], step=[1.0, 1.0])[0]
    assert judge(detector, make_sums, accused={0, 1}, data=[0.6, 0.6], step=[1.0, 1.0])[0] == []
    assert judge(DataBound(InputConfig()), make_sums, data=[0.0, 0.6], step=[0.0, 1.0])[0]
    assert judge(DataBound(InputConfig()), make_sums, data=[0.0], step=[0.0])[0] == []


def test_a_single_rank_may_be_bound_by_its_input(detector, make_sums):
    """No comparison is needed."""
    assert judge(detector, make_sums, data=[0.6], step=[1.0])[0] == ["suspected", "confirmed"]


def test_time_before_the_forward_counts_where_no_loader_tells_its_own(detector, make_sums):
    """Hand-made batches are made there; with a DataLoader it is the worker's own."""
    assert judge(detector, make_sums, prepare=[0.6, 0.6], step=[1.0, 1.0])[0] == []
    assert judge(detector, make_sums, has_loader=False, prepare=[0.6, 0.6], step=[1.0, 1.0])[0]


def test_a_step_that_is_all_input_has_a_cost_that_is_finite(detector, make_sums):
    """The step without it would take no time."""
    _, episode = judge(detector, make_sums, data=[1.0, 1.0], step=[1.0, 1.0])
    assert 0.0 < episode.lost_s < episode.span_s


def test_restored_it_confirms_in_the_next_window(detector, make_sums):
    """State is data."""
    judge(detector, make_sums, windows=2, data=[0.6], step=[1.0])
    again = DataBound(InputConfig())
    again.load(detector.state())
    assert judge(again, make_sums, windows=1, data=[0.6], step=[1.0])[0] == ["confirmed"]
