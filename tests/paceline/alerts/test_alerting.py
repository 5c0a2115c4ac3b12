"""All destinations of a command: what is kept of those that a run does not name, and what the operator reads."""

import json
from random import Random
from typing import Any

from paceline.alerts.alerting import MOST_OTHERS, Alerting, Channel
from paceline.alerts.destination import Destination
from paceline.alerts.message import Message
from paceline.alerts.outcome import NotDeliveredError, RefusedError
from paceline.alerts.sender import Outcome
from paceline.alerts.target import of_url
from tests.derived_events import finding


class Answering:
    """A sender whose messages have come to something at once."""

    def __init__(self, *errors: NotDeliveredError | RefusedError | None) -> None:
        self.errors, self.given = list(errors), [Message(None, ())][:0]
        self._out: list[Outcome] = []

    def give(self, message: Message) -> None:
        self.given.append(message)
        self._out.append(Outcome(message, self.errors.pop(0) if self.errors else None))

    def outcome(self) -> Outcome | None:
        return self._out.pop() if self._out else None


def alerting(*urls: str, say: Any = lambda line: None, errors: Any = ()) -> Alerting:
    channels = []
    for url in urls:
        target = of_url(url)
        destination = Destination(target.profile, "warning", 6, Random(1))
        channels.append(Channel(target, destination, Answering(*errors)))  # type: ignore[arg-type]
    return Alerting(channels, say)


def once(state: dict[str, Any], url: str) -> tuple[dict[str, Any], int]:
    """A run of ``--once``: the state that it leaves, and how many messages it sent."""
    run = alerting(url)
    if state:
        run.restore(json.loads(json.dumps(state)))
    run.book.update(finding(), 1000.0)
    for _ in range(3):
        run.turn(1000.0, 0.0, gather=False)
    return run.snapshot(), len(run.channels[0].sender.given)  # type: ignore[attr-defined]


def test_a_destination_that_a_run_does_not_name_keeps_its_state() -> None:
    state, sent = once({}, "https://a.example/x")
    state, also = once(state, "https://b.example/x")
    assert (sent, also) == (1, 1)
    assert once(state, "https://a.example/x")[1] == 0
    assert once(state, "https://b.example/x")[1] == 0


def test_what_is_kept_of_others_is_bounded() -> None:
    state: dict[str, Any] = {}
    for number in range(MOST_OTHERS + 10):
        state, _ = once(state, f"https://a.example/{number}")
    assert len(state["told"]) == MOST_OTHERS + 1
    assert once(state, f"https://a.example/{MOST_OTHERS + 5}")[1] == 0


def test_the_operator_reads_what_is_dropped_and_when_all_arrives_again() -> None:
    said: list[str] = []
    refused, failed = RefusedError("answered 400: bad"), NotDeliveredError("answered 403", reached=True)
    run = alerting("https://a.example/x", say=said.append, errors=(refused, failed, None, None))
    run.book.update(finding(), 1000.0)
    run.turn(1000.0, 0.0, gather=False)
    run.turn(1000.0, 1.0, gather=False)
    assert said == ["webhook at a.example: refused, finding:f1 is dropped: answered 400: bad"]
    run.book.update(finding(id="f2"), 1000.0)
    for at_s in range(2, 60):
        run.turn(1000.0, float(at_s), gather=False)
    assert said[1:] == [
        "webhook at a.example: answered 403; retried until it arrives",
        "webhook at a.example: arrives again",
    ]
