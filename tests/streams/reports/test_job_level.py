"""A job's windows add up whatever its clock does: steps, the time it was watched, and its course."""

import msgspec
import pytest

from streams.reports.job_level import JobLevel
from streams.reports.run import Run
from tests.derived_events import job_window, rank_window


def told(shift, seconds=600):
    """A step a second in windows of ten, with the clock ``shift`` off."""
    for at in range(0, seconds, 10):
        held = {"start_s": 1e6 + at + shift(at), "first_step": at, "last_step": at + 9}
        yield rank_window(3, **held)
        yield job_window(**held)


def level_of(windows):
    level = JobLevel(10.0)
    for window in windows:
        level.add_rank(window) if hasattr(window, "rank") else level.add_job(window)
    return level


@pytest.mark.parametrize(
    "shift",
    [
        lambda at: 0.0,
        lambda at: -600.0 * (at >= 300),
        lambda at: -90.0 * (at >= 300),
        lambda at: 3600.0 * (at == 300),
        lambda at: 3600.0 * (at < 20),
        lambda at: 3600.0 * (300 <= at < 320),
    ],
    ids=["right", "back 10 min", "back 90 s", "one ahead", "ahead at first", "ahead for 20 s"],
)
@pytest.mark.parametrize("times", [1, 3])
def test_steps_and_time_are_the_jobs_whatever_its_clock_does(shift, times):
    """Also where a restart repeats half a minute, after each window."""
    windows = list(told(shift))
    repeated = [one for at in range(0, len(windows), 2) for one in [*windows[max(at - 6, 0) : at + 2]] * (times - 1)]
    level = level_of(repeated or windows)
    assert (level.steps, level.ranks[3].steps, level.told_s) == (600, 600, pytest.approx(600.0))
    assert level.end_s - level.first_s == pytest.approx(600.0)
    course = level.to_course({})
    assert max(course.steps_to) >= 590
    assert course.start_s == level.first_s
    run = Run(("c", "train", 0))
    for window in repeated or windows:
        run.add_rank(window) if hasattr(window, "rank") else run.add(window)
    assert run.steps == 600


def test_a_pause_is_no_setting_of_the_clock():
    """Two minutes without steps are told as such, with what comes again after them."""
    windows = list(told(lambda at: 120.0 * (at >= 300)))
    level = level_of([*windows[:64], *windows[56:]])
    assert (level.steps, level.told_s, level.end_s - level.first_s) == (600, pytest.approx(600.0), pytest.approx(720.0))


def test_ranks_are_on_the_jobs_course_after_a_set_back():
    """Their rows and the job's columns tell of the same steps."""
    course = level_of(told(lambda at: -600.0 * (at >= 300))).to_course({})
    assert course.own.shape == (1, 60)
    assert course.steps_from == list(range(0, 600, 10))
    assert course.own.tolist() == [[pytest.approx(0.5)] * 60]


def test_windows_without_steps_are_told_by_their_time():
    window = msgspec.structs.replace(job_window(), steps=0, first_step=0, last_step=0)
    assert level_of([window, window]).told_s == pytest.approx(10.0)
