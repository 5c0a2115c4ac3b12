"""A pipeline cut unevenly: the longest stage over the mean of all."""

import numpy as np
import pytest

from streams.jobs.cohorts import Cohorts
from streams.jobs.stage_imbalance import MOST_STAGES, StageConfig, StageImbalance, said


@pytest.fixture
def stages():
    """Two stages of two ranks."""
    cohorts = Cohorts()
    cohorts.place([0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1])
    return StageImbalance(StageConfig(), cohorts)


def judge(detector, make_sums, windows, accused=frozenset()):
    """(window, stage, state) of what is told of windows of so many forward seconds a rank."""
    return [
        (number, episode.subject, episode.state)
        for number, forward in windows
        for episode in detector.update(make_sums(number, forward=forward), set(accused))
    ]


def test_a_longer_stage_is_suspected_confirmed_and_over(stages, make_sums):
    """Windows of 1.0 and 1.4 s, then even ones."""
    windows = [(number, [1.0, 1.0, 1.4, 1.4]) for number in range(3)]
    windows += [(number, [1.0] * 4) for number in range(3, 5)]
    told = judge(stages, make_sums, windows)
    assert told == [(1, 1, "suspected"), (2, 1, "confirmed"), (4, 1, "recovered")]


@pytest.mark.parametrize(("longer", "there"), [(1.20, False), (1.23, True)])
def test_the_bar_is_a_tenth_over_the_mean(stages, make_sums, longer, there):
    """Of 1.0 and 1.2 the mean is 1.1: nine percent."""
    told = judge(stages, make_sums, [(number, [1.0, 1.0, longer, longer]) for number in range(3)])
    assert bool(told) is there


def test_the_order_of_the_ranks_changes_nothing(make_sums):
    """Stages are told apart by their number, not by where they stand."""
    cohorts = Cohorts()
    cohorts.place([3, 0, 2, 1], [0, 1, 0, 1], [0, 0, 1, 1])
    told = judge(StageImbalance(StageConfig(), cohorts), make_sums, [(n, [1.4, 1.4, 1.0, 1.0]) for n in range(3)])
    assert told == [(1, 1, "suspected"), (2, 1, "confirmed")]


def test_one_slow_rank_makes_no_stage_longer(stages, make_sums):
    """The stage's median rank that is not accused counts; a stage of accused ranks alone is not judged."""
    slow = [(number, [1.0, 1.0, 1.0, 9.0]) for number in range(3)]
    assert judge(stages, make_sums, slow, accused={3}) == []
    assert judge(stages, make_sums, [(n, [1.0, 1.0, 9.0, 9.0]) for n in range(3)], accused={2, 3}) == []


def test_without_two_stages_that_were_heard_nothing_is_said(stages, make_sums):
    """A job without stages, a single rank, and a stage of which no rank is in the window or computed at all."""
    nobody = StageImbalance(StageConfig(), Cohorts())
    assert judge(nobody, make_sums, [(number, [1.0, 2.0]) for number in range(3)]) == []
    assert judge(stages, make_sums, [(number, [1.0, 1.0]) for number in range(3)]) == []
    assert judge(stages, make_sums, [(number, [1.0, 1.0, 0.0, 0.0]) for number in range(3)]) == []
    assert judge(stages, make_sums, [(number, [0.0] * 4) for number in range(3)]) == []


def test_what_is_said_has_the_size_and_clears_the_ranks(stages, make_sums):
    """Seconds are of a step: windows have ten."""
    for number in range(3):
        told = stages.update(make_sums(number, forward=[1.0, 1.0, 1.4, 1.4]), set())
    words = said(told[0], StageConfig())
    assert "Stage 1 computes 140 ms a step where the stages' mean is 120 ms (+17%), since about step 0" in words.summary
    assert (words.subject.name, words.subject.ranks) == ("stage 1", ())
    assert [(item.name, item.value, item.peers) for item in words.evidence] == [
        ("stage_compute", 0.14, 0.12),
        ("shortest_stage", 0.1, None),
        ("stage_0_compute", 0.1, 0.12),
        ("stage_1_compute", 0.14, 0.12),
    ]


def test_restored_it_confirms_in_the_next_window(stages, make_sums):
    """State is data."""
    judge(stages, make_sums, [(number, [1.0, 1.0, 1.4, 1.4]) for number in range(2)])
    again = StageImbalance(StageConfig(), stages.cohorts)
    again.load(stages.state())
    assert judge(again, make_sums, [(2, [1.0, 1.0, 1.4, 1.4])]) == [(2, 1, "confirmed")]


def test_microbatches_are_told_where_ranks_tell_of_them(stages, make_sums):
    """Eight passes a step, of ten steps."""
    for number in range(3):
        sums = make_sums(number, forward=[1.0, 1.0, 1.4, 1.4])
        pairs = sums.pairs.copy() if sums.pairs.size else np.zeros((6, 4))
        pairs[0] = 80
        told = stages.update(sums._replace(pairs=pairs), set())
    assert [(one.name, one.value) for one in said(told[0], StageConfig()).evidence][-1] == ("microbatches", 8)


@pytest.mark.parametrize("numbers", [range(MOST_STAGES + 1), (0, 2)])
def test_of_too_many_stages_or_with_gaps_each_is_not_told(make_sums, numbers):
    """The longest, the mean and the shortest are."""
    cohorts = Cohorts()
    cohorts.place(list(range(len(numbers))), list(numbers), [0] * len(numbers))
    detector = StageImbalance(StageConfig(), cohorts)
    took_s = [1.0] * (len(numbers) - 1) + [1.5]
    for number in range(3):
        told = detector.update(make_sums(number, forward=took_s), set())
    assert [one.name for one in said(told[0], StageConfig()).evidence] == ["stage_compute", "shortest_stage"]


def test_a_snapshot_from_before_stages_were_told_is_read(stages, make_sums):
    """It lacks two fields, which the next window brings."""
    judge(stages, make_sums, [(number, [1.0, 1.0, 1.4, 1.4]) for number in range(2)])
    data = stages.state()
    for episode in data["episodes"]["tracker"]["episodes"]:
        del episode["evidence"]["stages_s"], episode["evidence"]["microbatches"]
    again = StageImbalance(StageConfig(), stages.cohorts)
    again.load(data)
    (episode,) = again.episodes.tracker.episodes.values()
    assert episode.measured.stages_s == ()
    assert judge(again, make_sums, [(2, [1.0, 1.0, 1.4, 1.4])]) == [(2, 1, "confirmed")]
