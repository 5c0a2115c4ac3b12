"""The state of one key: all decisions about one job attempt or one node, kept, snapshotted and restored together.

Rule of this file: pure. What belongs together has one key, and one key lives in one partition of every topic.
"""

import logging
from collections.abc import Generator
from typing import Any, NamedTuple

import msgspec

from paceline.decoders import json_decoder, msgpack_decoder
from paceline.events import CollectiveCalls, Event, Finding, JobDescribed, StepTimings
from paceline.settings import MOST_RANKS
from paceline.topics import Topic

from .balance.rank_findings import BALANCE_KINDS
from .cluster_advice import DEFAULTS, AdviceSettings
from .cluster_events import Heard
from .episodes.finding import closed, of_launch
from .job_state import Backlog
from .launches import Launches
from .open_answers import OpenAnswers
from .routes import (
    ROUTES,
    BoundsRanks,
    Concludes,
    Decision,
    HearsGoodbye,
    JudgesTogether,
    OfOneLaunch,
    Patient,
    Routes,
    TakesAdviceSettings,
    TwoPartSnapshot,
)
from .snapshots import Cut, at_once

log = logging.getLogger(__name__)
#: Under which name what is open is stored, beside the decisions.
_OPEN = OpenAnswers.__name__
#: ... and which launch is judged.
_LAUNCHES = Launches.__name__


class Key(NamedTuple):
    """What a state is about: a job's attempt, a node (attempt -1), or a cluster (attempt -1, without a name)."""

    kind: str
    cluster: str
    name: str
    attempt: int

    def text(self) -> str:
        """The key as one unambiguous line."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> "Key":
        """The key that ``text`` writes.

        Raises:
            msgspec.DecodeError: ``text`` writes none.
        """
        return json_decoder(cls).decode(text)


def state_key(topic: Topic, event: Any) -> Key:
    """The key of the state that ``event`` is for."""
    if topic.key == "job":
        return Key("job", event.cluster, event.job, event.attempt)
    if topic.key == "cluster":
        return Key("cluster", event.cluster, "", -1)
    return Key("node", event.cluster, event.node, -1)


class StateCut(NamedTuple):
    """The state of one key as it was, part by part."""

    parts: dict[str, bytes | Cut]

    @property
    def large(self) -> bool:
        """Whether packing it takes a while."""
        return any(isinstance(part, Cut) and part.large for part in self.parts.values())

    def pack(self) -> bytes:
        """The state as bytes; any thread may do that."""
        packed = {name: part.pack() if isinstance(part, Cut) else part for name, part in self.parts.items()}
        return msgspec.msgpack.encode(packed)


class KeyedState:
    """The decisions of one key, made when their first event comes."""

    def __init__(
        self,
        routes: Routes | None = None,
        most_ranks: int = MOST_RANKS.default,
        advice: AdviceSettings = DEFAULTS,
        *,
        recorded: bool = False,
    ) -> None:
        self.routes = ROUTES if routes is None else routes
        self.most_ranks = most_ranks
        self.advice_settings = advice
        self.decisions: dict[str, Decision] = {}
        self.backlog = Backlog()
        self.open = OpenAnswers()
        #: None in a recording: all of its launches are known before, and are attempts of their own (``attempts.py``).
        self.launches: Launches | None = None if recorded else Launches()

    def begin_again(self, forgotten: int) -> None:
        """Give findings ids of their own: the state of this key was forgotten so often; before its first event."""
        if self.launches is not None:
            self.launches = Launches(forgotten)

    def update(self, topic: Topic, event: Event | Heard, at_once: int = 0) -> list[Event]:
        """Tell every decision that wants it; what they answer.

        ``at_once``: where more events are at hand, how many messages of a job are judged together; else 0.
        """
        found, judged = self._launched(event)
        return found + (self._said(self._decide(topic, event, at_once)) if judged else [])

    def _launched(self, event: Event | Heard) -> tuple[list[Event], bool]:
        """What follows from the launch that ``event`` is of, and whether that is the one that is judged."""
        if self.launches is None or not isinstance(event, StepTimings | CollectiveCalls):
            return [], True
        before = self.launches.launch
        turn = self.launches.update(event, self.most_ranks)
        found: list[Event] = [of_launch(one, before) for one in turn.found]
        self.open.hear(found)
        return found + (self._end_launch(before) if turn.begins else []), turn.judged

    def _end_launch(self, launch: str) -> list[Event]:
        """``launch`` is over: what waited is judged, what is open of it is closed, and all is counted from zero."""
        over = {name: one for name, one in self.decisions.items() if isinstance(one, OfOneLaunch)}
        last = [event for one in over.values() if isinstance(one, Patient) for event in one.finish()]
        last += [event for one in over.values() if isinstance(one, Concludes) for event in one.expire()]
        last = self._said(last, launch)
        ended: list[Event] = [closed(one) for one in self.open.findings() if one.kind not in BALANCE_KINDS]
        self.open.hear(ended)
        for name, decision in over.items():
            self._keep(name, decision.next_launch())
        return last + ended

    def _decide(self, topic: Topic, event: Event | Heard, at_once: int) -> list[Event]:
        answers: list[Event] = []
        self.backlog.at_once = at_once
        for kind in self.routes.get(topic.name, ()):
            decision = self.decisions.get(kind.__name__)
            if decision is None:
                decision = self._keep(kind.__name__, kind())
            answers += decision.update(event)
        return answers

    def _said(self, answers: list[Event], launch: str | None = None) -> list[Event]:
        """``answers`` as they are handed on: findings of each launch have ids of their own."""
        again, judged = ("", "") if self.launches is None else (self.launches.again, self.launches.launch)
        of_steps = judged if launch is None else launch
        told = [
            of_launch(one, again if one.kind in BALANCE_KINDS else of_steps) if isinstance(one, Finding) else one
            for one in answers
        ]
        self.open.hear(told)
        return told

    def _keep(self, name: str, decision: Decision) -> Decision:
        if isinstance(decision, JudgesTogether):
            decision.share_backlog(self.backlog)
        if isinstance(decision, BoundsRanks):
            decision.bound_ranks(self.most_ranks)
        if isinstance(decision, TakesAdviceSettings):
            decision.advise_by(self.advice_settings)
        self.decisions[name] = decision
        return decision

    def leave(self, described: JobDescribed) -> list[Event]:
        """A node has said that its ranks have left; what the decisions answer."""
        hear = [decision for decision in self.decisions.values() if isinstance(decision, HearsGoodbye)]
        return self._said([event for decision in hear for event in decision.leave(described)])

    def finish(self) -> list[Event]:
        """What the decisions have still to say, now that nothing more comes."""
        patient = [decision for decision in self.decisions.values() if isinstance(decision, Patient)]
        return self._said([event for decision in patient for event in decision.finish()])

    def conclude(self) -> list[Event]:
        """The last word of the decisions, at the end of all events."""
        return self.finish() + self._said([event for one in self._concluding() for event in one.conclude()])

    def expire(self) -> list[Event]:
        """The last word of the decisions of a key that is forgotten, idle for long."""
        return self.finish() + self._said([event for one in self._concluding() for event in one.expire()])

    def _concluding(self) -> list[Concludes]:
        return [decision for decision in self.decisions.values() if isinstance(decision, Concludes)]

    def snapshot(self) -> bytes:
        """The state of every decision."""
        return at_once(self.cutting()).pack()

    def cutting(self) -> Generator[None, None, "StateCut"]:
        """The same as it is now, to be packed later. No event may be taken in between the steps."""
        parts: dict[str, bytes | Cut] = {}
        for name, one in self.decisions.items():
            parts[name] = (yield from one.cutting()) if isinstance(one, TwoPartSnapshot) else one.snapshot()
        if self.open.all():
            parts[_OPEN] = self.open.snapshot()
        if self.launches is not None and (self.launches.judged or self.launches.again):
            parts[_LAUNCHES] = self.launches.snapshot()
        return StateCut(parts)

    @classmethod
    def restore(
        cls,
        data: bytes,
        routes: Routes | None = None,
        most_ranks: int = MOST_RANKS.default,
        advice: AdviceSettings = DEFAULTS,
    ) -> "KeyedState":
        """The state that ``snapshot`` described. A decision of another version restarts, and the log says so.

        Raises:
            ValueError: ``data`` is no snapshot.
        """
        state = cls(routes, most_ranks, advice)
        kinds = {kind.__name__: kind for wanted in state.routes.values() for kind in wanted}
        try:
            parts = msgpack_decoder(dict[str, bytes]).decode(data)
        except msgspec.DecodeError as error:
            raise ValueError(f"not a snapshot: {error}") from error
        opened, launches = parts.pop(_OPEN, None), parts.pop(_LAUNCHES, None)
        for name, part in parts.items():
            if name not in kinds:
                log.warning("%s is no decision of this version: its stored state is not read", name)
                continue
            try:
                state._keep(name, kinds[name].restore(part))
            except ValueError as error:
                log.warning("%s restarts: its stored state is not readable (%s)", name, error)
        try:
            state.open = OpenAnswers() if opened is None else OpenAnswers.restore(opened)
        except ValueError as error:
            log.warning("open findings are counted again from zero: %s", error)
        try:
            state.launches = Launches() if launches is None else Launches.restore(launches)
        except ValueError as error:
            log.warning("launches are distinguished from now on: %s", error)
        return state
