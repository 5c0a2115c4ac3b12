"""From the ends of ranks to one finding: when it is suspected, confirmed and taken back."""

from types import SimpleNamespace

import msgspec
import pytest

from paceline.accused_units import accused_ranks
from paceline.events import RankEnd
from streams.jobs.deaths import CONFIRM_S, MOST_ENDS, MOST_NAMED, Deaths, said
from streams.jobs.first_death import Blockage
from streams.snapshots import pack, unpack
from tests.streams.job_lines import JobDiagnosis

RANKS = 4
GLOO = "[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:21504"


def end(rank, time_s=100.0, **words):
    common = {"how": "exception", "error": "RuntimeError", "message": GLOO, "status": 1}
    return RankEnd(rank=rank, time_s=time_s, **(common | words))


def own(rank, time_s=100.0, **words):
    return end(rank, time_s, error="ValueError", message="bad loss", line="train.py:88 step", **words)


def killed(rank, time_s=100.0):
    return RankEnd(rank=rank, time_s=time_s, how="lost", status=-9)


@pytest.fixture
def deaths():
    return Deaths()


@pytest.fixture
def report(deaths):
    """A node's message; the episode where it has news."""

    def of(*ends, node="gpu-1", now_s=None, expected=RANKS):
        return deaths.update(node, ends, expected=expected, now_s=now_s, last_step=41)

    return of


def test_it_is_suspected_with_the_first_and_confirmed_with_the_last(report):
    first = report(own(2))
    assert (first.state, first.measured.ranks, first.first_step) == ("suspected", [2], 41)
    assert report(end(0, 103.0), end(1, 103.2)) is None
    last = report(end(3, 103.3))
    assert (last.state, last.revision, last.measured.victims) == ("confirmed", 2, [0, 1, 3])
    told = said(last, {2: "gpu-1"})
    assert told.summary == (
        "Died: rank 2, 3 s before the others: ValueError at train.py:88 step (bad loss); ranks 0, 1 and 3 only lost a "
        "peer. Next: read the traceback and look at train.py:88 step."
    )
    assert (told.subject.ranks, told.subject.nodes) == ((2,), ("gpu-1",))
    assert (told.blocked.line, told.blocked.victims, told.blocked.sure) == ("train.py:88 step", (0, 1, 3), "certain")


def test_the_order_of_the_messages_does_not_matter(report):
    assert report(end(0, 103.0), end(1, 103.0), end(3, 103.0)) is None
    last = report(own(2))
    assert (last.state, last.measured.ranks, last.measured.victims) == ("confirmed", [2], [0, 1, 3])


def test_a_rank_that_died_alone_is_confirmed_while_the_others_hang(report):
    assert report(killed(2)).state == "suspected"
    assert report(now_s=100.0 + CONFIRM_S - 0.1) is None
    assert report(now_s=500.0, node="gpu-2") is None, "the clock of another node"
    assert report(now_s=100.0 + CONFIRM_S).state == "confirmed"
    assert report(now_s=200.0) is None


def test_it_names_nobody_once_all_ranks_fail_alike(report):
    assert report(own(2)).measured.ranks == [2]
    report(own(0), own(1))
    last = report(own(3))
    assert (last.state, last.measured.ranks) == ("confirmed", [])
    assert said(last, {}).summary.startswith(
        "Died: no rank is to blame: all ranks fail alike: ValueError at train.py:88"
    )


def test_what_was_suspected_holds_at_the_end_of_the_job(deaths, report):
    report(killed(2))
    last = deaths.conclude(RANKS, 41)
    assert (last.state, last.measured.ranks) == ("confirmed", [2])
    assert deaths.conclude(RANKS, 41) is None


def test_a_job_that_ends_well_says_nothing(deaths, report):
    clean = [RankEnd(rank=rank, time_s=100.0, how="exit", status=0) for rank in range(RANKS)]
    assert report(*clean) is None
    assert deaths.conclude(RANKS, 41) is None


def test_a_rank_that_runs_again_has_not_died(deaths, report):
    report(killed(2))
    assert deaths.come_again([2], 99.0, expected=RANKS, last_step=41) is None, "its steps from before"
    assert deaths.come_again([0, 7], 101.0, expected=RANKS, last_step=41) is None
    assert deaths.come_again([2, 7], 101.0, expected=RANKS, last_step=41).state == "recovered"


def test_a_second_report_on_a_rank_replaces_the_first(report):
    report(RankEnd(rank=2, time_s=100.0, how="lost"), end(0), end(1), end(3))
    assert report(own(2)).measured.why.startswith("ValueError")


@pytest.mark.parametrize(
    ("raise_it", "first", "lost"),
    [
        (1, "Died: rank 0", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 1015 more only lost a peer"),
        (300, "Died: ranks 0, 1, 2, 3, 4, 5, 6, 7 and 292 more", "302, 303, 304, 305, 306, 307 and 716 more only lost"),
    ],
)
def test_those_who_are_not_named_are_counted(report, raise_it, first, lost):
    """Of a large job the first of them are named, and the sentence and the title have how many there are."""
    ranks = 1024
    ends = [own(rank) if rank < raise_it else end(rank) for rank in range(ranks)]
    told = said(report(*ends, expected=ranks), {})
    assert told.summary.startswith(first)
    assert lost in told.summary
    assert (len(told.subject.ranks), len(told.blocked.victims)) == (min(raise_it, MOST_NAMED), MOST_NAMED)
    counted = SimpleNamespace(ranks=told.subject.ranks, evidence=told.evidence)
    assert accused_ranks(counted) == raise_it


def test_the_gap_between_two_nodes_clocks_is_not_told(report):
    report(own(2), node="gpu-2")
    assert report(end(0, 900.0), end(1, 900.0), end(3, 900.0)).measured.before_s is None


@pytest.mark.long
def test_ranks_beyond_any_job_are_ignored_and_memory_is_bounded(deaths, report):
    report(*[killed(rank) for rank in range(MOST_ENDS + 10)], expected=4)
    assert len(deaths.ends) == MOST_ENDS


def test_the_verdict_of_a_large_job_is_not_made_again_for_every_rank(deaths, report, monkeypatch):
    verdicts = []
    monkeypatch.setattr("streams.jobs.deaths.first_death", lambda ends, expected, hang: verdicts.append(len(ends)))
    for rank in range(2000):
        report(end(rank), expected=2000)
    assert verdicts[:256] == list(range(1, 257))
    assert len(verdicts) < 300
    assert verdicts[-1] == 2000


def test_a_snapshot_goes_on_as_if_nothing_had_been(deaths, report):
    report(own(2))
    again = Deaths()
    again.load(unpack(0, pack(0, deaths.state())))
    ends = (end(0), end(1), end(3))
    expected = deaths.update("gpu-1", ends, expected=RANKS, now_s=None, last_step=41)
    assert again.update("gpu-1", ends, expected=RANKS, now_s=None, last_step=41) == expected


def test_a_hang_before_the_first_end_is_why_all_gave_up(deaths):
    """What is reported of the hang later than that, when the ranks leave one by one, changes nothing; also stored."""
    hang = Blockage("the job had hung in all_reduce #7: rank 2 has not called it", "a.py:4", "look", (2,))
    assert deaths.update("gpu-1", [end(0), end(1)], expected=RANKS, now_s=None, last_step=41, hang=hang) is None
    again = Deaths()
    again.load(unpack(0, pack(0, deaths.state())))
    died = again.update("gpu-1", [end(2), end(3)], expected=RANKS, now_s=None, last_step=41)
    told = said(died, {})
    assert told.summary == (
        "Died: no rank failed by itself; the job had hung in all_reduce #7: rank 2 has not called it. Next: look."
    )
    assert (died.state, told.subject.ranks) == ("confirmed", ())
    assert (told.blocked.line, told.blocked.victims) == ("a.py:4", (0, 1, 2, 3))


class TestMessages:
    """From a node's messages to the finding."""

    @pytest.fixture
    def ended(self, make_training):
        """A run whose last messages say how its ranks ended."""

        def of(*ends, ended=True):
            *events, last = make_training(ranks=RANKS, seconds=5)
            bye = msgspec.structs.replace(last, sequence=last.sequence + 1, ends=list(ends), ended=ended)
            return [*events, last, bye]

        return of

    def found(self, events, diagnosis=None):
        diagnosis = diagnosis or JobDiagnosis()
        told = [one for event in events for one in diagnosis.update(event)] + diagnosis.conclude()
        return [one for one in told if one.kind == "died"]

    def test_the_finding_has_the_line_the_victims_and_what_to_do(self, ended):
        (died,) = self.found(ended(own(2), end(0, 103.0), end(1, 103.0), end(3, 103.0)))
        assert (died.state, died.ranks, died.victims, died.sure) == ("confirmed", [2], [0, 1, 3], "certain")
        assert (died.line, died.severity, died.nodes) == ("train.py:88 step", "critical", ["node-1"])
        assert died.next == "read the traceback and look at train.py:88 step"

    def test_a_message_that_comes_twice_counts_once(self, ended):
        *events, bye = ended(own(2))
        assert len(self.found([*events, bye, bye])) == 2, "suspected, and confirmed at the end"

    def test_ranks_beyond_the_bound_are_left_out(self, ended):
        diagnosis = JobDiagnosis()
        diagnosis.bound_ranks(2)
        assert self.found(ended(own(3)), diagnosis) == []

    @pytest.mark.long
    def test_a_rank_that_comes_again_in_the_same_attempt_has_not_died(self, ended):
        *events, last = ended(own(2, time_s=0.0), ended=False)
        of_its_node = [one for one in events if one.producer == last.producer]
        apart = [one for one in events if one.producer != last.producer]
        first = msgspec.structs.replace(of_its_node[0], ends=last.ends)
        states = [one.state for one in self.found([*apart, first, *of_its_node[1:]])]
        assert states == ["suspected", "confirmed"]
        fresh = msgspec.structs.replace(of_its_node[1].speakers, switch="other")
        again = msgspec.structs.replace(of_its_node[1], speakers=fresh)
        states = [one.state for one in self.found([*apart, first, again])]
        assert states == ["suspected", "recovered"]
