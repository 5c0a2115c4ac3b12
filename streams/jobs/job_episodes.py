"""Verdicts on the job as a whole, window by window: is it so, since when, and what is worth saying.

Rule of this file: lifecycle only. What is so is decided elsewhere, the words are in wording. Such a verdict accuses
nobody, so it may take its time: it is suspected after ``SUSPECT`` windows, confirmed after ``CONFIRM``, and over when
it has been gone for ``RECOVER``.
"""

from typing import Any

import msgspec

from paceline.events import Cause

from ..episodes.episode import Episode
from ..episodes.lifecycle import FINAL, Signal, follow

SUSPECT = 2
CONFIRM = 3
RECOVER = 2


class Window(msgspec.Struct, frozen=True):
    """A stretch of the job that was judged as one: its steps, and its length on the median rank."""

    first_step: int
    last_step: int
    span_s: float


class Standing:
    """Episodes by subject, "" where the job itself is the subject."""

    def __init__(self) -> None:
        self.episodes: dict[str, Episode] = {}
        self.gone: dict[str, int] = {}
        self.windows: dict[str, int] = {}

    def see(
        self,
        subject: str,
        window: Window,
        size: float,
        bar: float,
        lost_ratio: float,
        cause: Cause,
        evidence: dict[str, float],
    ) -> Episode | None:
        """Take in what ``window`` showed; the episode where it has something new to tell.

        Args:
            subject: what the verdict is about.
            window: when.
            size: how large the trouble is; it is there from ``bar`` on, and gone below half of that.
            bar: see ``size``.
            lost_ratio: by how much the step was lengthened, as a share of the step without it.
            cause: the reason to tell.
            evidence: numbers for the words; ``margin`` is added.
        """
        episode = self.episodes.get(subject)
        if size < bar and episode is None:
            return None
        if episode is None:
            episode = Episode(rank=-1, first_step=window.first_step, last_step=window.last_step, cause=cause)
            self.episodes[subject] = episode
        signal = self._signal(subject, size, bar)
        before, episode.state = episode.state, follow(episode.state, signal) if signal else episode.state
        if episode.state is None and signal == "calm":
            self._forget(subject)
            return None
        if size >= bar / 2:
            episode.lasts(window.last_step, window.span_s, lost_ratio)
            episode.cause, episode.evidence = cause, {**evidence, "margin": size / bar}
        if episode.state != before:
            episode.next_update = 2 * episode.ticks
        elif not (signal and signal != "calm" and episode.due()):
            return None
        episode.revision += 1
        if episode.state in FINAL:
            self._forget(subject)
        return msgspec.structs.replace(episode, evidence=dict(episode.evidence))

    def _forget(self, subject: str) -> None:
        for table in (self.episodes, self.gone, self.windows):
            table.pop(subject, None)

    def _signal(self, subject: str, size: float, bar: float) -> Signal | None:
        if size < bar / 2:
            self.gone[subject] = self.gone.get(subject, 0) + 1
            return "calm" if self.gone[subject] >= RECOVER else None
        self.gone.pop(subject, None)
        if size < bar:
            return None
        self.windows[subject] = self.windows.get(subject, 0) + 1
        if self.windows[subject] < SUSPECT:
            return None
        return "persistent" if self.windows[subject] >= CONFIRM else "late"

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        episodes = {subject: msgspec.to_builtins(episode) for subject, episode in self.episodes.items()}
        return {"episodes": episodes, "gone": dict(self.gone), "windows": dict(self.windows)}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.episodes = msgspec.convert(data["episodes"], dict[str, Episode])
        self.gone, self.windows = dict(data["gone"]), dict(data["windows"])
