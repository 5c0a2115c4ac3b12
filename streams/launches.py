"""Which launch of a job's attempt a message is of: the same name may be started again, or twice at a time by mistake.

Rule of this file: pure and bounded. A launch has each rank once, and counts steps from 0. A producer is one sidecar;
one that takes over from another on its node goes on with its steps, one of another launch begins them. One launch is
judged at a time; another waits, unjudged, until all producers of the first have said goodbye, or said nothing for
``LAUNCH_SILENT_S`` in which the other went on. Two that report side by side are a finding.

What is judged is never of two launches. What a launch sends while it waits is not judged, for lack of the steps before.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from paceline.events import CollectiveCalls, Coverage, Finding, Speakers, StepTimings
from paceline.events.findings import OTHER_RANKS
from paceline.events.silence import LAUNCH_SILENT_S
from paceline.ranges import ranges

from .episodes.finding import JobKey, Said, Subject, finding, number
from .episodes.tracker import Episode, Measured, Tracker
from .raw_columns import array, ends, whole
from .stored import Kept, Stored, StoredDecision

#: Two launches that report side by side for so long do so at once: clocks of nodes are closer than that.
BESIDE_S = 10.0
#: A producer that begins with a step before this one begins a launch, where others are further.
FIRST_STEPS = 10
#: Producers that are known at a time; what those beyond say is judged as before.
MOST_PRODUCERS = 65_536
_TWICE = "launches"


class Turn(NamedTuple):
    """Whether a message is judged, whether another launch begins with it, and what is found beside that."""

    judged: bool
    begins: bool = False
    found: tuple[Finding, ...] = ()


class TwiceEvidence(Measured, frozen=True, kw_only=True):
    """Where two launches run that report at once; ranks and first times of each."""

    nodes: tuple[str, ...]
    other_nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    other_ranks: tuple[int, ...]


TwiceEpisode = Episode[str, TwiceEvidence]


class _Told(NamedTuple):
    """For whom a message speaks, and who that is under a bound on ranks: a producer says the same in every message."""

    speakers: Speakers
    most: int
    ranks: frozenset[int]


class _Producer(Stored):
    """What is known of a sidecar: its node and ranks, how far they are, and whether they have left."""

    node: Kept[str]
    ranks: Kept[set[int]]
    last_step: Kept[int]
    sequence: Kept[int]
    ended: Kept[bool]

    def __init__(self, node: str = "") -> None:
        self.node = node
        self.ranks = set()
        self.last_step = self.sequence = -1
        self.ended = False
        #: For whom its last message spoke, under which bound on ranks, and who that is.
        self.told: _Told | None = None

    def update(self, message: "_Message") -> None:
        if self.told is not message.told:
            self.told = message.told
            self.ranks |= message.ranks
        self.last_step, self.sequence = max(self.last_step, message.last_step), message.sequence
        self.ended = message.ended


class _Message(NamedTuple):
    """What tells launches apart in a message; without rows ``first_step`` is None."""

    producer: str
    sequence: int
    node: str
    told: _Told
    first_step: int | None
    last_step: int
    time_s: float
    ended: bool

    @property
    def ranks(self) -> frozenset[int]:
        return self.told.ranks

    @property
    def begins(self) -> bool:
        return self.first_step is not None and self.first_step < FIRST_STEPS


class Launches(StoredDecision):
    """The launches of one attempt of a job."""

    layout = 3
    again: Kept[str]
    launch: Kept[str]
    begun: Kept[int]
    judged: Kept[dict[str, _Producer]]
    waiting: Kept[dict[str, _Producer]]
    past: Kept[OrderedDict[str, None]]
    began_s: Kept[float]
    alone_s: Kept[float]
    last_s: Kept[float]
    judged_s: Kept[float]
    tracker: Kept[Tracker[Any, Any]]

    def __init__(self, forgotten: int = 0) -> None:
        """``forgotten``: how often what was known of this attempt was forgotten, launches of it among that."""
        #: What tells these launches from forgotten ones; "" where there are none.
        self.again = str(forgotten) if forgotten else ""
        #: Who began the launch that is judged; ``again`` for the first.
        self.launch = self.again
        self.begun = 0
        self.judged = {}
        self.waiting = {}
        #: Producers of launches that are over, and those that others have taken over from.
        self.past = OrderedDict()
        self.holder: dict[int, str] = {}
        #: When those that wait began to report, since when nothing else did, and their last word.
        self.began_s = self.alone_s = self.last_s = 0.0
        #: The last word of the launch that is judged.
        self.judged_s = 0.0
        #: Whether any of its producers is past the first steps; None: to be found out, which takes a look at each.
        self._past_first: bool | None = None
        self.tracker = Tracker(TwiceEpisode)

    def update(self, event: StepTimings | CollectiveCalls, most_ranks: int) -> Turn:
        """Take in a message."""
        if event.producer in self.past:
            return Turn(judged=False)
        if isinstance(event, CollectiveCalls):
            return Turn(judged=self._admits(event, most_ranks))
        own = self.judged.get(event.producer)
        before = own or self.waiting.get(event.producer)
        message = _message(event, most_ranks, None if before is None else before.told)
        job = JobKey(event.cluster, event.job, event.attempt)
        if message.producer in self.waiting:
            return self._wait(message, job)
        if own is not None and not (own.ended and message.begins and message.sequence > own.sequence):
            return Turn(judged=True, found=self._go_on(own, message, job))
        return Turn(judged=True) if own is None and self._joins(message) else self._wait(message, job)

    def _go_on(self, own: _Producer, message: _Message, job: JobKey) -> tuple[Finding, ...]:
        """A producer of the launch that is judged says more."""
        if message.sequence <= own.sequence:  # Delivered twice.
            return ()
        self._take(message.producer, own, message)
        if not self.waiting or message.time_s < self.began_s:
            return ()  # What was measured before the other began says nothing, however late it comes.
        self.alone_s = self.last_s
        return self._twice(job) if message.time_s >= self.began_s + BESIDE_S and not own.ended else ()

    def _joins(self, message: _Message) -> bool:
        """Whether a producer that is not known yet is of the launch that is judged; it is taken in."""
        before = {self.holder[rank] for rank in message.ranks if rank in self.holder}
        later = self.waiting if self._far() else self._over() and message.time_s > self.judged_s
        if not before and message.begins and later:
            return False
        if not all(self._succeeds(message, self.judged[name]) for name in before):
            return False
        for name in before:
            self._leave(name)
        if len(self.judged) < MOST_PRODUCERS:
            self._take(message.producer, _Producer(message.node), message)
        return True

    def _succeeds(self, message: _Message, one: _Producer) -> bool:
        """Whether ``message`` is of the sidecar that has taken over from ``one``."""
        early = message.begins and one.last_step >= FIRST_STEPS
        return message.node == one.node and not one.ended and not early

    def _over(self) -> bool:
        """Whether all have said goodbye, if there are any."""
        return bool(self.judged) and all(one.ended for one in self.judged.values())

    def _far(self) -> bool:
        if self._past_first is None:
            self._past_first = any(one.last_step >= FIRST_STEPS for one in self.judged.values())
        return self._past_first

    def _admits(self, event: CollectiveCalls, most_ranks: int) -> bool:
        """Whether collectives are of the launch that is judged; their producer may not have told a step yet."""
        if event.producer in self.judged:
            return True
        return event.producer not in self.waiting and self.holder.keys().isdisjoint(_ranks(event, most_ranks))

    def _wait(self, message: _Message, job: JobKey) -> Turn:
        """A producer of another launch: it begins where the one that is judged is over."""
        if not self.waiting:
            self.began_s = self.alone_s = message.time_s
        one = self.waiting.get(message.producer)
        if one is None and len(self.waiting) < MOST_PRODUCERS:
            one = self.waiting[message.producer] = _Producer(message.node)
        if one is not None and message.sequence > one.sequence:
            one.update(message)
            self.last_s = max(self.last_s, message.time_s)
        if one is not None and not one.ended and (self._over() or self.last_s - self.alone_s >= LAUNCH_SILENT_S):
            found = self._calm(job)
            self._begin(message.producer)
            return Turn(judged=True, begins=True, found=found)
        if all(each.ended for each in self.waiting.values()):
            found = self._calm(job)
            self._forget(self.waiting)
            self.waiting = {}
            return Turn(judged=False, found=found)
        return Turn(judged=False)

    def _begin(self, first: str) -> None:
        """The launch that ``first`` is of is judged from now on; of others that wait, those whose ranks it has not."""
        self._forget(name for name in self.judged if name not in self.waiting)
        waiting, self.judged, self.holder, self.waiting = self.waiting, {}, {}, {}
        self.launch, self.begun = f"{first} {self.begun + 1}", self.begun + 1
        for name in (first, *(name for name in waiting if name != first)):
            one = waiting[name]
            if self.holder.keys().isdisjoint(one.ranks):
                self.judged[name] = one
                self.holder |= dict.fromkeys(one.ranks, name)
            else:
                self.waiting[name] = one
        self.began_s = self.alone_s = self.judged_s = self.last_s
        self._past_first = None

    def _take(self, name: str, one: _Producer, message: _Message) -> None:
        self.judged[name] = one
        one.update(message)
        self.holder |= dict.fromkeys(message.ranks, name)  # Also where one that spoke for some of them has left.
        if one.last_step >= FIRST_STEPS:
            self._past_first = True
        self.judged_s = max(self.judged_s, message.time_s)

    def _leave(self, name: str) -> None:
        one = self.judged.pop(name)
        self._past_first = None
        for rank in one.ranks:
            self.holder.pop(rank, None)
        self._forget([name])

    def _forget(self, names: Iterable[str]) -> None:
        self.past |= dict.fromkeys(names)
        while len(self.past) > MOST_PRODUCERS:
            self.past.popitem(last=False)

    def _twice(self, job: JobKey) -> tuple[Finding, ...]:
        if self.tracker.get(_TWICE) is None:
            episode = self.tracker.begin(_TWICE, self.begun, "configuration")
            episode.evidence = TwiceEvidence(
                nodes=_nodes(self.judged),
                other_nodes=_nodes(self.waiting),
                ranks=_all_ranks(self.judged),
                other_ranks=_all_ranks(self.waiting),
            )
        return self._say("persistent", job)

    def _calm(self, job: JobKey) -> tuple[Finding, ...]:
        return () if self.tracker.get(_TWICE) is None else self._say("calm", job)

    def _say(self, signal: Any, job: JobKey) -> tuple[Finding, ...]:
        episode = self.tracker.revise(_TWICE, signal, 0.0)
        coverage = Coverage(ranks_expected=len(self.holder), ranks_heard=len(self.holder), events_missing=0)
        return () if episode is None else (finding(episode, said(episode, job), job, coverage),)

    def loaded(self) -> None:
        """Find out again who speaks for each rank."""
        self.holder = {rank: name for name, one in self.judged.items() for rank in one.ranks}


def said(episode: TwiceEpisode, job: JobKey) -> Said:
    """What is said of two launches that report at once."""
    seen = episode.measured
    here, there = _place(seen.nodes, seen.ranks), _place(seen.other_nodes, seen.other_ranks)
    rule = "each rank of a job may run once"
    evidence = [
        number("ranks", len(seen.ranks), "ranks", None, f"of the run that is judged: {here}; {rule}"),
        number(OTHER_RANKS, len(seen.other_ranks), "ranks", None, f"of the run that is not judged: {there}; {rule}"),
    ]
    summary = (
        f"Two runs named {job.job} report at the same time, both as attempt {job.attempt}: {here}, and {there}. "
        "Only the first is judged. Stop one of them, or start each with a name of its own: paceline run --job NAME."
    )
    over = f"One run named {job.job} reports."
    subject = Subject("configuration_mismatch", _TWICE, has_steps=False)
    return Said(subject, evidence, summary, over=over, severity="warning", confidence=0.99)


def _place(nodes: tuple[str, ...], ranks: tuple[int, ...]) -> str:
    shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    return f"ranks {ranges(ranks)} on {shown}"


def _nodes(producers: dict[str, _Producer]) -> tuple[str, ...]:
    return tuple(sorted({one.node for one in producers.values()}))


def _all_ranks(producers: dict[str, _Producer]) -> tuple[int, ...]:
    return tuple(sorted({rank for one in producers.values() for rank in one.ranks}))


def _message(event: StepTimings, most_ranks: int, before: _Told | None) -> _Message:
    steps = ends(event.step)
    if before is None or (before.speakers, before.most) != (event.speakers, most_ranks):
        before = _Told(event.speakers, most_ranks, _ranks(event, most_ranks))
    first, last = (None, -1) if steps is None else steps
    time_s = max(event.t0_s, event.now_s or 0.0)
    return _Message(event.producer, event.sequence, event.node, before, first, last, time_s, event.ended)


def _ranks(event: StepTimings | CollectiveCalls, most_ranks: int) -> frozenset[int]:
    ranks = array(event.speakers.ranks)
    return frozenset(whole([event.speakers.ranks])[(ranks >= 0) & (ranks < most_ranks)].tolist())
