"""Who reports on a topic, and on two as one."""

from streams.ingest.coverage import CoverageTracker
from streams.ingest.roster import JointRoster, Roster


def test_two_rosters_are_one_roster_of_both():
    """Ranks of either, messages missing of both; the world of a rank that both know is the first one's."""
    steps, calls = Roster(), Roster()
    both = JointRoster(steps, calls)
    assert (both.expected, both.worlds, both.missing) == (0, {}, 0)
    calls.hear([0, 1], [8, 8])
    assert (both.expected, sorted(both.worlds)) == (8, [0, 1])
    steps.hear([1, 2, 3], [4, 4, 4])
    assert (both.expected, both.worlds) == (4, {0: 8, 1: 4, 2: 4, 3: 4})
    assert steps.worlds.keys() == {1, 2, 3}
    for number in (0, 3):
        steps.admit("node-0", number)
        calls.admit("node-0", number + 1)
    assert both.missing == 4
    assert steps.missing == calls.missing == 2


def test_whatever_either_hears_shows_in_the_coverage_of_both():
    steps, calls = Roster(), Roster()
    coverage = CoverageTracker(JointRoster(steps, calls))
    steps.hear([0], [4])
    assert coverage.counts().ranks_heard == 1
    calls.hear([1], [4])
    assert coverage.counts().ranks_heard == 2
    assert coverage.plausible_ranks == 4 * (4 + 4)
    steps.hear([2, 3], [4, 4])
    assert (coverage.counts().ranks_heard, coverage.counts().notes) == (4, [])


def test_read_back_it_knows_the_same():
    steps, again = Roster(), Roster()
    steps.hear([0, 1], [2, 2])
    steps.admit("node-0", 5)
    again.load(steps.state())
    assert (again.expected, again.producers, again.admit("node-0", 5)) == (2, 1, False)
