"""All destinations of one command, the book that they are told from, and what came of each message.

Rule of this file: it joins decisions and senders and decides nothing itself; both clocks are arguments: the one that
alerts are dated by, and the steady one of every wait.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paceline import wire
from paceline.topics import FINDING, JOB, SUGGESTION, Topic

from .book import AlertBook
from .destination import Destination
from .outcome import RefusedError
from .sender import Sender
from .target import Target

TOPICS = (FINDING, SUGGESTION, JOB)
#: Destinations of earlier runs whose state is kept although this one does not name them.
MOST_OTHERS = 32


@dataclass
class Channel:
    """A destination: what is decided for it, and what sends it."""

    target: Target
    destination: Destination
    sender: Sender
    failing: str = ""


class Alerting:
    """Hears events and tells destinations; ``say`` tells the operator, a line at a time."""

    def __init__(self, channels: list[Channel], say: Callable[[str], None]) -> None:
        self.channels, self._say = channels, say
        self.book = AlertBook()
        self._others: dict[str, Any] = {}
        #: Messages that do not decode.
        self.unusable = 0

    def hear(self, topic: Topic, value: bytes | None, heard_s: float) -> None:
        """Take a message of ``topic``, told at ``heard_s``; one that does not decode is counted and passed over."""
        if value is None:
            return  # Kept no longer: what it said was over before.
        try:
            self.book.update(wire.decode(topic, value), heard_s)
        except wire.WireError:
            self.unusable += 1

    def turn(self, now_s: float, steady_s: float, gather: bool = True) -> bool:
        """Take what became of messages, and send what is due; whether anything was taken."""
        taken = False
        for channel in self.channels:
            taken |= self._take_outcome(channel, steady_s)
            message = channel.destination.next(self.book, now_s, steady_s, gather)
            if message is not None:
                channel.sender.give(message)
        return taken

    def waits(self, now_s: float) -> bool:
        """Whether anybody is still to be told of something."""
        return any(channel.destination.waits(self.book, now_s) for channel in self.channels)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data; that of destinations which this run does not name is as it was restored."""
        told = {channel.target.key: channel.destination.snapshot() for channel in self.channels}
        return {"book": self.book.snapshot(), "told": self._others | told}

    def restore(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described; a destination that it does not name is told all that holds.

        Raises:
            ValueError: it is no such state (msgspec's errors are such); what was taken of it is of no harm.
        """
        try:
            self.book.restore(data["book"])
            others = dict(data["told"])
            for channel in self.channels:
                if channel.target.key in others:
                    channel.destination.restore(others.pop(channel.target.key))
            self._others = dict(list(others.items())[-MOST_OTHERS:])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no state of alerts: {error}") from error

    def _take_outcome(self, channel: Channel, steady_s: float) -> bool:
        outcome = channel.sender.outcome()
        if outcome is None:
            return False
        shown, error, destination = channel.target.shown, outcome.error, channel.destination
        if isinstance(error, RefusedError):
            if destination.refused(outcome.message, steady_s):
                self._say(f"{shown}: refused, {outcome.message.entries[0].alert.id} is dropped: {error}")
        elif error is not None:
            destination.failed(outcome.message, steady_s, error.asked_s, error.reached)
            if str(error) != channel.failing:
                self._say(f"{shown}: {error}; retried until it arrives")
            channel.failing = str(error)
        else:
            destination.sent(outcome.message, steady_s)
            if channel.failing and not destination.failing:
                self._say(f"{shown}: arrives again")
                channel.failing = ""
        return True
