"""Verdicts on a whole job take their time."""

import pytest

from streams.episodes.tracker import Episode, Measured
from streams.jobs.job_episodes import JobEpisodes, JudgedWindow, Sight


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
