"""The arrays of the messages that were read last, shared by the decisions that are told of the same messages.

Rule of this file: joining columns takes time, and several decisions want the same ones.
"""

from collections.abc import Sequence
from typing import Any

from paceline.events import StepTimings

from .collective_batch import Summed, summed_rows
from .step_rows import StepRows, step_rows


class SharedRows:
    """The rows of the messages read last. ``at_once``: more are at hand, and so many are judged together; else 0."""

    def __init__(self) -> None:
        self.at_once = 0
        self.messages: tuple[StepTimings, ...] = ()
        self.rows: StepRows | None = None
        self.summed_messages: tuple[StepTimings, ...] = ()
        self.summed: Summed | None = None

    def of(self, messages: Sequence[StepTimings]) -> StepRows:
        """The rows of ``messages``; asked again for the same messages it answers the same arrays."""
        if self.rows is None or not _same(self.messages, messages):
            self.messages, self.rows = tuple(messages), step_rows(messages)
        return self.rows

    def sums_of(self, messages: Sequence[StepTimings]) -> Summed:
        """The collectives that ``messages`` sum, in the same way."""
        if self.summed is None or not _same(self.summed_messages, messages):
            self.summed_messages, self.summed = tuple(messages), summed_rows(messages)
        return self.summed

    def clear(self) -> None:
        """Let go of the messages and their rows."""
        self.messages, self.rows = (), None
        self.summed_messages, self.summed = (), None


def _same(before: Sequence[Any], messages: Sequence[Any]) -> bool:
    return len(before) == len(messages) and all(a is b for a, b in zip(before, messages, strict=True))
