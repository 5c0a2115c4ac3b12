"""What waits for a tracker: in order, bounded, and tried ever more seldom."""

from collections.abc import Callable
from random import Random

import pytest

from paceline.tracking.backlog import ASKED_S, AT_ONCE, CAP_S, MOST_APART, Backlog


@pytest.mark.long
def test_a_tracker_that_is_away_for_hours_costs_a_bounded_memory_and_few_attempts() -> None:
    backlog: Backlog[int] = Backlog(Random(3), most=500)
    attempts = []
    for second in range(4 * 3600):
        backlog.add(second)
        if backlog.due(float(second)):
            attempts.append(second)
            backlog.failed(float(second))
    assert backlog.waiting == 500
    assert backlog.lost == 4 * 3600 - 500
    assert len(attempts) < 4 * 3600 / (CAP_S / 2) + 10
    assert backlog.due(1e9) == list(range(4 * 3600 - 500, 4 * 3600 - 500 + AT_ONCE))


def test_what_was_taken_is_gone_and_the_next_is_due_at_once() -> None:
    backlog: Backlog[str] = Backlog(Random(3))
    for word in ("a", "b", "c"):
        backlog.add(word)
    backlog.failed(10.0)
    assert backlog.due(10.0) == []
    assert backlog.due(10.0, last=True) == ["a", "b", "c"]
    backlog.done(1)
    backlog.refuse(1, 10.0)
    assert (backlog.due(10.0), backlog.logged, backlog.refused) == (["c"], 1, 1)


def test_what_goes_for_want_of_room_while_it_is_on_its_way_was_logged_all_the_same() -> None:
    """And nothing that was not on its way counts as logged."""
    backlog: Backlog[int] = Backlog(Random(3), most=3)
    for number in range(3):
        backlog.add(number)
    assert backlog.due(0.0) == [0, 1, 2]
    for number in (3, 4):
        backlog.add(number)
    backlog.done(2)
    assert (backlog.logged, backlog.lost, backlog.due(0.0)) == (2, 0, [2, 3, 4])


class Receiver:
    """Answers what is due: ``takes`` says whether it is taken, and ``fails`` what becomes of it otherwise."""

    def __init__(self, backlog: Backlog[str], takes: Callable[[list[str]], bool], fails: str) -> None:
        self.backlog, self.takes, self.fails = backlog, takes, fails
        self.taken: list[str] = []
        self.tries: list[float] = []
        self.now_s = 0.0

    def run(self, seconds: float) -> None:
        """Pass ``seconds``, half a second at a time; within it, all that is due at once."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            while due := self.backlog.due(self.now_s):
                self.tries.append(self.now_s)
                if self.takes(due):
                    self.taken += due
                    self.backlog.done(len(due))
                elif self.fails == "refused":
                    self.backlog.refuse(len(due), self.now_s)
                else:
                    self.backlog.set_apart(len(due), self.now_s)
            self.now_s += 0.5


def good(items: list[str]) -> bool:
    return not any("bad" in item for item in items)


@pytest.mark.parametrize("fails", ["refused", "apart"])
@pytest.mark.parametrize("bad", [{0}, {99}, {100}, {7, 8, 150}])
def test_what_is_not_taken_holds_up_no_other(fails: str, bad: set[int]) -> None:
    """And only what is refused for good is dropped."""
    backlog: Backlog[str] = Backlog(Random(3))
    receiver = Receiver(backlog, good, fails)
    names = [f"{'bad' if number in bad else 'good'}-{number}" for number in range(200)]
    for name in names:
        backlog.add(name)
    receiver.run(600.0)
    wanted = [name for name in names if "good" in name]
    assert sorted(receiver.taken) == sorted(wanted)
    assert fails == "apart" or receiver.taken == wanted
    assert (backlog.refused, backlog.waiting) == ((len(bad), 0) if fails == "refused" else (0, len(bad)))
    assert backlog.lost == 0


def test_the_one_that_is_refused_is_found_in_few_requests() -> None:
    backlog: Backlog[str] = Backlog(Random(3))
    receiver = Receiver(backlog, good, "refused")
    for number in range(AT_ONCE):
        backlog.add("bad" if number == 63 else f"good-{number}")
    receiver.run(0.5)
    assert (backlog.refused, backlog.waiting) == (1, 0)
    assert len(receiver.tries) <= 16


@pytest.mark.long
@pytest.mark.parametrize("fails", ["refused", "apart"])
def test_a_receiver_that_takes_nothing_is_not_asked_without_end(fails: str) -> None:
    backlog: Backlog[str] = Backlog(Random(3))
    receiver = Receiver(backlog, lambda items: False, fails)
    for number in range(1000):
        backlog.add(f"item-{number}")
    receiver.run(3600.0)
    assert len(receiver.tries) < 3600.0 / (CAP_S / 2) + 30
    assert backlog.refused == 0 if fails == "apart" else backlog.refused < 60
    receiver.takes = lambda items: True
    receiver.run(120.0)
    assert (backlog.logged + backlog.refused, backlog.waiting, backlog.failing) == (1000, 0, False)


def test_what_fails_alone_waits_ever_longer_by_itself() -> None:
    backlog: Backlog[str] = Backlog(Random(3))
    receiver = Receiver(backlog, good, "apart")
    backlog.add("bad")
    for number in range(600):
        backlog.add(f"good-{number}")
        receiver.run(1.0)
    assert len(receiver.taken) == 600
    assert len(receiver.tries) - 600 < 600.0 / (CAP_S / 2) + 10
    assert backlog.failing


@pytest.mark.long
def test_many_that_fail_are_all_kept_and_hold_up_no_other_for_long() -> None:
    backlog: Backlog[str] = Backlog(Random(3))
    receiver = Receiver(backlog, good, "apart")
    for number in range(MOST_APART + 6):
        backlog.add(f"bad-{number}")
        receiver.run(60.0)
    backlog.add("good")
    receiver.run(180.0)
    assert receiver.taken == ["good"]
    assert backlog.waiting == MOST_APART + 6


def test_one_queue_that_fails_holds_up_no_other_and_a_receiver_that_does_holds_up_its_own() -> None:
    backlog: Backlog[str] = Backlog(Random(3), place=lambda item: (item[0], item))
    for item in ("a1", "a2", "b1"):
        backlog.add(item)
    assert backlog.due(0.0) == ["a1"]
    backlog.hold(0.0)
    assert backlog.due(0.0) == ["a2"]
    backlog.failed(0.0)
    assert backlog.due(0.0) == ["b1"]
    backlog.done(1)
    assert backlog.due(0.0) == []
    backlog.due(10.0)
    backlog.done(1)
    backlog.due(10.0)
    backlog.done(1)
    assert (backlog.waiting, backlog.logged, backlog.failing) == (0, 3, False)


def test_a_receiver_may_ask_for_a_wait_within_a_bound() -> None:
    backlog: Backlog[str] = Backlog(Random(3))
    backlog.add("a")
    backlog.due(0.0)
    backlog.failed(0.0, 60.0)
    assert (backlog.due(59.0), backlog.due(60.0)) == ([], ["a"])
    backlog.set_apart(1, 60.0, 1e9)
    assert (backlog.due(59.0 + ASKED_S), backlog.due(60.0 + ASKED_S)) == ([], ["a"])


def test_what_goes_for_want_of_room_is_the_oldest_of_all_queues() -> None:
    """Also of what is on its way to be set apart: that went, and is not there twice."""
    backlog: Backlog[str] = Backlog(Random(3), most=4)
    for item in "abcd":
        backlog.add(item)
    backlog.due(0.0)
    backlog.add("e")
    backlog.set_apart(4, 0.0)
    backlog.add("f")
    kept = [backlog.due(100.0, last=True) for _ in range(2)]
    assert sorted(item for part in kept for item in part) == ["c", "d", "e", "f"]
    assert (backlog.waiting, backlog.lost) == (4, 2)
