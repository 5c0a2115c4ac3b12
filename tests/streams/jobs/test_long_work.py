"""Long work on one rank, seen through the looks of each node by a simulated clock: no hang, whatever comes together.

What it assumes: the nodes' clocks may be minutes apart; looks of a node come as its sidecar asks for them, or never.
"""

from dataclasses import dataclass, field

import pytest

from paceline.events import OpenCollective
from paceline.sidecar.look_verdict import ProcessLook
from paceline.sidecar.looks import Looks
from paceline.sidecar.worker_lines import WorkerLines
from paceline.training.look_messages import Looked
from streams.jobs.hang import Hang, HangConfig
from streams.jobs.hang_findings import said

RANKS, JOB = 4, ("train", 0)
NODES = {"a": (0, 1), "b": (2, 3)}
#: What a rank works at: its innermost frames, and what grows by the second.
WORK = {
    "evaluation": (["torch/nn/modules/module.py:1750 _call_impl", "train.py:60 evaluate"], {"cpu_s": 1.0}),
    "checkpoint": (["torch/serialization.py:965 save", "train.py:80 save"], {"written_bytes": 40_000_000}),
    "compilation": (["torch/_dynamo/convert_frame.py:700 compile", "train.py:30 step"], {"cpu_s": 1.0}),
    "slow loader": (["torch/utils/data/dataloader.py:1133 get", "train.py:20 load"], {"children_cpu_s": 2.0}),
}
LOCK = (["train.py:15 lock"], {})
LOOP = (["train.py:45 spin"], {"cpu_s": 1.0})


@dataclass
class Cluster:
    """Ranks of two nodes. ``work`` is, by rank, from when to when it works at what; otherwise it waits for the others
    in the collective, unless it ``leads``: all have gone on by then."""

    work: dict[int, list[tuple[float, float, tuple]]]
    first: bool = False
    unseen: str = ""
    timed: bool = True
    skew_s: float = 300.0
    hang: Hang = field(default_factory=lambda: Hang(HangConfig()))

    def __post_init__(self):
        self.clock = 0.0
        self.looks = {name: Looks(self._process, WorkerLines(None)) for name in NODES}
        for name, ranks in NODES.items():
            for rank in ranks:
                self.looks[name].join((JOB, rank), 100 + rank, 0.0)
        if not self.first:
            self.hang.last_step = 5
            for rank in range(RANKS):
                self.hang.waits.reach(rank, "world", 9)

    def _doing(self, rank):
        return next((what for start, end, what in self.work.get(rank, ()) if start <= self.clock < end), None)

    def _process(self, pid, task):
        grown = dict.fromkeys(("cpu_s", "children_cpu_s", "read_bytes", "written_bytes"), 0.0)
        for start, end, (_, growth) in self.work.get(pid - 100, ()):
            for name, rate in growth.items():
                grown[name] += rate * max(min(self.clock, end) - start, 0.0)
        return ProcessLook(
            "S", "", grown["cpu_s"], grown["children_cpu_s"], int(grown["read_bytes"]), int(grown["written_bytes"])
        )

    def _since(self, rank):
        return max((end for start, end, _ in self.work.get(rank, ()) if start <= self.clock), default=0.0)

    def _turn(self, name, number):
        looks = self.looks[name]
        for (job, rank), asked in list(looks.wishes(self.clock)):
            frames = (self._doing(rank) or (["distributed_c10d.py:9 wait", "train.py:31 step"], {}))[0]
            line = next(frame for frame in frames if frame.startswith("train.py"))
            looks.answer((job, rank), Looked(asked, 0, self.timed, line, frames))
        seen = looks.drain(self.clock, 1e9 + self.clock).get(JOB, [])
        if not (seen or number % 5 == 0):
            return None
        now_s = 1e6 + self.clock + (self.skew_s if name == "b" else 0.0)
        words = {"group": "world", "group_size": RANKS, "seq": 10, "operation": "all_reduce", "bytes": 4}
        waits = [rank for rank in NODES[name] if self._doing(rank) is None]
        open_ = [OpenCollective(rank=rank, start_s=now_s - self.clock + self._since(rank), **words) for rank in waits]
        self.hang.look(NODES[name], [] if name == self.unseen else seen, standing=True)
        return self.hang.update(NODES[name], open_, now_s, RANKS)

    def until(self, end_s):
        """What is reported by then: when, the state, whom and the summary."""
        told = []
        for number in range(int(self.clock) + 1, end_s + 1):
            self.clock = float(number)
            for name in NODES:
                if (episode := self._turn(name, number)) is not None:
                    words = said(episode, {})
                    told.append((number, episode.state, words.subject.ranks, words.summary))
        return told


@pytest.fixture(params=WORK)
def work(request):
    """What is done."""
    return WORK[request.param]


FOR_EVER = 10_000.0


@pytest.mark.parametrize("first", [False, True], ids=["later", "first collective"])
class TestOneAfterTheOther:
    """Also where the long work comes before the first collective of the job, whose members are not known yet."""

    def test_five_minutes_of_work_are_no_hang(self, work, first):
        assert Cluster({2: [(0, 300, work)]}, first).until(299) == []

    def test_two_ranks_that_work_one_after_the_other_are_no_hang(self, work, first):
        """The second waits for the first with a lock; when its turn comes, the last look at it is of before."""
        cluster = Cluster({2: [(0, 240, work)], 1: [(0, 241, LOCK), (241, 480, work)]}, first)
        assert cluster.until(479) == []

    def test_two_on_one_node_neither(self, work, first):
        cluster = Cluster({2: [(0, 240, work)], 3: [(0, 243, LOCK), (243, 480, work)]}, first)
        assert cluster.until(479) == []

    def test_what_stands_still_after_long_work_is_a_hang(self, work, first):
        """Not in the moment in which it is seen to stand, and within a minute and a half."""
        told = Cluster({2: [(0, 200, work), (200, FOR_EVER, LOCK)]}, first).until(300)
        assert [(state, ranks) for _, state, ranks, _ in told] == [("suspected", (2,)), ("confirmed", (2,))]
        assert told[0][0] > 205
        assert told[1][0] < 290

    def test_a_rank_that_stands_still_is_named(self, work, first):
        told = Cluster({2: [(0, FOR_EVER, LOCK)]}, first).until(90)
        assert [(state, ranks) for _, state, ranks, _ in told[:2]] == [("suspected", (2,)), ("confirmed", (2,))]
        assert {(state, ranks) for _, state, ranks, _ in told[2:]} <= {("confirmed", (2,))}, "it has grown"
        assert "rank 2 has not called it: train.py:15 lock, it is waiting there" in told[1][3]
        assert told[1][0] <= (30 if not first else 65)

    @pytest.mark.long
    def test_for_ever_is_reported_after_ten_minutes(self, work, first):
        told = Cluster({2: [(0, FOR_EVER, work)]}, first).until(700)
        assert [(state, ranks) for _, state, ranks, _ in told] == [("confirmed", (2,))]
        assert told[0][0] >= 600
        assert "no hang" not in told[0][3]


@pytest.mark.parametrize("first", [False, True], ids=["later", "first collective"])
def test_a_probe_that_is_sampled_changes_nothing_for_work_that_is_recognised(work, first):
    assert Cluster({2: [(0, 300, work)]}, first, timed=False).until(299) == []


def test_python_that_computes_in_a_step_that_the_probe_leaves_out_is_not_reported_early():
    """It cannot be told from a loop: with the thresholds without looks."""
    told = Cluster({2: [(0, FOR_EVER, LOOP)]}, timed=False).until(90)
    assert [(second, state) for second, state, _, _ in told] == [(30, "suspected"), (60, "confirmed")]


@pytest.mark.parametrize("first", [False, True], ids=["later", "first collective"])
def test_without_looks_of_its_node_it_is_said_that_they_are_missing(work, first):
    """The finding says what it does not know, and comes no earlier than without any looks."""
    told = Cluster({2: [(0, 300, work)]}, first, unseen="b").until(299)
    assert [(second, state) for second, state, _, _ in told] == [
        (30, "suspected"),
        *((second, "confirmed") for second in (60, 120, 240)),
    ]
    assert all(("no looks arrive" if not first else "never reported") in words for *_, words in told)


def test_looks_that_come_late_end_the_worry(work):
    """It was suspected before the first look showed that the rank works: that is news, and it goes no further."""
    cluster = Cluster({2: [(0, 300, work)]}, unseen="b")
    assert [state for _, state, _, _ in cluster.until(35)] == ["suspected"]
    cluster.unseen = ""
    told = cluster.until(299)
    assert [(state, ranks) for _, state, ranks, _ in told] == [("suspected", (2,))]
    assert "That is no hang while it goes on." in told[0][3]


def test_restored_in_the_middle_it_goes_on(work):
    """From when the missing rank last moved, too."""
    cluster = Cluster({2: [(0, 200, work), (200, FOR_EVER, LOCK)]})
    cluster.until(205)
    again = Hang(HangConfig())
    again.load(cluster.hang.state())
    assert again.moved_s == cluster.hang.moved_s > 190
    assert again.state() == cluster.hang.state()


def of_eight(what):
    """Three ranks wait in the first collective of a group of four, in a job of eight: others may be the fourth."""
    cluster = Cluster({2: [(0, FOR_EVER, what)]}, first=True)
    cluster.hang.update = lambda ranks, open_, now_s, expected: Hang.update(cluster.hang, ranks, open_, now_s, 8)
    return cluster


def test_a_group_of_some_ranks_waits_for_one_that_may_be_a_member_and_works(work):
    assert of_eight(work).until(299) == []


def test_a_group_of_some_ranks_names_none_that_it_may_not_hold():
    told = of_eight(LOCK).until(90)
    assert [(state, ranks) for _, state, ranks, _ in told] == [("suspected", ()), ("confirmed", ())]
    assert "1 member of the group has never reported" in told[0][3]
