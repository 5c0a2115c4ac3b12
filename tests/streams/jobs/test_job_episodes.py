"""Verdicts on a whole job take their time, and silence is one of them."""

import pytest

from paceline.events import Coverage
from streams.episodes.tracker import Episode, Measured
from streams.jobs.job_episodes import JobEpisodes, JudgedWindow, Sight
from streams.jobs.silence import Silence, said


def run(sizes):
    """(state, margin) of what is told of windows in which the trouble had these sizes; the bar is 1."""
    episodes, told = JobEpisodes(Episode[str, Measured]), []
    for number, size in enumerate(sizes):
        window = JudgedWindow(10 * number, 10 * number + 9, 1.0)
        episode = episodes.push("job", window, Sight(size, 1.0, 0.25, "unknown"), Measured())
        told.append(episode and (episode.state, episode.measured.margin))
    return told


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ([1, 1, 2], [None, ("suspected", 1.0), ("confirmed", 2.0)]),
        ([1, 0, 0, 1, 1], [None, None, None, None, ("suspected", 1.0)]),
        ([1, 1, 0, 0], [None, ("suspected", 1.0), None, ("recovered", 1.0)]),
        ([1, 1, 0, 0.6, 0, 0], [None, ("suspected", 1.0), None, None, None, ("recovered", 0.6)]),
        ([0.9, 0.9, 0.9], [None, None, None]),
    ],
)
def test_two_windows_suspect_three_confirm_and_two_end(sizes, told):
    """Between the bar and half of it nothing begins, and nothing ends."""
    assert run(sizes) == told


def coverage(heard):
    return Coverage(ranks_expected=4, ranks_heard=heard, events_missing=0)


def test_missing_ranks_are_told_after_a_while(make_tick):
    """A job that starts hears its ranks one by one: only after so many steps is one missing."""
    silence, told = Silence(after_steps=50), []
    for number in range(60):
        silence.count_step()
        episode = silence.update(make_tick(number, forward=[0.1] * 3), coverage(3))
        told += [(number, episode.state)] if episode else []
    assert told == [(50, "suspected"), (51, "confirmed"), (54, "confirmed")]
    assert said(coverage(3)).summary.startswith("1 of 4 ranks have never been heard")


def test_a_job_that_is_heard_whole_is_no_news(make_tick):
    """All ranks spoke."""
    silence = Silence(after_steps=0)
    assert [silence.update(make_tick(number, forward=[0.1] * 4), coverage(4)) for number in range(9)] == [None] * 9
