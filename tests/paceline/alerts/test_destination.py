"""What goes to a destination, and when: once, gathered, not too often, again after a failure, and told when over."""

import json
from random import Random

import pytest

from paceline.alerts.book import AlertBook
from paceline.alerts.destination import MOST_TOLD, RETRY_ASKED_S, Destination, Profile
from paceline.alerts.lifecycle import TRANSITIONS
from paceline.alerts.message import Message
from tests.derived_events import described, finding, suggestion

PEOPLE = Profile(most=3, lists_all=False)
MACHINE = Profile(most=3, lists_all=True)
REPEATED = Profile(most=3, lists_all=True, gather_s=0.0, repeat_s=60.0)


class Told:
    """A destination whose messages arrive at once."""

    def __init__(self, profile: Profile = PEOPLE, least: str = "warning", rate: int = 6) -> None:
        self.book = AlertBook()
        self.destination = Destination(profile, least, rate, Random(1))  # type: ignore[arg-type]

    def hear(self, *events: object, at_s: float = 0.0) -> None:
        for event in events:
            self.book.update(event, at_s)  # type: ignore[arg-type]

    def at(self, now_s: float) -> list[Message]:
        """All that is sent at ``now_s``."""
        told = []
        while message := self.destination.next(self.book, now_s, now_s):
            self.destination.sent(message, now_s)
            told.append(message)
        return told


def said(messages: list[Message]) -> list[list[tuple[str, str]]]:
    return [[(entry.alert.id, entry.news) for entry in message.entries] for message in messages]


def test_the_lifecycle_is_whole() -> None:
    """Every state that something may have been told in has an answer for what holds and for what is over."""
    states = {state for state, _ in TRANSITIONS}
    assert set(TRANSITIONS) == {(state, holds) for state in states for holds in (True, False)}


def test_news_waits_for_others_of_its_job() -> None:
    told = Told()
    told.hear(finding())
    assert told.at(0.0) == []
    told.hear(finding(id="f2"), finding(id="f3", job="other"))
    assert said(told.at(10.0)) == [[("finding:f1", "firing"), ("finding:f2", "firing")]]
    assert said(told.at(20.0)) == [[("finding:f3", "firing")]]


def test_each_is_told_once_and_again_when_it_is_over() -> None:
    told = Told()
    told.hear(finding())
    told.at(0.0)
    assert len(told.at(10.0)) == 1
    told.hear(finding(), finding(revision=2))
    assert told.at(10_000.0) == []
    told.hear(finding(revision=3, state="recovered", severity="info"), at_s=10_000.0)
    told.at(10_001.0)
    assert said(told.at(10_011.0)) == [[("finding:f1", "resolved")]]
    assert told.at(20_000.0) == []


def test_what_comes_and_goes_before_it_is_told_is_told_to_nobody() -> None:
    told = Told()
    told.hear(finding())
    told.at(0.0)
    told.hear(finding(revision=2, state="recovered"))
    assert told.at(100.0) == []


def test_only_the_chosen_severity_and_worse_is_told() -> None:
    told = Told(least="critical")
    told.hear(finding(), finding(id="f2", severity="critical"), suggestion(severity="info"))
    told.at(0.0)
    assert said(told.at(10.0)) == [[("finding:f2", "firing")]]


def test_it_is_told_again_when_it_has_become_worse_and_not_when_better() -> None:
    told = Told()
    told.hear(finding())
    told.at(0.0)
    told.at(10.0)
    told.hear(finding(revision=2, severity="critical"))
    told.at(20.0)
    (message,) = told.at(30.0)
    assert message.entries[0].former == "warning"
    told.hear(finding(revision=3, severity="warning"))
    assert told.at(1000.0) == []


def test_the_worst_come_first_and_the_rest_is_counted_and_not_told_later() -> None:
    told = Told()
    told.hear(*(finding(id=f"f{number}") for number in range(10)), finding(id="worst", severity="critical"))
    told.at(0.0)
    (message,) = told.at(10.0)
    assert message.entries[0].alert.id == "finding:worst"
    assert (len(message.entries), message.more) == (3, 8)
    assert told.at(1000.0) == []


def test_a_machine_gets_all_in_several_messages() -> None:
    told = Told(MACHINE)
    told.hear(*(finding(id=f"f{number}") for number in range(8)))
    told.at(0.0)
    messages = told.at(10.0)
    assert [len(message.entries) for message in messages] == [3, 3, 2]
    assert {message.more for message in messages} == {0}


def test_a_storm_of_jobs_is_a_few_messages_and_one_of_all_the_rest() -> None:
    told = Told(rate=4)
    told.hear(*(finding(id=f"f{number}", job=f"job-{number}") for number in range(500)))
    told.at(0.0)
    messages = told.at(10.0)
    assert len(messages) == 4
    assert [message.group is None for message in messages] == [False, False, False, True]
    assert sum(len(message.entries) + message.more for message in messages) == 500
    told.hear(finding(id="next"))
    told.at(11.0)
    assert told.at(21.0) == []
    assert len(told.at(26.0)) == 1


def test_a_message_that_does_not_arrive_is_tried_again_ever_later() -> None:
    told = Told()
    told.hear(finding())
    told.at(0.0)
    now_s, waits = 10.0, []
    for _ in range(12):
        message = told.destination.next(told.book, now_s, now_s)
        assert message is not None
        assert told.destination.next(told.book, now_s, now_s) is None, "one at a time"
        retry_s = told.destination.failed(message, now_s)
        assert told.destination.next(told.book, retry_s - 0.01, retry_s - 0.01) is None
        waits.append(retry_s - now_s)
        now_s = retry_s
    assert 0.5 <= waits[0] < 1.5
    assert waits[-1] > 100
    assert max(waits) < 450
    assert said(told.at(now_s)) == [[("finding:f1", "firing")]]


def test_a_destination_may_ask_for_a_longer_wait_but_not_for_ever() -> None:
    told, message = Told(), Message(None, ())
    assert told.destination.failed(message, 0.0, asked_s=60.0) == 60.0
    assert told.destination.failed(message, 0.0, asked_s=1e9) == RETRY_ASKED_S


def test_what_is_over_before_it_could_be_told_is_not_told_after_the_outage() -> None:
    told = Told()
    told.hear(finding())
    told.at(0.0)
    message = told.destination.next(told.book, 10.0, 10.0)
    assert message is not None
    told.destination.failed(message, 10.0)
    told.hear(finding(revision=2, state="recovered"))
    assert told.at(1000.0) == []


def test_what_is_refused_for_good_holds_nothing_up() -> None:
    told = Told()
    told.hear(finding())
    told.at(0.0)
    message = told.destination.next(told.book, 10.0, 10.0)
    assert message is not None
    told.destination.refused(message, 10.0)
    told.hear(finding(id="f2"))
    told.at(20.0)
    assert said(told.at(30.0)) == [[("finding:f2", "firing")]]


def test_alertmanager_is_told_again_what_holds_and_once_what_is_over() -> None:
    told = Told(REPEATED)
    told.hear(finding(), described())
    (message,) = told.at(0.0)
    assert message.entries[0].ends_s == 300.0
    assert told.at(59.0) == []
    told.hear(finding(id="f2"))
    assert said(told.at(59.0)) == [[("finding:f2", "firing")]]
    assert said(told.at(60.0)) == [[("finding:f1", "firing")]]
    assert said(told.at(120.0)) == [[("finding:f2", "firing"), ("finding:f1", "firing")]]
    told.hear(described(ended_s=130.0))
    assert said(told.at(140.0)) == [[("finding:f1", "resolved"), ("finding:f2", "resolved")]]
    assert told.at(1000.0) == []


def test_alertmanager_is_told_all_of_many_in_turns() -> None:
    told = Told(REPEATED)
    told.hear(*(finding(id=f"f{number}") for number in range(7)))
    for now_s in (0.0, 60.0, 120.0):
        keys = [entry.alert.id for message in told.at(now_s) for entry in message.entries]
        assert sorted(set(keys)) == [f"finding:f{number}" for number in range(7)]
        assert len(keys) == 7


def test_a_clock_that_is_set_back_silences_nobody() -> None:
    told = Told(REPEATED)
    told.hear(finding(), at_s=1e6)
    (message,) = told.at(1e6)
    assert message is not None
    again = told.destination.next(told.book, 1e6 - 7200.0, 1e6 + 60.0)
    assert again is not None
    assert [entry.alert.id for entry in again.entries] == ["finding:f1"]


def test_after_a_restart_it_goes_on_with_what_was_not_told() -> None:
    told = Told()
    told.hear(finding(), finding(id="f2"))
    told.at(0.0)
    told.at(10.0)
    state = json.loads(json.dumps([told.book.snapshot(), told.destination.snapshot()]))
    again = Told()
    again.book.restore(state[0])
    again.destination.restore(state[1])
    again.hear(finding(), finding(id="f2", revision=2, state="recovered"), finding(id="f3"))
    again.at(100.0)
    assert said(again.at(110.0)) == [[("finding:f3", "firing"), ("finding:f2", "resolved")]]


def test_after_a_restart_without_its_file_what_holds_is_told_and_no_more() -> None:
    again = Told()
    again.hear(finding(), finding(id="f2"), finding(id="f2", revision=2, state="recovered"))
    again.at(100.0)
    assert said(again.at(110.0)) == [[("finding:f1", "firing")]]


@pytest.mark.parametrize("state", [{}, {"told": []}, {"told": {"a": ["firing", "loud", 0]}}, {"told": {"a": 1}}])
def test_a_state_of_something_else_is_refused(state: dict) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        Told().destination.restore(state)


@pytest.mark.slow
def test_what_was_told_is_kept_in_bounds() -> None:
    told = Told(MACHINE, rate=600)
    for number in range(MOST_TOLD + 100):
        told.book.alerts.clear()
        told.hear(finding(id=f"f{number}"))
        message = told.destination.next(told.book, float(number), float(number), gather=False)
        assert message is not None
        told.destination.sent(message, float(number))
    assert len(told.destination.snapshot()["told"]) == MOST_TOLD


@pytest.mark.parametrize("profile", [PEOPLE, MACHINE, REPEATED])
def test_a_finding_of_an_ended_job_is_resolved_with_its_last_revision(profile: Profile) -> None:
    """The end of a job and what it cost in all come in no order: neither is reported without the other."""
    told = Told(profile)
    told.hear(finding(), described())
    told.at(0.0)
    told.at(10.0)
    told.hear(described(ended_s=100.0), at_s=100.0)
    assert told.at(100.0) == told.at(105.0) == []
    told.hear(finding(revision=2, summary="Rank 3 cost 58 s."), at_s=105.5)
    (message,) = told.at(105.6) or told.at(115.6)
    assert [(entry.news, entry.alert.text) for entry in message.entries] == [("resolved", "Rank 3 cost 58 s.")]


def test_nobody_waits_for_long_for_a_last_revision() -> None:
    """None comes of a worker that is gone; a clock that was set back does not make the wait longer."""
    told = Told(REPEATED)
    told.hear(finding(), described())
    told.at(0.0)
    told.hear(described(ended_s=1000.0), at_s=1000.0)
    assert told.at(1009.9) == []
    assert said(told.at(500.0)) == [[("finding:f1", "resolved")]]
    told = Told(REPEATED)
    told.hear(finding(), described(), at_s=5.0)
    told.at(5.0)
    told.hear(described(ended_s=1000.0), described(ended_s=1000.0), at_s=1000.0)
    assert said(told.at(1010.0)) == [[("finding:f1", "resolved")]]


def test_whoever_sends_once_waits_for_no_last_revision() -> None:
    """``--once`` has no second time."""
    told = Told(PEOPLE)
    told.hear(finding(), described())
    message = told.destination.next(told.book, 0.0, 0.0, gather=False)
    assert message is not None
    told.destination.sent(message, 0.0)
    told.hear(described(ended_s=100.0), at_s=100.0)
    assert told.destination.waits(told.book, 100.0)
    assert told.destination.next(told.book, 100.0, 100.0, gather=False) is not None
