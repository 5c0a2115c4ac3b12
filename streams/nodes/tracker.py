"""One thing watched on a node: is it there, for how long, and what has been told of it.

Rule of this file: lifecycle and time only. What is wrong is said by the looks, the words are in wording. Time is that
of the samples, in Unix seconds of the node's clock.
"""

from typing import Any

import msgspec

from paceline.events import Cause, FindingKind, Severity

from ..episodes.lifecycle import FINAL, Signal, State, follow
from .node_config import Config, Lasting

_SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One number that speaks for an episode, the rule that used it, and a sentence of it."""

    name: str
    value: float
    unit: str
    rule: str
    peers: float | None = None
    says: str = ""
    advice: str = ""
    severity: Severity = "warning"


class Seat(msgspec.Struct, frozen=True):
    """Whom an episode is about: the job that uses the devices, its ranks there."""

    job: str = ""
    ranks: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()


class Spell(msgspec.Struct, kw_only=True):
    """An episode: from when to when, how it stands, and what speaks for it."""

    kind: FindingKind
    subject: str
    cause: Cause
    seat: Seat
    first_s: float
    last_s: float
    state: State | None = None
    revision: int = 0
    next_s: float = 0.0
    facts: dict[str, Fact] = {}
    gpu_hours: float = 0.0
    #: Why it ended, where that is not "it was calm".
    ended: str = ""

    @property
    def severity(self) -> Severity:
        """The gravest of its facts; what is only suspected is no more than a warning."""
        if self.state in FINAL:
            return "info"
        gravest = max((_SEVERITIES.index(fact.severity) for fact in self.facts.values()), default=0)
        return _SEVERITIES[min(gravest, 1) if self.state == "suspected" else gravest]

    def lasts(self, at_s: float, rate: float) -> None:
        """It still held at ``at_s``, wasting ``rate`` GPUs."""
        self.gpu_hours += rate * max(at_s - self.last_s, 0.0) / 3600.0
        self.last_s = max(at_s, self.last_s)

    def due(self) -> bool:
        """Whether it has doubled in length since it was last told."""
        length = self.last_s - self.first_s
        if length < self.next_s:
            return False
        self.next_s = 2 * max(length, 1.0)
        return True


class Persistence:
    """Looks of yes and no over time, to the signals of the lifecycle. A look that knows nothing is not pushed."""

    def __init__(self, lasting: Lasting, config: Config) -> None:
        self.lasting = lasting
        self.config = config
        self.looks: list[tuple[float, bool]] = []

    def push(self, at_s: float, bad: bool) -> Signal | None:
        """Take in a look; what it amounts to."""
        if self.looks and not 0.0 <= at_s - self.looks[-1][0] <= self.config.gap_s:
            self.looks = []
        self.looks.append((at_s, bad))
        longest = max(self.lasting[:3])
        while len(self.looks) > 1 and self.looks[1][0] <= at_s - longest:
            del self.looks[0]
        if self._holds(self.lasting.confirm_s, bad=True):
            return "persistent"
        if self._holds(self.lasting.suspect_s, bad=True):
            return "late"
        if self._holds(self.lasting.recover_s, bad=False):
            return "calm"
        return None

    def since_s(self) -> float:
        """When the yes began that the last look belongs to."""
        since = self.looks[-1][0]
        for at_s, bad in reversed(self.looks):
            if bad:
                since = at_s
        return since - self.config.tick_s

    def _holds(self, seconds: float, *, bad: bool) -> bool:
        now_s, last = self.looks[-1]
        if last is not bad:
            return False
        if seconds and self.looks[0][0] > now_s - seconds:
            return False
        recent = [verdict for at_s, verdict in self.looks if at_s > now_s - seconds] or [last]
        share = sum(verdict is bad for verdict in recent) / len(recent)
        return share >= (self.lasting.share if bad else 1.0)


class Watch:
    """The episodes of one subject, one after the other."""

    def __init__(self, kind: FindingKind, subject: str, cause: Cause, config: Config, lasting: Lasting) -> None:
        self.kind = kind
        self.subject = subject
        self.cause = cause
        self.config = config
        self.persistence = Persistence(lasting, config)
        self.spell: Spell | None = None
        self.rest_until_s = 0.0

    def look(self, at_s: float, bad: bool | None, facts: list[Fact], seat: Seat, rate: float = 0.0) -> Spell | None:
        """Take in a look (None: it could not be seen); the episode, where there is something new to tell of it."""
        if bad is None:
            return None
        signal = self.persistence.push(at_s, bad)
        return self.move(at_s, signal, facts if bad else [], seat, self.persistence.since_s(), rate if bad else 0.0)

    def move(
        self, at_s: float, signal: Signal | None, facts: list[Fact], seat: Seat, since_s: float, rate: float = 0.0
    ) -> Spell | None:
        """Follow ``signal``; the episode, where there is something new to tell of it."""
        spell = self.spell
        if spell is None:
            if signal in (None, "calm") or (signal == "late" and at_s < self.rest_until_s):
                return None
            spell = self.spell = Spell(
                kind=self.kind, subject=self.subject, cause=self.cause, seat=seat, first_s=since_s, last_s=since_s
            )
        before = spell.state
        if signal is not None:
            spell.state = follow(before, signal)
        if facts:
            spell.lasts(at_s, rate)
        fresh = any(fact.name not in spell.facts for fact in facts)
        spell.facts |= {fact.name: fact for fact in facts}
        moved = spell.state != before
        if not (moved or fresh or (spell.state == "confirmed" and facts and spell.due())):
            return None
        return self._told(spell, at_s)

    def _told(self, spell: Spell, at_s: float) -> Spell:
        spell.revision += 1
        spell.next_s = 2 * max(spell.last_s - spell.first_s, 1.0)
        if spell.state in FINAL:
            self.spell = None
            self.rest_until_s = at_s + self.config.cooldown_s
        return msgspec.structs.replace(spell, facts=dict(spell.facts))

    def end(self, at_s: float, why: str) -> Spell | None:
        """End the episode, and forget the looks that led to it: the job has gone."""
        self.persistence.looks = []
        spell = self.spell
        if spell is None:
            return None
        spell.ended = why
        spell.state = follow(spell.state, "calm")
        return self._told(spell, at_s)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "of": [self.kind, self.subject, self.cause, list(self.persistence.lasting)],
            "looks": [list(look) for look in self.persistence.looks],
            "spell": None if self.spell is None else msgspec.to_builtins(self.spell),
            "rest_until_s": self.rest_until_s,
        }

    @classmethod
    def restore(cls, data: dict[str, Any], config: Config) -> "Watch":
        """The watch that ``snapshot`` described."""
        kind, subject, cause, lasting = data["of"]
        watch = cls(kind, subject, cause, config, Lasting(*lasting))
        watch.persistence.looks = [(at_s, bad) for at_s, bad in data["looks"]]
        watch.spell = None if data["spell"] is None else msgspec.convert(data["spell"], Spell)
        watch.rest_until_s = data["rest_until_s"]
        return watch
