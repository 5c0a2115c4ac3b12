"""A message that a destination does not take, for now or for good: its parts, and that nothing waits for it."""

from collections.abc import Callable
from random import Random

import pytest

from paceline.alerts.book import AlertBook
from paceline.alerts.destination import Destination, Profile
from paceline.alerts.message import Message
from tests.derived_events import finding

MACHINE = Profile(most=100, lists_all=True)
PEOPLE = Profile(most=10, lists_all=False)
REPEATED = Profile(most=200, lists_all=True, gather_s=0.0, repeat_s=60.0)
PROFILES = pytest.mark.parametrize("profile", [MACHINE, PEOPLE, REPEATED])


class Receiver:
    """Answers each message at once: ``takes`` says whether it is taken."""

    def __init__(self, profile: Profile, takes: Callable[[Message], bool], for_good: bool = False) -> None:
        self.book, self.destination = AlertBook(), Destination(profile, "warning", 6, Random(1))
        self.takes, self.for_good = takes, for_good
        self.told: dict[str, float] = {}
        self.dropped: list[str] = []
        self.tries: list[float] = []
        self.bad_s: list[float] = []
        self.now_s = 0.0

    def hear(self, *names: str, job: str | None = None, severity: str = "critical") -> None:
        for name in names:
            self.book.update(finding(id=name, job=job or name, severity=severity), self.now_s)

    def run(self, seconds: float) -> None:
        """Pass ``seconds``, two at a time."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            message = self.destination.next(self.book, self.now_s, self.now_s)
            if message is not None:
                self._answer(message)
            self.now_s += 2.0

    def _answer(self, message: Message) -> None:
        names = [entry.alert.id for entry in message.entries]
        self.tries.append(self.now_s)
        if any("bad" in name for name in names):
            self.bad_s.append(self.now_s)
        if self.takes(message):
            self.destination.sent(message, self.now_s)
            for name in message.marks:
                self.told.setdefault(name, self.now_s)
        elif not self.for_good:
            self.destination.failed(message, self.now_s, reached=True)
        elif self.destination.refused(message, self.now_s):
            self.dropped += names


def good(message: Message) -> bool:
    return not any("bad" in entry.alert.id for entry in message.entries)


@PROFILES
@pytest.mark.parametrize("for_good", [False, True])
def test_one_that_is_refused_silences_no_other(profile: Profile, for_good: bool) -> None:
    receiver = Receiver(profile, good, for_good)
    receiver.hear("bad")
    receiver.run(60.0)
    receiver.hear(*(f"innocent-{number}" for number in range(3)))
    receiver.run(120.0)
    assert {name for name in receiver.told if "innocent" in name} == {f"finding:innocent-{n}" for n in range(3)}
    assert ("finding:bad" in receiver.dropped) is for_good


@pytest.mark.long
@PROFILES
@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize("bad", [1, 7])
def test_those_in_one_message_with_it_are_told_without_it(profile: Profile, for_good: bool, bad: int) -> None:
    receiver = Receiver(profile, good, for_good)
    receiver.hear(*(f"{'bad' if n % (60 // bad) == 5 else 'good'}-{n}" for n in range(60)), job="one")
    receiver.run(1200.0)
    assert len({name for name in receiver.told if "good" in name}) == 60 - bad
    if for_good and profile is not PEOPLE:
        assert sorted(set(receiver.dropped)) == sorted(f"finding:bad-{n}" for n in range(60) if n % (60 // bad) == 5)


@PROFILES
def test_what_is_too_large_for_a_receiver_goes_in_smaller_messages(profile: Profile) -> None:
    receiver = Receiver(profile, lambda message: len(message.entries) <= 4, for_good=True)
    receiver.hear(*(f"f{number}" for number in range(60)), job="one")
    receiver.run(900.0)
    assert len(receiver.told) == 60
    assert receiver.dropped == []


@PROFILES
def test_what_fails_alone_waits_ever_longer_by_itself(profile: Profile) -> None:
    receiver = Receiver(profile, good)
    receiver.hear("bad")
    receiver.run(2 * 3600.0)
    waits = [after - before for before, after in zip(receiver.bad_s, receiver.bad_s[1:], strict=False)]
    assert waits[0] <= 10.0
    assert 100.0 < max(waits) < 600.0
    assert len(receiver.bad_s) < 100


@pytest.mark.long
def test_jobs_with_hostile_names_in_any_number_keep_nobody_waiting_for_long() -> None:
    receiver = Receiver(MACHINE, good)
    for number in range(100):
        receiver.hear(f"bad-{number}")
        receiver.run(60.0)
    receiver.hear("innocent")
    began_s = receiver.now_s
    receiver.run(600.0)
    assert receiver.told["finding:innocent"] - began_s < 180.0


@pytest.mark.long
def test_a_receiver_that_refuses_everything_is_not_asked_without_end() -> None:
    receiver = Receiver(MACHINE, lambda message: False)
    receiver.hear(*(f"f{number}" for number in range(100)))
    receiver.run(900.0)
    assert len(receiver.tries) < 150
    asked = len(receiver.tries)
    receiver.takes = lambda message: True
    receiver.run(1800.0)
    assert len(receiver.told) == 100
    assert len(receiver.tries) - asked < 80


def test_one_that_alertmanager_refuses_is_not_repeated_with_the_others() -> None:
    receiver = Receiver(REPEATED, good, for_good=True)
    receiver.hear("bad", "good")
    receiver.run(3000.0)
    assert receiver.dropped == ["finding:bad"]
    assert len(receiver.tries) > 40


def test_what_is_over_is_forgotten() -> None:
    receiver = Receiver(MACHINE, good)
    receiver.hear("bad")
    receiver.run(60.0)
    assert receiver.destination.failing
    receiver.book.update(finding(id="bad", job="bad", revision=2, state="recovered"), receiver.now_s)
    receiver.run(1.0)
    receiver.run(600.0)
    assert not receiver.destination.failing


@PROFILES
@pytest.mark.parametrize("step_s", [-8 * 3600.0, 8 * 3600.0])
def test_a_clock_that_is_set_moves_no_wait(profile: Profile, step_s: float) -> None:
    """While news is gathered, and while a message that failed waits."""
    book, destination = AlertBook(), Destination(profile, "warning", 6, Random(1))
    book.update(finding(), 1e9)
    first = destination.next(book, 1e9, 0.0) or destination.next(book, 1e9 + step_s, 10.0)
    assert first is not None
    destination.failed(first, 10.0, reached=True)
    assert destination.next(book, 1e9 + step_s, 10.4) is None
    again = destination.next(book, 1e9 - step_s, 20.0)
    assert again is not None
    destination.sent(again, 20.0)
    if profile is REPEATED:
        assert destination.next(book, 1e9 + step_s, 79.0) is None
        assert destination.next(book, 1e9 - step_s, 80.0) is not None
