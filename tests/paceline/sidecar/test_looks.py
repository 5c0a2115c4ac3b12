"""When ranks are looked at, and what is reported of it."""

from itertools import pairwise

import pytest

from paceline.sidecar.look_verdict import ProcessLook
from paceline.sidecar.looks import AGAIN_S, ANSWER_S, LEAST_S, LONGEST_S, MOST_LOOKED, MOST_S, Looks
from paceline.sidecar.worker_lines import WorkerLines
from paceline.training.look_messages import Looked

JOB = ("train", 0)


class Node:
    """A node whose ranks answer at once, by a clock that is handed in."""

    def __init__(self, ranks=2):
        self.processes = {100 + rank: ProcessLook("S") for rank in range(ranks)}
        self.looks = Looks(lambda pid, task: self.processes.get(pid), WorkerLines(None))
        self.silent = set()
        for rank in range(ranks):
            self.looks.join((JOB, rank), 100 + rank, 0.0)

    def turn(self, now_s):
        """What is reported at ``now_s``."""
        asked = list(self.looks.wishes(now_s))
        for (job, rank), number in asked:
            if rank not in self.silent:
                frames = [f"train.py:{rank + 1} main"]
                self.looks.answer((job, rank), Looked(number, 0, True, frames[0], frames))
        return self.looks.drain(now_s, 1e9 + now_s).get(JOB, [])

    def looked_at(self, until_s):
        """The seconds at which somebody is looked at."""
        return [second for second in range(until_s) if self.turn(float(second))]


@pytest.fixture
def node():
    return Node()


def test_nothing_is_asked_while_ranks_move(node):
    """A look costs nothing where nothing hangs."""
    for second in range(100):
        for rank in (0, 1):
            node.looks.mark((JOB, rank), float(second))
        assert node.turn(second + 0.5) == []


def test_a_rank_that_gets_no_further_is_looked_at_twice_and_then_ever_more_rarely(node):
    """After five seconds, five more, and at pauses that double up to 20 s."""
    seconds = node.looked_at(400)
    gaps = [later - earlier for earlier, later in pairwise(seconds)]
    assert (seconds[0], gaps[:4], max(gaps)) == (LEAST_S, [AGAIN_S, 10, 20, 20], LONGEST_S)


def test_a_job_with_long_gaps_is_looked_at_later_but_not_much(node):
    """Three times the longest gap so far, and no more than ``MOST_S``."""
    node.looks.mark((JOB, 0), 3.0)
    node.looks.mark((JOB, 1), 3.0)
    assert (node.turn(3.0 + 8.9), bool(node.turn(3.0 + 9.0))) == ([], True)
    for rank in (0, 1):
        node.looks.mark((JOB, rank), 100.0)
    assert (node.turn(100.0 + MOST_S - 0.1), bool(node.turn(100.0 + MOST_S))) == ([], True)


def test_both_looks_together_say_who_moves(node):
    """One rank stands still at a line; the other's probe goes on."""
    node.looks.mark((JOB, 1), 1.0)
    assert [(one.rank, one.moved, one.line) for one in node.turn(5.0)] == [
        (0, None, "train.py:1 main"),
        (1, True, "train.py:2 main"),
    ]
    node.looks.mark((JOB, 1), 9.0)
    first, second = node.turn(10.0)
    assert (first.doing, first.moved, first.pid, first.time_s) == ("waiting", False, 100, 1e9 + 10)
    assert (second.doing, second.moved) == ("moving", True)


def test_while_somebody_moves_looks_go_on_every_few_seconds(node):
    """What moves may stop at any time."""
    seconds = []
    for second in range(60):
        node.looks.mark((JOB, 1), float(second))
        seconds += [second] if node.turn(float(second)) else []
    assert seconds == list(range(5, 60, 5))


def test_a_rank_that_does_not_answer_is_not_waited_for(node):
    """What the kernel says of it is reported, with no line."""
    node.silent.add(1)
    assert node.turn(5.0) == []
    assert node.turn(5.0 + ANSWER_S - 0.1) == []
    looks = node.turn(5.0 + ANSWER_S)
    assert [(one.doing, one.line) for one in looks] == [("unknown", "train.py:1 main"), ("not_answering", "")]


def test_a_late_answer_to_an_earlier_look_is_ignored(node):
    """It shows where the rank was then."""
    node.silent |= {0, 1}
    number = dict(node.looks.wishes(5.0))[JOB, 0]
    node.looks.drain(8.0, 0.0)
    node.looks.answer((JOB, 0), Looked(number, 0, True, "old", ["old"]))
    list(node.looks.wishes(10.0))
    node.looks.answer((JOB, 0), Looked(number, 0, True, "old", ["old"]))
    assert [one.line for one in node.looks.drain(13.0, 0.0)[JOB]] == ["", ""]


def test_a_process_that_is_not_visible_is_no_proof_of_anything():
    """Its number is 0 here: it has not gone, as far as is known."""
    node = Node(0)
    node.looks.join((JOB, 0), 0, 0.0)
    assert [one.doing for one in node.turn(5.0)] == ["unknown"]
    assert [(one.doing, one.moved) for one in node.turn(10.0)] == [("unknown", None)]


def test_a_process_that_has_gone_is_said_so(node):
    """Its socket may still be open in a child."""
    del node.processes[101]
    assert [one.doing for one in node.turn(5.0)] == ["unknown", "gone"]


def test_an_answer_is_cut_to_what_travels(node):
    """A rank may say whatever it likes."""
    number = dict(node.looks.wishes(5.0))[JOB, 0]
    for rank in (0, 1):
        node.looks.answer((JOB, rank), Looked(number, 0, True, "x" * 10_000, ["y" * 10_000] * 1000))
    first = node.looks.drain(5.0, -1.0)[JOB][0]
    assert (len(first.line), len(first.frames), len(first.frames[0]), first.time_s) == (200, 8, 200, 0.0)


def test_of_many_ranks_some_are_looked_at():
    """A node of a thousand ranks is no reason for a thousand questions."""
    assert len(Node(1000).turn(5.0)) == MOST_LOOKED


def test_who_has_left_is_forgotten(node):
    """The others' looks do not wait for it."""
    node.looks.leave((JOB, 0))
    assert [one.rank for one in node.turn(5.0)] == [1]
    node.looks.leave((JOB, 1))
    node.looks.leave((JOB, 1))
    node.looks.mark((JOB, 1), 6.0)
    assert node.looked_at(100) == []


def test_ranks_that_move_need_no_question(node):
    """Whoever wrote something down in the last seconds is reported as moving."""
    node.looks.mark((JOB, 1), 50.0)
    assert [(one.rank, one.moved) for one in node.looks.moving(JOB, 51.0, 0.0)] == [(1, True)]
    assert node.looks.moving(("other", 0), 51.0, 0.0) == []
