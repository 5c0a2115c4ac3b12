"""What a program reports, in a line for a person, of a follower that lost its brokers or skips messages.

Rule of this file: words only; a program hands in how it says a line.
"""

from collections.abc import Callable
from typing import TypedDict

from paceline.topics import Topic


class Reports(TypedDict):
    """Arguments of a ``Follower``."""

    on_lost: Callable[[str], None]
    on_skip: Callable[[Topic, int], None]
    on_unreadable: Callable[[Topic, str], None]


def reports(say: Callable[[str], None]) -> Reports:
    """By ``say``, a line each.

    >>> from paceline.topics import FINDING
    >>> told = reports(print)
    >>> told["on_lost"]("connection refused")
    connection refused; waiting for it
    >>> told["on_skip"](FINDING, 12)
    paceline.finding.v1: the oldest 12 messages are skipped
    >>> told["on_unreadable"](FINDING, "too large")
    skipped a batch on paceline.finding.v1: too large
    """
    return {
        "on_lost": lambda cause: say(f"{cause}; waiting for it"),
        "on_skip": lambda topic, messages: say(f"{topic.name}: the oldest {messages} messages are skipped"),
        "on_unreadable": lambda topic, reason: say(f"skipped a batch on {topic.name}: {reason}"),
    }
