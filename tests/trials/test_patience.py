"""Somebody who is away is asked again: for a while, and no longer where a person wants all to end."""

import threading
from random import Random

import pytest

from paceline.backoff import Backoff
from trials.executor import ExecutorError
from trials.patience import Patience


class AwayError(Exception):
    """Nobody answers."""


class Asking:
    """Nobody answers for so many questions; ``now_s`` is the clock that waiting moves."""

    def __init__(self, away: int) -> None:
        self.away, self.now_s, self.asked = away, 0.0, threading.Event()
        self.patience = Patience(self.asked, lambda: self.now_s, self._passes)

    def _passes(self, seconds: float) -> None:
        self.now_s += seconds

    def __call__(self, *, ending: bool = False) -> str:
        def ask() -> str:
            self.away -= 1
            if self.away >= 0:
                raise AwayError("it is away")
            return "here"

        backoff = Backoff(1.0, 8.0, Random(0))
        return self.patience.answer(ask, (AwayError,), backoff, 60.0, "look", ending=ending)


def test_an_answer_that_comes_in_time_is_the_answer():
    assert Asking(3)() == "here"


def test_nobody_is_asked_for_ever():
    asking = Asking(10**6)
    with pytest.raises(ExecutorError, match="it is away, for 60 s; fix: look"):
        asking()
    assert asking.now_s <= 60


def test_who_is_asked_to_end_asks_no_more_but_to_end_what_runs():
    asking = Asking(2)
    asking.asked.set()
    with pytest.raises(ExecutorError, match="asked to end"):
        asking()
    assert asking(ending=True) == "here"


def test_a_long_wait_ends_when_a_person_asks():
    """By the real clock: an hour's pause is none."""
    asked = threading.Event()
    patience, backoff = Patience(asked), Backoff(3600.0, 7200.0, Random(0))

    def ask() -> None:
        threading.Timer(0.05, asked.set).start()
        raise AwayError

    with pytest.raises(ExecutorError, match="asked to end"):
        patience.answer(ask, (AwayError,), backoff, 1e6, "look")
