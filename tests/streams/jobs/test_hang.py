"""A job that stands still: who waits, who is missing, for how long."""

import pytest

from paceline.events import OpenCollective
from streams.jobs.hang import Hang, HangConfig, said

MEMBERS = 4


@pytest.fixture
def hang(make_calls, join):
    """A job whose ranks have all been through collective 0, having waited at most a second for it."""
    machine = Hang(HangConfig())
    machine.reach(join(make_calls([(rank, 0, 0.0, 1.0) for rank in range(MEMBERS)], members=MEMBERS)))
    return machine


@pytest.fixture
def wait():
    """What a node tells of ranks that have stood in collective 1 for so long."""

    def message(seconds, ranks=(0, 1, 3)):
        waits = [
            OpenCollective(rank=rank, group="default", group_size=MEMBERS, seq=1, operation="all_reduce", start_s=100.0)
            for rank in ranks
        ]
        return range(MEMBERS), waits, 100.0 + seconds

    return message


def test_it_fires_at_half_a_minute_and_is_sure_at_a_minute(hang, wait):
    """Told when the longest waiter has waited for the bar, confirmed at twice that; nothing in between."""
    told = [(seconds, hang.update(*wait(seconds))) for seconds in (10, 29, 30, 45, 60, 600)]
    assert [(seconds, episode.state) for seconds, episode in told if episode] == [(30, "suspected"), (60, "confirmed")]


def test_a_job_that_has_seen_long_waits_is_given_longer(hang, wait, make_calls, join):
    """A rank that evaluates alone for twenty seconds is no hang in a job that has seen one."""
    hang.reach(join(make_calls([(0, 0, 0.0, 20.0)], members=MEMBERS)))
    assert hang.update(*wait(99)) is None
    assert hang.update(*wait(100)).state == "suspected"


def test_who_is_missing_is_accused(hang, wait):
    """The rank that has not come to the collective, and where it runs."""
    told = said(hang.update(*wait(30)), {2: "node-1"})
    assert (told.subject.ranks, told.subject.nodes) == ((2,), ("node-1",))
    assert "3 ranks (0, 1, 3) have stood in all_reduce number 1 of group default for 30 s" in told.summary
    assert "rank 2 has not come to it" in told.summary


def test_where_everybody_waits_nobody_is_accused(hang, wait):
    """Then it is the network, or calls that do not match."""
    told = said(hang.update(*wait(30, range(MEMBERS))), {})
    assert told.subject.ranks == ()
    assert "every member is in it or waits elsewhere" in told.summary


def test_it_is_over_when_nobody_waits(hang, wait):
    """Everybody got through."""
    hang.update(*wait(30))
    assert hang.update(*wait(31, ())).state == "recovered"
    assert hang.update(*wait(32, ())) is None


def test_restored_it_goes_on(hang, wait):
    """State is data: who waits, what was reached, and the episode."""
    hang.update(*wait(30))
    again = Hang(HangConfig())
    again.load(hang.snapshot())
    assert again.update(*wait(60)) == hang.update(*wait(60))
