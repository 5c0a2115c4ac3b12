"""Episodes over time: when one begins, what is worth saying of it, and when it is over.

Rule of this file: the only place where an episode changes its state or gets a revision. A detector says what it sees as
a signal of the lifecycle; time is a plain number, ticks or seconds, and an argument.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from paceline.decoders import convert
from paceline.events import Cause

from ..stored import Kept, Stored
from .lifecycle import FINAL, Signal, State, follow


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a detector measured: each detector's evidence is a struct of its own, made from this one.

    ``margin`` is how many times over its bar the trouble is: findings are as sure as that.
    """

    margin: float = 1.0


Key = TypeVar("Key", bound=int | str)
Seen = TypeVar("Seen", bound=Measured)


class Episode(msgspec.Struct, Generic[Key, Seen], kw_only=True):
    """What is remembered of an episode while it lasts: of a rank, a stage, a job or a GPU.

    ``first`` and ``last`` are the job's steps, or Unix seconds of the node's clock; ``length`` is counted by the
    tracker's clock, in ticks or in seconds.
    """

    subject: Key
    cause: Cause
    first: float
    last: float
    state: State | None = None
    revision: int = 0
    length: float = 0.0
    #: The length from which growth alone is worth a revision.
    next_length: float = 0.0
    #: What it cost: seconds lost of those it spans, and device-hours of devices that stood still.
    span_s: float = 0.0
    lost_s: float = 0.0
    gpu_hours: float = 0.0
    #: ``last`` when it was last told.
    told: float = -math.inf
    #: The last look at it, whatever was seen, of an episode that is counted in seconds.
    looked: float = -math.inf
    evidence: Seen | None = None

    @property
    def first_step(self) -> int:
        """Where it began, of an episode that is counted in steps."""
        return int(self.first)

    @property
    def last_step(self) -> int:
        """Where it was last seen, of an episode that is counted in steps."""
        return int(self.last)

    @property
    def measured(self) -> Seen:
        """The evidence of an episode that was reported, which always has some."""
        assert self.evidence is not None, "an episode is measured before it is told"
        return self.evidence

    def add_tick(self, last_step: int, span_s: float, excess_ratio: float) -> None:
        """Another tick of ``span_s`` seconds in which the step was lengthened by ``excess_ratio`` of its base."""
        ratio = max(excess_ratio, 0.0)
        self.last = float(last_step)
        self.length += 1
        self.span_s += span_s
        self.lost_s += span_s * ratio / (1.0 + ratio)

    def extend_to(self, at_s: float, idle_s: float) -> None:
        """It still holds at ``at_s``; devices stood still for ``idle_s`` since the last look, all of them added up."""
        self.gpu_hours += idle_s / 3600.0
        self.last = max(at_s, self.last)
        self.length = self.last - self.first


@dataclass(frozen=True)
class Policy:
    """Where detectors differ in what they tell of an episode, and when.

    The defaults are those of verdicts that are drawn from many samples.
    """

    #: How long after an episode the next one of the same subject may not begin, by the tracker's clock.
    cooldown: float = 0.0
    #: The signals that such a rest holds back. What is proof by itself (an XID) must not wait for its end.
    rest_holds: frozenset[Signal] = frozenset({"late", "persistent"})
    #: State and signal at which growth is told, at every doubling of the length.
    growth_at: frozenset[tuple[State, Signal | None]] = frozenset({("confirmed", "persistent")})
    #: What starts the next doubling: entering a state, or news of the evidence. Growth that was told always does.
    doubles_from: frozenset[State | Literal["news"]] = frozenset({"suspected", "confirmed"})


class Tracker(Stored, Generic[Key, Seen]):
    """The episodes of one detector, by subject, one after the other.

    >>> tracker = Tracker(Episode[str, Measured], Policy(cooldown=10))
    >>> episode = tracker.begin("rank 2", first=60)
    >>> [tracker.revise("rank 2", signal, now) is not None for now, signal in enumerate(["late", "late", "persistent"])]
    [True, False, True]
    >>> ended = tracker.revise("rank 2", "calm", now=3)
    >>> ended.state, ended.revision, tracker.open(), tracker.rests("rank 2", "late", now=12)
    ('recovered', 3, [], True)

    Args:
        form: the type of the episodes, for reading them back from a snapshot.
        policy: where this detector differs from others.
    """

    rest_until: Kept[dict[Key, float]]

    def __init__(self, form: type[Episode[Key, Seen]], policy: Policy | None = None) -> None:
        self.form = form
        self.policy = policy or Policy()
        self.episodes: dict[Key, Episode[Key, Seen]] = {}
        self.rest_until = {}

    def get(self, subject: Key) -> Episode[Key, Seen] | None:
        """The episode of ``subject`` that lasts."""
        return self.episodes.get(subject)

    def open(self) -> list[Key]:
        """The subjects whose episodes last."""
        return list(self.episodes)

    def begin(self, subject: Key, first: float, cause: Cause = "unknown") -> Episode[Key, Seen]:
        """A new episode, of which nothing is told yet."""
        self.rest_until.pop(subject, None)
        episode = self.form(subject=subject, cause=cause, first=float(first), last=float(first))
        self.episodes[subject] = episode
        return episode

    def rests(self, subject: Key, signal: Signal, now: float) -> bool:
        """Whether it is too soon after an episode for ``signal`` to begin another."""
        return signal in self.policy.rest_holds and now < self.rest_until.get(subject, now)

    def resting(self, now: float) -> set[Key]:
        """The subjects whose episodes ended a short time ago."""
        return {subject for subject, until in self.rest_until.items() if now < until}

    def revise(
        self,
        subject: Key,
        signal: Signal | None,
        now: float,
        *,
        news: bool = False,
        measure: Callable[[], Seen] | None = None,
    ) -> Episode[Key, Seen] | None:
        """Follow ``signal``; a copy of the episode where there is something new to tell of it.

        Args:
            subject: whose episode it is; it has begun.
            signal: what the detector sees.
            now: the tracker's clock.
            news: the evidence or the cause has become another one, which is told whatever the signal.
            measure: makes the evidence, where that is expensive: called for what is reported, unless it is calm.
        """
        episode = self.episodes[subject]
        before = episode.state
        if signal is not None:
            episode.state = follow(before, signal)
        moved = episode.state != before
        if not (moved or news or self._grown(episode, signal)):
            return None
        if (moved and episode.state in self.policy.doubles_from) or (news and "news" in self.policy.doubles_from):
            episode.next_length = 2.0 * max(episode.length, 1.0)
        if measure is not None and signal != "calm":
            episode.evidence = measure()
        episode.revision += 1
        episode.told = episode.last
        if episode.state in FINAL:
            self.forget(subject)
            if self.policy.cooldown:
                self.rest_until[subject] = now + self.policy.cooldown
        return msgspec.structs.replace(episode)

    def conclude(self, now: float) -> list[Episode[Key, Seen]]:
        """Nothing follows: those that are confirmed and have gone on since they were reported, once more."""
        lasting = [key for key, one in self.episodes.items() if one.state == "confirmed" and one.last > one.told]
        told = [self.revise(key, None, now, news=True) for key in lasting]
        return [episode for episode in told if episode is not None]

    def _grown(self, episode: Episode[Key, Seen], signal: Signal | None) -> bool:
        if (episode.state, signal) not in self.policy.growth_at or episode.length < episode.next_length:
            return False
        episode.next_length = 2.0 * max(episode.length, 1.0)
        return True

    def forget(self, subject: Key) -> None:
        """Drop the episode of ``subject``, if there is one, and its rest, without a word."""
        self.episodes.pop(subject, None)
        self.rest_until.pop(subject, None)

    def state(self) -> dict[str, Any]:
        """The state, with the episodes, whose form this detector has chosen."""
        return {**super().state(), "episodes": [msgspec.to_builtins(one) for one in self.episodes.values()]}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``state`` described."""
        episodes = [convert(one, self.form) for one in data["episodes"]]
        self.episodes = {episode.subject: episode for episode in episodes}
        super().load(data)
