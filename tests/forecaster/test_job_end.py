"""When a job ends: pauses count, recent pace counts, and the interval is as wide as the job has been uneven."""

import numpy as np
import pytest

from forecaster.job_end import POINTS, Progress, job_end


def progress(steps_s, begin_s=1000.0):
    """Each step took so many seconds."""
    made = Progress()
    made.reach(begin_s, -1)
    for step, time_s in enumerate(begin_s + np.cumsum(steps_s)):
        made.reach(float(time_s), step)
    return made


def test_pauses_count():
    """Every tenth step is an evaluation of 20 s: half of the job took 290 s, and so will the other half."""
    steps_s = np.where(np.arange(200) % 10 == 9, 20.0, 1.0)
    end = job_end(progress(steps_s[:100]), 200)
    assert end.time_s == pytest.approx(1000.0 + steps_s.sum(), abs=25.0)
    assert end.low_s < 1000.0 + steps_s.sum() < end.high_s


def test_a_job_that_became_slower_ends_later():
    """What lies ahead is like what came last, not like the mean of all."""
    end = job_end(progress([1.0] * 300 + [2.0] * 300), 700)
    assert end.time_s == pytest.approx(1000.0 + 900.0 + 200.0, rel=0.01)


def test_an_even_job_has_a_narrow_interval_once_half_of_it_is_done():
    """At a tenth of the way it has not been seen for long."""
    early, late = job_end(progress([1.0] * 100), 1000), job_end(progress([1.0] * 900), 1000)
    assert late.high_s - late.low_s < 0.5 * 100.0
    assert early.high_s - early.low_s > 0.2 * 900.0


def test_an_uneven_job_has_a_wide_one():
    """Its pace doubles and halves every hundred steps."""
    uneven = job_end(progress(np.repeat([1.0, 2.0] * 4, 100)), 900)
    even = job_end(progress([1.5] * 800), 900)
    assert uneven.high_s - uneven.low_s > 2.0 * (even.high_s - even.low_s)


def test_the_end_is_inside_its_interval_about_as_often_as_promised():
    """Of jobs whose pace wanders by a tenth every twenty steps, asked at three tenths of the way."""
    random, inside = np.random.default_rng(3), []
    for _ in range(200):
        pace = np.exp(np.repeat(np.cumsum(random.normal(0.0, 0.1, 15)), 20))
        end = job_end(progress(pace[:90]), 300)
        inside.append(end.low_s <= 1000.0 + pace.sum() <= end.high_s)
    assert 0.6 < np.mean(inside) < 0.98


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 5000, 100_000])
def test_progress_is_bounded_and_reaches_the_newest(count):
    """Evenly thinned, the first and the newest are there."""
    points = list(progress([0.5] * count))
    assert len(points) <= POINTS + 1
    assert points[0] == (1000.0, -1)
    assert points[-1] == (1000.0 + 0.5 * count, count - 1)
    assert points == sorted(set(points))
    if count > POINTS:
        gaps = np.diff([step for _, step in points])[:-1]
        assert gaps.max() <= 2 * gaps.min()


def test_what_comes_late_or_again_changes_nothing():
    """Times and steps only go up."""
    made = progress([1.0] * 5)
    before = list(made)
    made.reach(1003.5, 9)
    made.reach(2000.0, 3)
    assert list(made) == before


def test_a_copy_stays_as_it_is():
    """Later steps reach the original alone."""
    made = progress([1.0] * 300)
    kept = made.copy()
    before = list(kept)
    for step in range(300, 900):
        made.reach(2000.0 + step, step)
    assert list(kept) == before
    kept.reach(5000.0, 1000)
    assert (5000.0, 1000) not in list(made)


def test_a_job_that_stands_still_ends_later():
    """By as much as it stands longer than it ever paused; a pause as long as others moves nothing."""
    made = progress([1.0] * 50 + [30.0] + [1.0] * 50)
    expected = job_end(made, 200)
    last_s = list(made)[-1][0]
    assert job_end(made, 200, last_s + 30.0) == expected
    assert job_end(made, 200, last_s + 630.0).time_s == pytest.approx(expected.time_s + 600.0)


@pytest.mark.parametrize("total", [1, 50, 100])
def test_a_job_that_has_all_its_steps_has_ended(total):
    """Also where it did more than it meant to."""
    end = job_end(progress([1.0] * 100), total)
    assert end.time_s == end.low_s == end.high_s == 1100.0


@pytest.mark.parametrize("points", [[], [(5.0, 3)]])
def test_without_two_steps_there_is_no_pace(points):
    """Nothing is guessed."""
    assert job_end(points, 100) is None


def test_an_end_beyond_any_time_is_none():
    """A number of steps that somebody made up."""
    assert job_end(progress([1.0] * 10), 10**16) is None
