"""What was heard of a job and what is missing: counted, never judged."""

import msgspec
import pytest

from streams.ingest.coverage import CoverageTracker
from streams.ingest.roster import Roster
from tests.looked_at import LookedAt


@pytest.fixture
def coverage():
    """Nothing heard yet."""
    return CoverageTracker()


def test_nothing_heard_is_nothing_missing(coverage):
    """Before anybody spoke no rank is expected."""
    counts = coverage.counts()
    assert (counts.ranks_expected, counts.ranks_heard, counts.events_missing, counts.notes) == (0, 0, 0, [])
    coverage.roster.hear([], [])
    assert coverage.expected == 0


def test_gaps_are_missing_and_repeats_are_not_new(coverage):
    """Each producer has numbers of its own, which may begin anywhere."""
    assert [coverage.roster.admit("a", number) for number in (5, 6, 6, 9, 4)] == [True, True, False, True, False]
    assert coverage.roster.admit("b", 100)
    assert (coverage.roster.missing, coverage.roster.producers, coverage.roster.last) == (2, 2, {"a": 9, "b": 100})


def test_ranks_that_were_never_heard_are_noted(coverage):
    """Of what most ranks believe the world to be."""
    coverage.roster.hear([0, 2], [4, 4])
    coverage.roster.hear([2], [4])
    assert coverage.counts().notes == ["ranks that did not report: 2 of 4"]
    assert (coverage.counts().ranks_expected, coverage.counts().ranks_heard) == (4, 2)


def test_a_rank_that_joins_a_large_job_costs_no_look_at_the_others(coverage):
    """A hundred thousand join one by one, and each message asks how many are expected."""
    coverage.roster.worlds = LookedAt()
    for rank in range(1000):
        coverage.roster.hear([rank], [1000])
        assert coverage.expected == 1000
    assert coverage.roster.worlds.looks == 0


def test_votes_follow_ranks_that_change_their_mind_and_survive_a_restart(coverage):
    """The size of the world is counted again only where a rank says otherwise."""
    coverage.roster.hear(range(5), [8] * 5)
    coverage.roster.hear([0, 1, 2], [4, 4, 4])
    assert coverage.expected == 4
    again = CoverageTracker()
    again.roster.load(coverage.roster.state())
    again.load(coverage.state())
    for one in (coverage, again):
        one.roster.hear([0, 1], [8, 8])
        assert one.expected == 8


def test_the_world_is_what_most_ranks_believe_and_the_larger_on_a_tie(coverage):
    """One rank with an absurd number convinces nobody, and may change its mind."""
    coverage.roster.hear([0, 1, 2], [3, 3, 10**9])
    assert coverage.expected == 3
    assert "ranks disagree about the world size: [3, 1000000000]" in coverage.counts().notes
    coverage.roster.hear([2], [3])
    assert coverage.counts().notes == []
    coverage.roster.hear([0], [8])
    coverage.roster.hear([1], [8])
    coverage.roster.hear([3], [3])
    assert coverage.expected == 8


def test_odd_rows_are_counted_by_name(coverage):
    """In the order of their names; counting none is no note."""
    coverage.note("rows of an unknown op", 2)
    coverage.note("nothing", 0)
    coverage.note("collectives", 1)
    coverage.note("rows of an unknown op")
    assert coverage.counts().notes == ["collectives: 1", "rows of an unknown op: 3"]


def test_more_ranks_than_the_world_is_no_silence(coverage):
    """A rank that is not counted in is heard all the same."""
    coverage.roster.hear([0, 1, 2], [2, 2, 2])
    assert coverage.counts().notes == []
    assert coverage.counts().ranks_heard == 3


@pytest.mark.parametrize("gap", [1, 4, 8, 512])
def test_ranks_numbered_with_gaps_are_plausible(coverage, gap):
    """One of each tensor group speaks; a rank number that is absurd beside the others' is none."""
    ranks = [gap * number for number in range(16)]
    coverage.roster.hear(ranks, [16] * 16)
    assert coverage.plausible_ranks > ranks[-1]
    before = coverage.plausible_ranks
    coverage.roster.hear([100_000 * gap], [16])
    assert before <= coverage.plausible_ranks < 100_000 * gap
    again = CoverageTracker()
    again.roster.load(coverage.roster.state())
    again.load(coverage.state())
    assert again.plausible_ranks == coverage.plausible_ranks


@pytest.mark.parametrize("ranks", [[], [0], [70_000], [0, 70_000]])
def test_few_ranks_vouch_for_no_absurd_number(coverage, ranks):
    """Of one or two that speak any may be the odd one."""
    coverage.roster.hear(ranks, [2] * len(ranks))
    assert coverage.plausible_ranks == (24 if ranks else 16)


def test_restored_it_counts_the_same(coverage):
    """State is data; what is derived of it is worked out again."""
    coverage.roster.hear([0, 1], [4, 4])
    coverage.roster.admit("a", 1)
    coverage.roster.admit("a", 4)
    coverage.note("rows")
    again = CoverageTracker()
    again.roster.hear([9], [99])
    again.roster.load(coverage.roster.state())
    again.load(coverage.state())
    assert again.counts() == coverage.counts()
    assert [again.roster.admit("a", number) for number in (4, 5)] == [False, True]


def test_what_it_counts_is_of_the_moment(coverage):
    """Whatever changes it shows in the next answer, and a finding that has the one before keeps that."""
    seen = [coverage.counts()]
    for change in (
        lambda: coverage.roster.hear([0, 1], [2, 2]),
        lambda: [coverage.roster.admit("a", number) for number in (0, 5)],
        lambda: coverage.note("odd"),
        lambda: coverage.note("odd"),
        lambda: coverage.leave_out(3, 8),
        lambda: coverage.roster.hear([1], [4]),
        lambda: coverage.count_step(2),
        lambda: coverage.count_step(0),
        lambda: [coverage.roster.load(Roster().state()), coverage.load(CoverageTracker().state())],
    ):
        before = [msgspec.json.encode(one) for one in seen]
        change()
        seen.append(coverage.counts())
        assert seen[-1] != seen[-2]
        assert [msgspec.json.encode(one) for one in seen[:-1]] == before
    assert seen[-1] == seen[0]
    coverage.note("nothing", 0)
    assert coverage.counts() is seen[-1]
