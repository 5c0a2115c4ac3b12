"""The processor: every event to the state of its key, and what the decisions there say back with its topic.

Rule of this file: pure and bounded. The Faust app and ``paceline analyze`` run this same code. States that have been
idle for an hour of **stream time** are forgotten, but for those of clusters: what is advised outlives a quiet night.
A job that is forgotten so and has not said goodbye was killed, or may go on: its findings that lasted are reported to
their end. In a recording all that it holds of the job is known then, so its decisions conclude as at the end.
Stream time is how far the producer has moved on that has moved on most, each by the start times of its own batches and
by ``MOST_PUSH_S`` a batch at most. Clocks of two producers are never compared: a hundred nodes whose clocks are hours
ahead must not make all others look idle.
"""

from collections import OrderedDict
from collections.abc import Generator

from paceline.events import Event, Finding, JobDescribed, Produced, Suggestion
from paceline.settings import MOST_RANKS
from paceline.topics import Topic

from .cluster_advice import DEFAULTS, AdviceSettings
from .cluster_events import Heard
from .keyed_state import Key, KeyedState, StateCut, state_key
from .routes import Routes, topic_of

IDLE_S = 3600.0
MOST_PUSH_S = 10.0
#: A batch that begins before its producer's newest one by less than this is late; by more, the clock was set back.
_SET_BACK_S = 3600.0
#: Producers whose time is known; the one heard least recently makes room.
_MOST_PRODUCERS = 65_536
#: More states than this at a time are not kept: the longest idle goes first.
MOST_STATES = 10_000
#: From a backlog so many messages of a job of a few nodes are judged together, and so many may wait of all jobs.
AT_ONCE, MOST_WAITING = 16, 8192


class Processor:
    """States by key, least recently used first."""

    def __init__(
        self,
        routes: Routes | None = None,
        idle_s: float = IDLE_S,
        most_states: int = MOST_STATES,
        most_ranks: int = MOST_RANKS.default,
        advice: AdviceSettings = DEFAULTS,
        *,
        recorded: bool = False,
    ) -> None:
        self.recorded = recorded
        self.routes = routes
        self.idle_s = idle_s
        self.most_states = most_states
        self.most_ranks = most_ranks
        self.advice_settings = advice
        #: Seconds of stream time so far; and by producer its newest start, and what had passed then.
        self.now_s = 0.0
        self._newest: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self.states: OrderedDict[Key, tuple[KeyedState, float]] = OrderedDict()
        #: More events are at hand than are taken at a time: they may be judged together.
        self.backlog = False
        self._forgotten: list[Key] = []
        #: What the decisions of idle states said last, until it is asked for; of as many keys as states at most.
        self._last: OrderedDict[Key, list[Event]] = OrderedDict()

    def update(self, topic: Topic, event: Event | Heard) -> list[tuple[Topic, Event]]:
        """Take in one event; what follows from it, each with the topic it belongs on."""
        key = state_key(topic, event)
        state = self.states.pop(key, (None, 0.0))[0] or self._state()
        self._last.pop(key, None)  # It goes on after all: from what is stored of it, where anything is.
        if isinstance(event, Produced) and (start_s := getattr(event, "t0_s", None)) is not None:
            self._advance(event.producer, start_s)
        self.states[key] = (state, self.now_s)
        self._forget()
        return [(topic_of(answer), answer) for answer in state.update(topic, event, self._at_once())]

    def _at_once(self) -> int:
        return max(1, min(AT_ONCE, MOST_WAITING // len(self.states))) if self.backlog else 0

    def _state(self) -> KeyedState:
        return KeyedState(self.routes, self.most_ranks, self.advice_settings, recorded=self.recorded)

    def leave(self, described: JobDescribed) -> list[tuple[Topic, Event]]:
        """A node has said, in its description of a job, that its ranks have left; what follows from it."""
        held = self.states.get(Key("job", described.cluster, described.job, described.attempt))
        return [] if held is None else [(topic_of(answer), answer) for answer in held[0].leave(described)]

    def finish(self) -> list[tuple[Topic, Event]]:
        """The last word of all decisions: no event follows."""
        last, self._last = self._last, OrderedDict()
        said = [answer for answers in last.values() for answer in answers]
        said += [answer for state, _ in self.states.values() for answer in state.conclude()]
        return [(topic_of(answer), answer) for answer in said]

    def flush(self, key: Key) -> list[tuple[Topic, Event]]:
        """What the messages that still wait in the state of ``key`` bring to light; its last words, once forgotten."""
        held = self.states.get(key)
        said = self._last.pop(key, []) if held is None else held[0].finish()
        return [(topic_of(answer), answer) for answer in said]

    def _advance(self, producer: str, start_s: float) -> None:
        before = self._newest.get(producer)
        if before is None:
            self._newest[producer] = (start_s, self.now_s)
            if len(self._newest) > _MOST_PRODUCERS:
                self._newest.popitem(last=False)
            return
        newest_s, passed_s = before
        if start_s <= newest_s < start_s + _SET_BACK_S:
            return
        self.now_s = max(self.now_s, passed_s + min(max(0.0, start_s - newest_s), MOST_PUSH_S))
        self._newest[producer] = (start_s, self.now_s)
        self._newest.move_to_end(producer)

    def _forget(self) -> None:
        now_s = self.now_s
        while self.states:
            key = next(iter(self.states))
            idle = now_s - self.states[key][1] > self.idle_s
            if len(self.states) <= self.most_states:
                if not idle:
                    return
                if key.kind == "cluster":
                    self.states[key] = (self.states.pop(key)[0], now_s)
                    continue
            self.forget(key, idle=idle)

    def forget(self, key: Key, *, idle: bool = True) -> None:
        """Let go of the state of ``key``, and of what is stored of it; ``idle``: after its last words."""
        state, _ = self.states.pop(key, (None, 0.0))
        self._forgotten.append(key)
        if idle and state is not None and (said := state.conclude() if self.recorded else state.expire()):
            self._last[key] = said
            if len(self._last) > self.most_states:
                self._last.popitem(last=False)

    def take_forgotten(self) -> list[Key]:
        """The keys forgotten since the last call, so that their stored state can be deleted."""
        keys, self._forgotten = self._forgotten, []
        return [key for key in keys if key not in self.states]

    def __contains__(self, key: Key) -> bool:
        return key in self.states

    def cutting(self, key: Key) -> Generator[None, None, StateCut]:
        """The state of one key as it is now, to be packed later. It may take in no event between the steps."""
        return self.states[key][0].cutting()

    def snapshot(self, key: Key) -> bytes:
        """The same, packed."""
        return self.states[key][0].snapshot()

    def drop(self, key: Key) -> None:
        """Let go of the state of one key; its next event starts another."""
        self.states.pop(key, None)

    def restore(self, key: Key, data: bytes) -> None:
        """Put the state of one key back.

        Raises:
            ValueError: ``data`` is no snapshot.
        """
        state = KeyedState.restore(data, self.routes, self.most_ranks, self.advice_settings)
        self.states[key] = (state, self.now_s)

    def begin_again(self, key: Key, forgotten: int) -> None:
        """A key of which nothing is stored begins; its state was forgotten ``forgotten`` times before."""
        state = self._state()
        state.begin_again(forgotten)
        self.states[key] = (state, self.now_s)

    def open_answers(self, key: Key) -> list[Finding | Suggestion]:
        """The findings and suggestions of one key that are open."""
        return self.states[key][0].open.all()

    def clear(self) -> None:
        """Drop every state: their partitions are somebody else's now."""
        self.states.clear()
        self._forgotten.clear()
        self._last.clear()
