"""Verdicts on the job as a whole, window by window: is it so, since when, and what is worth saying.

Rule of this file: persistence only. What is so is decided by the detectors. Such a verdict accuses nobody, so it may
take its time: it is suspected after ``SUSPECT`` windows, confirmed after ``CONFIRM``, and over when it has been gone
for ``RECOVER``.
"""

from typing import Generic

import msgspec

from paceline.events import Cause

from ..episodes.persistence import Streaks
from ..episodes.tracker import Episode, Key, Seen, Tracker
from ..stored import Kept, Stored

SUSPECT = 2
CONFIRM = 3
RECOVER = 2


class JudgedWindow(msgspec.Struct, frozen=True):
    """A stretch of the job that was judged as one: its steps, and its length on the median rank.

    So many steps of the job stand behind ``each`` that was reported: others were left out on purpose.
    """

    first_step: int
    last_step: int
    span_s: float
    each: float = 1.0


class Sight(msgspec.Struct, frozen=True):
    """How large a trouble was in one window: it is there from ``bar`` on, and gone below half of that.

    ``lost_ratio`` is by how much the step was lengthened, as a share of the step without it.
    """

    size: float
    bar: float
    lost_ratio: float
    cause: Cause


class JobEpisodes(Stored, Generic[Key, Seen]):
    """Episodes of one kind of trouble, by subject.

    >>> from streams.episodes.tracker import Measured
    >>> episodes = JobEpisodes(Episode[str, Measured])
    >>> windows = [JudgedWindow(10 * number, 10 * number + 9, 1.0) for number in range(3)]
    >>> told = [episodes.push("job", window, Sight(2.0, 1.0, 0.1, "unknown"), Measured()) for window in windows]
    >>> [episode and episode.state for episode in told]
    [None, 'suspected', 'confirmed']
    """

    tracker: Kept[Tracker[Key, Seen]]
    streaks: Kept[Streaks[Key]]

    def __init__(self, form: type[Episode[Key, Seen]]) -> None:
        self.tracker = Tracker(form)
        self.streaks = Streaks(SUSPECT, CONFIRM, RECOVER)

    def push(self, subject: Key, window: JudgedWindow, sight: Sight, evidence: Seen) -> Episode[Key, Seen] | None:
        """Take in what ``window`` showed; the episode where it has something new to tell.

        Args:
            subject: what the verdict is about.
            window: when.
            sight: what was seen.
            evidence: the numbers that speak for it; the margin is added here.
        """
        episode = self.tracker.get(subject)
        there = sight.size >= sight.bar
        if episode is None:
            if not there:
                return None
            episode = self.tracker.begin(subject, window.first_step, sight.cause)
        gone = sight.size < sight.bar / 2
        signal = self.streaks.push(subject, False if gone else True if there else None)
        if episode.state is None and signal == "calm":
            self._forget(subject)
            return None
        if not gone:
            episode.add_tick(window.last_step, window.span_s * window.each, sight.lost_ratio)
            episode.cause = sight.cause
            episode.evidence = msgspec.structs.replace(evidence, margin=sight.size / sight.bar)
        told = self.tracker.revise(subject, signal, episode.length)
        if self.tracker.get(subject) is None:
            self.streaks.forget(subject)
        return told

    def get(self, subject: Key) -> Episode[Key, Seen] | None:
        """The episode of ``subject`` that lasts, also where nothing has been told of it yet."""
        return self.tracker.get(subject)

    def end(self, subject: Key) -> Episode[Key, Seen] | None:
        """Another episode speaks for ``subject`` from now on; the last word of its own, where any had been reported."""
        episode = self.tracker.get(subject)
        told = self.tracker.revise(subject, "calm", episode.length) if episode is not None and episode.state else None
        self._forget(subject)
        return told

    def _forget(self, subject: Key) -> None:
        self.tracker.forget(subject)
        self.streaks.forget(subject)

    def open(self) -> list[Key]:
        """The subjects whose episodes last, also those of which nothing has been told yet."""
        return self.tracker.open()
