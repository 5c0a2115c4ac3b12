"""A job that stands still: who waits, who is missing, for how long."""

from random import Random

import pytest

from paceline.events import OpenCollective, RankLook
from streams.jobs.hang import Hang, HangConfig
from streams.jobs.hang_evidence import MOVES_S
from streams.jobs.hang_findings import said
from streams.jobs.waiting_place import Wait
from streams.jobs.waits import Waits

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

    def message(seconds, ranks=(0, 1, 3), other=None):
        """``other``: by rank, what differs of its collective."""
        common = {"group": "default", "group_size": MEMBERS, "seq": 1, "operation": "all_reduce", "start_s": 100.0}
        waits = [OpenCollective(**(common | {"rank": rank} | (other or {}).get(rank, {}))) for rank in ranks]
        return range(MEMBERS), waits, 100.0 + seconds

    return message


@pytest.fixture
def trains(hang, make_calls, join):
    """The same job, after some steps."""
    hang.reach(join(make_calls([(rank, 3, 0.0, 0.0) for rank in range(MEMBERS)], members=MEMBERS)))
    been_through(hang, dict.fromkeys(range(MEMBERS), 0))
    return hang


def been_through(hang, numbers, group="default"):
    """The latest collective of ``group`` that each rank has been through."""
    state = hang.state()
    hang.load(state | {"reached": state["reached"] | {group: numbers}})


@pytest.fixture
def look(trains):
    """What a node tells of where ranks are."""

    def message(places, standing=True):
        looks = [
            RankLook(rank=rank, time_s=0.0, doing=doing, moved=moved, line=line, pid=4000 + rank)
            for rank, (doing, moved, line) in places.items()
        ]
        trains.look(range(MEMBERS), looks, standing=standing)

    return message


SPINS = ("computing", False, "train.py:45 evaluate")
WAITS = ("waiting", False, "train.py:30 step")
MOVES = ("moving", True, "train.py:50 save")


def states(hang, wait, seconds=range(5, 61, 5), **message):
    """When it is reported, and as what."""
    told = [(second, hang.update(*wait(second, **message))) for second in seconds]
    return [(second, episode.state) for second, episode in told if episode]


class TestLooks:
    def test_a_rank_that_stands_still_is_reported_early_with_its_line(self, trains, wait, look):
        """Suspected from 12 s, confirmed from 24 s, with the command to run on its node."""
        look({0: WAITS, 1: WAITS, 2: SPINS, 3: WAITS})
        seconds = (11.9, 12.0, 23.9, 24.0)
        assert states(trains, wait, seconds) == [(12.0, "suspected"), (24.0, "confirmed")]
        told = said(trains.tracker.get("job"), {2: "gpu-3"})
        assert told.summary == (
            "Ranks 0, 1 and 3 have been blocked in all_reduce #1 (group default) for 24 s; rank 2 has not called it: "
            "train.py:45 evaluate, it is computing. Next: py-spy dump --pid 4002 on node gpu-3."
        )
        assert (told.blocked.line, told.blocked.others_line) == ("train.py:45 evaluate", "train.py:30 step")
        assert (told.blocked.victims, told.blocked.seq, told.blocked.operation) == ((0, 1, 3), 1, "all_reduce")

    def test_when_it_is_over_it_says_whom_the_job_waited_for(self, trains, wait, look):
        """And at which line, and what it did there; who came back last is no news."""
        look({0: WAITS, 1: WAITS, 2: SPINS, 3: WAITS})
        assert states(trains, wait, (12.0, 24.0)) == [(12.0, "suspected"), (24.0, "confirmed")]
        over = said(trains.tracker.get("job"), {}).over
        assert over == (
            "The job was blocked in all_reduce #1 (group default) for 24 s, waiting for rank 2 at train.py:45 "
            "evaluate: it was computing; now it goes on."
        )

    def test_a_rank_that_moves_is_no_hang(self, trains, wait, look):
        """A checkpoint or an evaluation on one rank, however long; but not for ever."""
        look({2: MOVES})
        assert states(trains, wait, range(5, int(MOVES_S), 5)) == []
        assert states(trains, wait, [MOVES_S]) == [(MOVES_S, "confirmed")]

    def test_one_look_is_no_reason_to_report_early(self, trains, wait, look):
        """Whether the rank moves is not known yet: the thresholds without looks hold."""
        look({2: ("computing", None, "train.py:45 evaluate")})
        assert states(trains, wait) == [(30, "suspected"), (60, "confirmed")]

    def test_a_look_at_somebody_else_is_no_reason_either(self, trains, wait, look):
        """The missing rank runs on a node whose looks have not come."""
        look({0: WAITS, 1: WAITS, 3: WAITS})
        assert states(trains, wait) == [(30, "suspected"), (60, "confirmed")]

    def test_the_first_step_is_given_its_time(self, hang, wait):
        """It compiles, connects and allocates."""
        hang.look(range(4), [RankLook(rank=2, time_s=0.0, doing="waiting", moved=False)], standing=True)
        assert states(hang, wait) == [(30, "suspected"), (60, "confirmed")]

    def test_a_longer_threshold_holds_for_looks_as_well(self, trains, wait, look):
        """Whoever asks for more patience gets it."""
        trains.config = HangConfig(least_s=300.0)
        look({2: SPINS})
        assert states(trains, wait, (100, 119, 120)) == [(120, "suspected")]

    def test_a_job_that_has_seen_long_waits_is_given_longer(self, trains, wait, look):
        """Three times the longest, with the reason in sight."""
        trains.longest_s = 8.0
        look({2: SPINS})
        assert states(trains, wait, (23.9, 24.0)) == [(24.0, "suspected")]

    def test_a_line_that_becomes_known_is_news(self, trains, wait, look):
        """It was suspected without one."""
        trains.update(*wait(30))
        look({2: SPINS})
        assert trains.update(*wait(31)).state == "confirmed"
        trains.tracker.forget("job")
        look({2: ("not_answering", False, "")})
        trains.update(*wait(24))
        look({2: SPINS})
        again = trains.update(*wait(25))
        assert (again.state, again.revision, again.measured.stop.places[0].line) == ("confirmed", 2, SPINS[2])

    def test_looks_of_an_earlier_hang_are_forgotten(self, trains, wait, look):
        """Once its node trains on, where a rank was says nothing."""
        look({2: SPINS})
        look({}, standing=False)
        assert states(trains, wait) == [(30, "suspected"), (60, "confirmed")]

    def test_a_stopped_process_is_continued(self, trains, wait, look):
        """The next command is another."""
        look({2: ("stopped", False, "")})
        told = said(trains.update(*wait(24)), {})
        assert "rank 2 has not called it: its process is stopped" in told.summary
        assert told.blocked.next == "kill -CONT 4002 on its node"

    @pytest.mark.parametrize("others", [{}, {3: ("stopped", False, "")}])
    def test_what_a_process_was_stopped_by_is_said_when_it_has_gone_on(self, trains, wait, look, others):
        """It is looked at no longer then, and to continue it would be too late."""
        ranks = tuple(rank for rank in (0, 1, 3) if rank not in others)
        look({2: ("stopped", False, ""), **others})
        for second in (12.0, 24.0):
            trains.update(*wait(second, ranks))
        look({}, standing=False)
        trains.update(*wait(25.0, ranks))
        been_through(trains, dict.fromkeys(range(MEMBERS), 1))
        told = said(trains.update(range(MEMBERS), [], 126.0), {})
        alone, several = "waiting for rank 2: its process", "waiting for ranks 2 and 3 (rank 2: its process"
        assert f"{several if others else alone} was stopped (SIGSTOP or a debugger)" in told.over
        assert told.over.endswith("; now it goes on.")
        assert told.blocked.next == "find out what stopped the process of rank 2 on its node"

    def test_what_was_seen_in_one_collective_is_not_said_of_the_next(self, trains, wait, look):
        """The job may wait there for another reason."""
        look({2: ("stopped", False, "")})
        trains.update(*wait(24.0))
        look({}, standing=False)
        been_through(trains, dict.fromkeys(range(MEMBERS), 1))
        trains.update(*wait(60.0, other={rank: {"seq": 2} for rank in (0, 1, 3)}))
        been_through(trains, dict.fromkeys(range(MEMBERS), 2))
        assert "stopped" not in said(trains.update(range(MEMBERS), [], 161.0), {}).over

    @pytest.mark.parametrize(
        ("doing", "command"),
        [
            ("waiting", "py-spy dump --pid 4002 on its node"),
            ("waiting_for_loader", "py-spy dump --subprocesses --pid 4002 on its node"),
            ("in_kernel", "py-spy dump --nonblocking --pid 4002 on its node"),
            ("not_answering", "py-spy dump --native --pid 4002 on its node"),
        ],
    )
    def test_the_next_command_shows_what_its_own_stack_does_not(self, trains, wait, look, doing, command):
        """A loader's workers, native code; and it does not hang itself on a process that is in the kernel."""
        look({2: (doing, False, "")})
        assert said(trains.update(*wait(24)), {}).blocked.next == command

    @pytest.fixture
    def loads(self, trains):
        """Rank 2 waits for its data loader."""

        def look(**worker):
            words = {"doing": "waiting_for_loader", "moved": False, "line": "train.py:9 load", "pid": 4002}
            trains.look(range(MEMBERS), [RankLook(rank=2, time_s=0.0, **words, **worker)], standing=True)

        return look

    def test_the_line_of_a_loaders_worker_is_news(self, trains, wait, loads):
        """It is read after the rank has been found to wait for it."""
        loads()
        trains.update(*wait(12))
        loads(worker_line="dataset.py:54 read")
        told = said(trains.update(*wait(13)), {})
        assert "waiting for its data loader, whose worker is at dataset.py:54 read. Next: py-spy dump" in told.summary
        assert (told.blocked.worker_line, told.blocked.line) == ("dataset.py:54 read", "train.py:9 load")
        loads(worker_line="dataset.py:54 read")
        assert trains.update(*wait(14)) is None

    def test_why_a_workers_line_is_not_known_is_told(self, trains, wait, loads):
        """And is no reason for a revision."""
        loads()
        trains.update(*wait(12))
        loads(worker_unseen="py-spy is not installed on its node")
        assert trains.update(*wait(13)) is None
        told = said(trains.update(*wait(24)), {})
        assert "whose worker's line is not known: py-spy is not installed on its node. Next" in told.summary
        assert told.blocked.worker_line == ""

    def test_a_rank_that_was_stopped_after_a_collective_is_missing_from_the_next(self, trains, wait, look):
        """It has not reported the end of the one before, which all others are through: it waits for nobody there."""
        been_through(trains, {0: 0, 1: 0, 2: -1, 3: 0})
        look({2: ("stopped", False, "")})
        found = trains.update(*wait(24, range(4), {2: {"seq": 0}}))
        assert (found.state, said(found, {}).subject.ranks) == ("confirmed", (2,))

    def test_a_word_of_a_later_version_is_left_out(self, trains, wait, look):
        """What is done there has no words here; the line has."""
        look({2: ("dreaming", False, "train.py:1 f")})
        assert "has not called it: train.py:1 f. Next" in said(trains.update(*wait(24)), {}).summary

    def test_restored_it_goes_on(self, trains, wait, look):
        """Looks and calls are state, too."""
        look({2: SPINS})
        trains.update(*wait(12))
        again = Hang(HangConfig())
        again.load(trains.state())
        assert again.update(*wait(24)) == trains.update(*wait(24))


class TestCalls:
    def test_a_rank_that_calls_something_else_is_named(self, trains, wait):
        """It skipped a collective: all wait under the same number."""
        found = trains.update(*wait(24, range(4), {2: {"operation": "all_gather"}}))
        told = said(found, {2: "n"})
        assert (found.state, told.subject.ranks, told.blocked.victims) == ("confirmed", (2,), (0, 1, 3))
        assert "calls differ: ranks 0, 1 and 3 called all_reduce, rank 2 called all_gather." in told.summary
        assert told.blocked.operation == "all_reduce"

    def test_a_rank_that_passes_another_size_is_named(self, trains, wait):
        """Ranks of an all_reduce pass as many bytes."""
        sizes = {rank: {"bytes": 4 if rank == 1 else 8} for rank in range(4)}
        told = said(trains.update(*wait(24, range(4), sizes)), {})
        assert (told.subject.ranks, told.blocked.operation) == ((1,), "all_reduce")
        assert "ranks 0, 2 and 3 called all_reduce of 8 bytes, rank 1 called all_reduce of 4 bytes" in told.summary

    @pytest.mark.parametrize(
        "other",
        [
            {rank: {"operation": "all_to_all", "bytes": rank} for rank in range(4)},
            {rank: {"operation": "send" if rank % 2 else "recv"} for rank in range(4)},
            {2: {"operation": "collective", "bytes": 0}},
            {0: {"bytes": 8}, 1: {"bytes": 8}, 2: {"bytes": None}, 3: {"bytes": 8}},
        ],
    )
    def test_calls_that_may_differ_accuse_nobody(self, trains, wait, other):
        """Sizes of an all_to_all, a send and its recv, a call that is not known, a size of an earlier version."""
        assert trains.update(*wait(29, range(4), other)) is None
        assert said(trains.update(*wait(30, range(4), other)), {}).subject.ranks == ()

    def test_two_against_two_accuse_nobody(self, trains, wait):
        """Which of them is wrong cannot be known."""
        halves = {rank: {"operation": "all_gather"} for rank in (2, 3)}
        told = said(trains.update(*wait(24, range(4), halves)), {})
        assert told.subject.ranks == ()
        assert "ranks 2 and 3 called all_gather" in told.summary

    def test_groups_in_opposite_order_accuse_nobody(self, trains, wait):
        """Each pair waits where the other has not come."""
        been_through(trains, dict.fromkeys(range(4), 0), "second")
        crossed = {rank: {"group": "second"} for rank in (2, 3)}
        found = trains.update(*wait(24, range(4), crossed))
        assert (found.state, said(found, {}).subject.ranks) == ("confirmed", ())
        told = said(found, {})
        assert "ranks 2 and 3 wait in all_reduce #1 (group second) for these: two groups are used in" in told.summary
        assert told.blocked.victims == (0, 1, 2, 3)

    @pytest.fixture
    def first_calls(self, wait):
        """All wait in groups that nobody has been through a collective of; ``other``: by rank, another group than a."""

        def update(machine, seconds, other, expected=MEMBERS):
            waits = {rank: {"group": other.get(rank, "a"), "seq": 0} for rank in range(MEMBERS)}
            return machine.update(*wait(seconds, range(MEMBERS), waits), expected)

        return update

    def test_groups_in_opposite_order_from_their_first_collective_on(self, trains, first_calls):
        """Nothing tells their members: but everybody waits, and everywhere somebody lacks."""
        found = first_calls(trains, 24, {2: "b", 3: "b"})
        told = said(found, {})
        assert (found.state, told.subject.ranks, told.blocked.victims) == ("confirmed", (), (0, 1, 2, 3))
        assert "ranks 2 and 3 wait in all_reduce #0 (group b) for these: two groups are used in" in told.summary

    def test_three_groups_in_a_circle(self, trains, first_calls):
        """Each waits for a member that waits in the next."""
        found = first_calls(trains, 24, {1: "b", 2: "c", 3: "c"})
        assert (found.state, said(found, {}).subject.ranks) == ("confirmed", ())

    @pytest.mark.parametrize("expected", [0, MEMBERS + 1])
    def test_a_rank_that_does_not_wait_may_be_the_one_that_all_wait_for(self, trains, first_calls, expected):
        """Or how many ranks there are is not known: the groups' order is not said to differ, and not early."""
        assert first_calls(trains, 29, {2: "b", 3: "b"}, expected) is None
        told = said(first_calls(trains, 30, {2: "b", 3: "b"}, expected), {})
        assert "members of the group have never reported" in told.summary

    def test_a_group_that_lacks_nobody_is_no_matter_of_order(self, trains, wait):
        """Both ranks of it wait in it: the network."""
        waits = {rank: {"group": "pair", "seq": 0, "group_size": 2} for rank in (2, 3)}
        waits |= {rank: {"group": "all", "seq": 0, "group_size": 4} for rank in (0, 1)}
        told = said(trains.update(*wait(30, range(MEMBERS), waits), MEMBERS), {})
        assert "order" not in told.summary.partition("Next")[0]

    def test_a_rank_that_moves_while_a_collective_of_it_is_open_is_no_deadlock(self, trains, look, first_calls):
        """It issued the collective and works on."""
        look({3: MOVES})
        assert first_calls(trains, 29, {2: "b", 3: "b"}) is None

    def test_a_deadlock_restored_goes_on(self, trains, first_calls):
        """In the middle of it."""
        first_calls(trains, 12, {2: "b", 3: "b"})
        again = Hang(HangConfig())
        again.load(trains.state())
        other = {2: "b", 3: "b"}
        assert first_calls(again, 24, other) == first_calls(trains, 24, other)

    def test_calls_of_thousands_of_ranks_make_a_short_sentence(self, trains, wait):
        """Names of operations come from outside."""
        odd = {rank: {"operation": f"op{rank}" * 50} for rank in range(4)}
        assert len(said(trains.update(*wait(24, range(4), odd)), {}).summary) < 2000


class TestWhoLeaves:
    """Ranks that have waited give up, by a timeout of theirs or because they are ended, one before the other."""

    @pytest.mark.parametrize("leaving", [(0,), (0, 1), (0, 1, 3)])
    def test_whoever_called_something_else_stays_the_one(self, trains, wait, leaving):
        """Those who gave up have called it: they are not missing, and what they called still counts."""
        other = {2: {"operation": "all_gather"}}
        trains.update(*wait(24, range(4), other))
        stay = [rank for rank in range(4) if rank not in leaving]
        assert trains.update(*wait(41, stay, other)) is None
        told = said(trains.update(*wait(600, stay, other)) or trains.tracker.get("job"), {})
        assert told.subject.ranks == (2,)
        assert "ranks 0, 1 and 3 called all_reduce, rank 2 called all_gather" in told.summary

    def test_those_whose_call_has_failed_take_no_reason_away(self, trains, wait):
        """A call that raised counts as made. Of the others, soon to give up, nobody has said that they wait."""
        other = {2: {"operation": "all_gather"}}
        trains.update(*wait(41, range(4), other))
        trains.reach_each([(1, "default", 1), (2, "default", 1)])
        assert trains.update([1, 2], [], None) is None
        trains.reach_each([(0, "default", 1), (3, "default", 1)])
        assert trains.update([0, 3], [], None).state == "recovered"

    @pytest.mark.parametrize(
        ("reached", "words"),
        [(1, "now it goes on."), (0, "no rank waits there any longer, and none is known to have got")],
    )
    def test_when_nobody_waits_any_longer_it_goes_on_if_somebody_got_through(self, trains, wait, reached, words):
        """Else all of them gave up: the job may end of it."""
        trains.update(*wait(41))
        trains.reach_each([(0, "default", reached)])
        found = trains.update(range(MEMBERS), [], 142.0)
        assert found.state == "recovered"
        assert words in said(found, {}).over

    def test_the_missing_rank_stays_the_one(self, trains, wait, look):
        look({2: SPINS})
        trains.update(*wait(12))
        found = trains.update(*wait(24, (3,)))
        assert (found.state, said(found, {}).subject.ranks) == ("confirmed", (2,))

    def test_who_left_before_it_was_too_long_is_not_accused(self, trains, wait):
        """Their timeout is shorter than the threshold."""
        trains.update(*wait(5, range(4)))
        told = said(trains.update(*wait(30, (2,))), {})
        assert told.subject.ranks == ()
        assert "; ranks 0, 1 and 3 called it and no longer wait in it" in told.summary

    def test_who_never_was_through_a_collective_is_not_unknown_then(self, hang, wait):
        """It waited in the first one of its group."""
        waits = {rank: {"group": "new", "seq": 0} for rank in range(4)}
        hang.update(*wait(5, range(4), waits))
        told = said(hang.update(*wait(30, (2, 3), waits)), {})
        assert "ranks 0 and 1 called it and no longer wait in it" in told.summary

    def test_who_comes_back_or_goes_on_is_as_before(self, trains, wait):
        """A message was lost, or what ended is reported later."""
        trains.update(*wait(24))
        trains.update(*wait(25, (1, 3)))
        trains.update(*wait(26))
        assert trains.waits.first().waiting == [0, 1, 3]
        trains.update(*wait(27, (1, 3)))
        been_through(trains, {0: 1, 1: 0, 2: 0, 3: 0})
        trains.update(*wait(28, (1, 3)))
        assert (trains.waits.first().missing, list(trains.waits.first().left)) == ([2], [])

    def test_restored_it_goes_on(self, trains, wait):
        """Who gave up is state."""
        other = {2: {"operation": "all_gather"}}
        for ranks in (range(4), (2, 3)):
            trains.update(*wait(12, ranks, other))
        again = Hang(HangConfig())
        again.load(trains.state())
        for seconds in (24, 41):
            assert again.update(*wait(seconds, (2,), other)) == trains.update(*wait(seconds, (2,), other))
        assert said(again.tracker.get("job"), {}).subject.ranks == (2,)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_came_in_whichever_order_a_restored_one_knows_the_same(seed):
    """Counts and lists that follow each rank are what the state says, worked out anew."""
    random, groups = Random(seed), ("a", "b")
    live = Waits()

    def waits(rank):
        for group in random.sample(groups, random.randrange(3)):
            calls = random.choice(("all_reduce", "all_gather", "send")), random.choice((None, 4, 8))
            yield Wait(rank, group, random.choice((2, 5)), random.randrange(4), calls[0], random.random(), calls[1])

    for _ in range(60):
        rank, group = random.randrange(5), random.choice(groups)
        if random.random() < 0.3:
            live.reach(rank, group, random.randrange(4))
        else:
            live.stand(rank, waits(rank))
        if random.random() < 0.2:
            live.see(rank, random.choice(("", "a.py:1 f", "b.py:2 g")))
        assert known(again := restored(live)) == known(live)
        assert again.longest_s() == live.longest_s()


def restored(waits):
    one, other = Hang(HangConfig()), Hang(HangConfig())
    one.waits = waits
    other.load(one.state())
    for rank in range(5):
        other.waits.see(rank, waits._lines.get(rank, ""))
    return other.waits


def known(waits):
    """All that is known of each place."""
    return {
        place.where: (
            place.waiting, place.behind, place.missing, place.last_seq(), place.unknown(), place.below, place.calls(),
            place.differ(), place.lacks(), sorted(place.left), +place.lines, +place.operations, place.strangers,
        )
        for places in waits._places.values()
        for place in places.values()
    }  # fmt: skip


def test_it_fires_at_half_a_minute_and_is_sure_at_a_minute(hang, wait):
    """Told when the longest waiter has waited for the bar, confirmed at twice that; nothing in between."""
    told = [(seconds, hang.update(*wait(seconds))) for seconds in (10, 29, 30, 45, 60, 119)]
    assert [(seconds, episode.state) for seconds, episode in told if episode] == [(30, "suspected"), (60, "confirmed")]


def test_what_it_costs_is_told_at_every_doubling_and_at_the_end(hang, wait):
    """A page that shows what is lost of it is never half behind, and a report has all of it, once."""
    seen = [hang.update(*wait(seconds)) for seconds in (30, 60, 100, 120, 200, 240, 3600, 5000)]
    assert [episode.lost_s for episode in seen if episode] == [30, 60, 120, 240, 3600]
    assert "for 60 min 0 s; rank 2" in said(seen[-2], {}).summary
    last = hang.conclude()
    assert (last.state, last.lost_s, last.revision) == ("confirmed", 5000, 6)
    assert hang.conclude() is None


@pytest.mark.parametrize(
    ("doing", "live", "ended"),
    [
        ("computing", "py-spy dump --pid 77 on node b", "if it hangs again, py-spy dump of rank 2 on node b before"),
        ("in_kernel", "py-spy dump --nonblocking --pid 77", "py-spy dump --nonblocking of rank 2 on node b before"),
        ("stopped", "kill -CONT 77 on node b", "Next: find out what stopped the process of rank 2 on node b."),
    ],
)
def test_no_command_names_a_process_of_a_job_that_has_ended(hang, wait, doing, live, ended):
    """It is gone, and its number may be another's."""
    hang.look([2], [RankLook(rank=2, time_s=0.0, doing=doing, moved=False, line="train.py:12", pid=77)], standing=True)
    episode = hang.update(*wait(60))
    assert live in said(episode, {2: "b"}).summary
    last = said(episode, {2: "b"}, ended=True)
    assert "The job has ended." in last.summary
    assert ended in last.summary
    assert last.blocked.next in last.summary
    assert "77" not in last.summary


def test_a_suspicion_is_not_told_again_at_the_end(hang, wait):
    """It was never sure."""
    hang.update(*wait(30))
    hang.update(*wait(45))
    assert hang.conclude() is None


def test_a_job_that_has_seen_long_waits_is_given_longer(hang, wait, make_calls, join):
    """A rank that evaluates alone for twenty seconds is no hang in a job that has seen one."""
    hang.reach(join(make_calls([(0, 0, 0.0, 20.0)], members=MEMBERS)))
    assert hang.update(*wait(99)) is None
    assert hang.update(*wait(100)).state == "suspected"


@pytest.fixture
def later(hang, make_calls, join):
    """A message of the job long after its first steps: all ranks have waited for so long in one step."""

    def steps(waited_s, step):
        hang.reach(join(make_calls([(rank, step, 0.0, waited_s) for rank in range(MEMBERS)], members=MEMBERS)))
        been_through(hang, dict.fromkeys(range(MEMBERS), 0))

    return steps


def stands(hang, wait, longest):
    """When a wait of so long is suspected and confirmed; then all go on, having been through it."""
    found = states(hang, wait, range(5, longest + 1, 5))
    been_through(hang, dict.fromkeys(range(MEMBERS), 1))
    hang.update(*wait(longest + 1, ()))
    been_through(hang, dict.fromkeys(range(MEMBERS), 0))
    return {state: second for second, state in reversed(found)}


def test_waits_of_the_first_steps_are_not_usual(hang, wait, later, make_calls, join):
    """A step compiled for 200 s: so long a wait may come again in the next of them, but not later."""
    hang.reach(join(make_calls([(0, 1, 0.0, 200.0)], members=MEMBERS)))
    assert stands(hang, wait, 295) == {}
    later(0.5, 4)
    assert hang.longest_s == 200.0
    later(0.5, 6)
    later(200.0, 4)
    assert hang.longest_s == 0.5
    assert stands(hang, wait, 60) == {"suspected": 30, "confirmed": 60}


def test_what_was_confirmed_as_a_hang_is_not_usual(hang, wait, later):
    """The next hang is reported as early as it was, whichever node reports the first one's waits last."""
    later(0.5, 10)
    assert stands(hang, wait, 600) == {"suspected": 30, "confirmed": 60}
    later(600.0, 11)
    later(598.0, 11)
    assert hang.longest_s == 0.5
    later(2.0, 30)
    assert hang.longest_s == 2.0
    assert stands(hang, wait, 90) == {"suspected": 30, "confirmed": 60}


@pytest.mark.parametrize("pause_s", [90, 200, 350])
def test_a_long_pause_that_comes_again_is_reported_twice_at_most(hang, wait, later, pause_s):
    """An evaluation on one rank of which no looks tell. A real hang is reported all the same, before NCCL's limit."""
    later(0.5, 10)
    assert stands(hang, wait, pause_s)
    later(0.5, 20)
    assert stands(hang, wait, pause_s)
    later(0.5, 30)
    assert stands(hang, wait, pause_s) == {}
    assert stands(hang, wait, 599)["suspected"] <= 360


@pytest.mark.parametrize(("usual_s", "suspected"), [(20, 100), (60, 240), (150, 240), (200, 300), (400, 600)])
def test_a_hang_is_reported_after_four_minutes_unless_waits_are_nearly_as_long(hang, wait, later, usual_s, suspected):
    """They ended well and were not reported: the job itself waits so long."""
    later(usual_s, 10)
    assert stands(hang, wait, 2 * suspected) == {"suspected": suspected, "confirmed": 2 * suspected}


def test_a_rank_that_moved_for_long_makes_no_wait_usual(trains, wait, look):
    """It moves in its next checkpoint as well."""
    trains.last_step = 10
    look({2: MOVES})
    assert states(trains, wait, range(5, 501, 5)) == []
    assert trains.usual_from == 12


def test_jobs_whose_steps_have_no_numbers_have_usual_waits(make_calls, join):
    """Nothing says which of them are the first."""
    hang = Hang(HangConfig())
    hang.reach(join(make_calls([(0, -1, 0.0, 20.0)], members=MEMBERS))._replace(longest_wait_s=20.0))
    assert (hang.last_step, hang.longest_s) == (-1, 20.0)


def test_who_is_missing_is_accused(hang, wait):
    """The rank that has not come to the collective, and where it runs."""
    told = said(hang.update(*wait(30)), {2: "node-1"})
    assert (told.subject.ranks, told.subject.nodes) == ((2,), ("node-1",))
    assert "Ranks 0, 1 and 3 have been blocked in all_reduce #1 (group default) for 30 s" in told.summary
    assert "rank 2 has not called it. Next: py-spy dump of rank 2 on node node-1." in told.summary


def test_where_everybody_waits_nobody_is_accused(hang, wait):
    """Then it is the network, or calls that do not match."""
    told = said(hang.update(*wait(30, range(MEMBERS))), {})
    assert told.subject.ranks == ()
    assert "every member of the group waits in it or in another collective" in told.summary


def test_it_is_over_when_nobody_waits(hang, wait):
    """Everybody got through."""
    hang.update(*wait(30))
    assert hang.update(*wait(31, ())).state == "recovered"
    assert hang.update(*wait(32, ())) is None


def test_restored_it_goes_on(hang, wait):
    """State is data: who waits, what was reached, and the episode."""
    hang.update(*wait(30))
    again = Hang(HangConfig())
    again.load(hang.state())
    assert again.update(*wait(60)) == hang.update(*wait(60))
