"""The panel that closes a run: words over a summary, and nothing made up."""

import pytest

from streams.reports.panel import panel
from streams.reports.summary import Summary


@pytest.fixture
def panel_of():
    """The panel of events."""

    def of(*events):
        summary = Summary()
        for event in events:
            summary.update(event)
        return panel(summary)

    return of


def test_nothing_heard_says_so(panel_of):
    """And asks what was run."""
    assert panel_of().startswith("paceline: nothing was heard of any job")


def test_a_healthy_job_accuses_nobody(panel_of, make_training):
    """Who was compared, where the time went, what was heard."""
    lines = panel_of(*make_training(ranks=4, seconds=5)).splitlines()
    assert lines[0].startswith("paceline: job job, 4 ranks, 50 steps, median step ")
    assert "nobody holds this job back: 4 ranks compared" in lines[1]
    assert lines[-1].split() == ["Heard", "4", "of", "4", "ranks,", "0", "messages", "missing"]


def test_one_rank_is_too_little_to_judge(panel_of, make_training):
    """There is nobody to compare it with, and its words are in the singular."""
    text = panel_of(*make_training(ranks=1, nodes=1, seconds=5))
    assert "1 rank, 50 steps" in text
    assert "not enough to judge: 1 rank heard, comparing takes 2" in text


def test_a_few_steps_are_too_little_to_judge(panel_of, make_training):
    """It says how many there should be."""
    assert "not enough to judge: 10 steps heard, a verdict takes 15" in panel_of(*make_training(ranks=2, seconds=1))


def test_messages_that_never_came_are_told(panel_of, make_training):
    """A gap in one producer's numbers."""
    events = make_training(ranks=2, seconds=5)
    assert "2 of 2 ranks, 1 messages missing" in panel_of(*events[:2], *events[3:])


def test_jobs_are_told_one_after_the_other(panel_of, make_training):
    """In the order in which they came."""
    text = panel_of(*make_training(seconds=1, job="b"), *make_training(seconds=1, job="a"))
    assert [line.split(",")[0] for line in text.splitlines() if "job" in line.split(",")[0].split()[:2]] == [
        "paceline: job b",
        "paceline: job a",
    ]
