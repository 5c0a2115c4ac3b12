"""A few messages about collectives as one: sound rows, sums and links as arrays, for every line of judgement.

Rule of this file: pure; rows that cannot be are left out and counted. Collectives come one by one (CollectiveTimings,
CollectiveCalls) or summed on their node (StepTimings); what follows from both alike, how far each rank has got and how
long it stood waiting, is worked out here.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.columns import end_of_link
from paceline.events import CollectiveCalls, CollectiveTimings, LinkSample, StepTimings

from ..coverage import CoverageTracker
from ..raw_columns import floats, whole
from ..robust import Array
from .limits import ABSURD_S, MOST_RANKS

Ints = NDArray[np.int64]
CollectiveMessage = CollectiveTimings | CollectiveCalls | StepTimings

_IMPOSSIBLE = "collectives with impossible numbers"


class Spans(NamedTuple):
    """Of each rank, ascending: its first start, its last end, and the sum of its waits, in seconds."""

    ranks: Ints
    first_s: Array
    last_s: Array
    waited_s: Array

    def merged(self) -> "Spans":
        """The same with one entry a rank."""
        order = np.argsort(self.ranks, kind="stable")
        first = starts(self.ranks[order])
        return Spans(
            self.ranks[order][first],
            np.minimum.reduceat(self.first_s[order], first),
            np.maximum.reduceat(self.last_s[order], first),
            np.add.reduceat(self.waited_s[order], first),
        )


class Reached(NamedTuple):
    """How far each rank has got in each group: the number of its latest collective. ``group`` is an index."""

    rank: Ints
    group: Ints
    seq: Ints


class Calls(NamedTuple):
    """Equally long columns in the batch's order. Times are absolute, on the node's clock; ``group`` is an index."""

    rank: Ints
    step: Ints
    seq: Ints
    group: Ints
    operation: Ints
    bytes: Ints
    start_s: Array
    duration_s: Array
    wait_s: Array

    def spans(self) -> Spans:
        """Every rank's time."""
        return Spans(self.rank, self.start_s, self.start_s + self.duration_s, self.wait_s).merged()

    def reached(self) -> Reached:
        """How far every rank has got."""
        order = np.lexsort((self.rank, self.group))
        rank, group = self.rank[order], self.group[order]
        first = starts(group, rank)
        return Reached(rank[first], group[first], np.maximum.reduceat(self.seq[order], first))


class Sums(NamedTuple):
    """Equally long columns: collectives of one step, group, operation and size on one node, as CollectiveSums has."""

    step: Ints
    group: Ints
    operation: Ints
    calls: Ints
    members: Ints
    bytes: Ints
    wait_s: Array
    duration_s: Array


class LinkRows(NamedTuple):
    """Links of ranks, and (``of`` is the row) their connections that carried data; NaN is not measured."""

    rank: Ints
    connections: Ints
    rtt_s: Array
    retransmits: Ints
    rated_bytes_per_s: Array
    of: Ints
    local: Ints
    remote: Ints
    peer_rtt_s: Array


def _nothing(kind: Any) -> Any:
    """``kind``, a NamedTuple of columns, with no row."""
    floating = {name for name, one in kind.__annotations__.items() if one is not Ints}
    return kind(*(np.empty(0, np.float64 if name in floating else np.int64) for name in kind._fields))


NO_CALLS: Calls = _nothing(Calls)
NO_SUMS: Sums = _nothing(Sums)
NO_LINKS: LinkRows = _nothing(LinkRows)
_NO_SPANS: Spans = _nothing(Spans)
_NOT_REACHED: Reached = _nothing(Reached)


def starts(*keys: Ints) -> Ints:
    """Where a new combination begins in ``keys``, sorted columns of at least one row."""
    new = np.ones(keys[0].size, dtype=bool)
    new[1:] = False
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


class CollectiveBatch(NamedTuple):
    """A few messages of one job as one."""

    #: Collectives one by one, and whether the ranks' phases are told as well, which then carry the verdict.
    calls: Calls
    phases: bool
    #: Collectives summed on their nodes.
    sums: Sums
    #: What the numbers of groups and operations stand for.
    groups: list[str]
    group_sizes: list[int]
    operations: list[str]
    links: LinkRows
    #: For whom the messages speak.
    ranks: list[int]
    spans: Spans
    reached: Reached
    longest_wait_s: float
    #: The latest step of any of the collectives; -1 where none is known.
    last_step: int


class _Words:
    """The vocabularies of several messages as one."""

    def __init__(self) -> None:
        self.groups: dict[str, int] = {}
        self.sizes: list[int] = []
        self.operations: dict[str, int] = {}

    def of_groups(self, names: Sequence[str], sizes: Sequence[int]) -> Ints:
        """The number of each group in here."""
        for name, size in zip(names, sizes, strict=True):
            if self.groups.setdefault(name, len(self.groups)) == len(self.sizes):
                self.sizes.append(int(size))
        return np.array([self.groups[name] for name in names], dtype=np.int64)

    def of_operations(self, words: Sequence[str]) -> Ints:
        """The number of each operation in here."""
        return np.array([self.operations.setdefault(word, len(self.operations)) for word in words], dtype=np.int64)


def collective_batch(
    messages: Sequence[CollectiveMessage], coverage: CoverageTracker, ranks: Sequence[int] = ()
) -> CollectiveBatch:
    """What ``messages`` tell, which speak for ``ranks``; rows that cannot be are noted in ``coverage``."""
    words = _Words()
    one_by_one = [message for message in messages if not isinstance(message, StepTimings)]
    summed = [one for message in messages if isinstance(message, StepTimings) and (one := _of_sums(message, words))]
    calls = _together(Calls, [_calls_of(message, words) for message in one_by_one])
    calls = _sound(calls, _calls_sound(calls), coverage)
    parts = [*((one.sums, one.spans, one.reached) for one in summed)]
    sums, spans, reached = (
        _together(kind, [part[at] for part in parts]) for at, kind in enumerate((Sums, Spans, Reached))
    )
    sums, spans = _sound(sums, _sums_sound(sums), coverage), _sound(spans, _spans_sound(spans), coverage)
    reached = _sound(reached, (reached.rank >= 0) & (reached.rank < MOST_RANKS) & (reached.seq >= 0), coverage)
    longest = [one.longest_wait_s for one in summed if 0 <= one.longest_wait_s <= ABSURD_S]
    if calls.rank.size:
        spans = _together(Spans, [calls.spans(), spans])
        reached = _together(Reached, [calls.reached(), reached])
        longest.append(float(calls.wait_s.max()))
    return CollectiveBatch(
        calls=calls,
        phases=all(isinstance(one, CollectiveTimings) and one.phases for one in one_by_one),
        sums=sums,
        groups=list(words.groups),
        group_sizes=words.sizes,
        operations=list(words.operations),
        links=_links([message for message in messages if not isinstance(message, CollectiveCalls)]),
        ranks=list(ranks),
        spans=spans.merged() if spans.ranks.size else spans,
        reached=reached,
        longest_wait_s=max(longest, default=0.0),
        last_step=max(int(calls.step.max(initial=-1)), int(sums.step.max(initial=-1))),
    )


def _together(kind: Any, parts: Sequence[Any]) -> Any:
    """Columns of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return kind(*map(np.concatenate, zip(*parts, strict=True))) if parts else _nothing(kind)


def _sound(rows: Any, sound: NDArray[np.bool_], coverage: CoverageTracker) -> Any:
    """The rows that are sound; the others are noted."""
    if sound.all():
        return rows
    coverage.note(_IMPOSSIBLE, int((~sound).sum()))
    return type(rows)(*(column[sound] for column in rows))


def _lasts(seconds: Array) -> NDArray[np.bool_]:
    return np.asarray((seconds >= 0) & (seconds <= ABSURD_S))


def _calls_of(message: CollectiveTimings | CollectiveCalls, words: _Words) -> Calls:
    """The rows of ``message``, in the numbers of ``words``; a number of no word becomes -1."""
    if isinstance(message, CollectiveTimings):
        columns = (message.rank, message.step, message.seq, message.group, message.operation, message.bytes)
        ints = [np.asarray(column, dtype=np.int64) for column in columns]
        start, took, wait = (
            np.asarray(column, dtype=np.float64) for column in (message.start_s, message.duration_s, message.wait_s)
        )
        sizes: Sequence[int] = message.group_sizes
    else:
        raw = (message.rank, message.step, message.seq, message.group, message.operation, message.bytes)
        ints = [whole([column]) for column in raw]
        start, took, wait = (floats([column]) for column in (message.start_s, message.duration_s, message.wait_s))
        sizes = whole([message.group_sizes]).tolist()
    rank, step, seq, group, operation, moved = ints
    group = _numbered(group, words.of_groups(message.groups, sizes))
    operation = _numbered(operation, words.of_operations(message.operations))
    return Calls(rank, step, seq, group, operation, moved, start + message.t0_s, took, wait)


def _numbered(indices: Ints, numbers: Ints) -> Ints:
    there = (indices >= 0) & (indices < numbers.size)
    return np.where(there, np.append(numbers, -1)[np.where(there, indices, numbers.size)], -1)


def _calls_sound(calls: Calls) -> NDArray[np.bool_]:
    sound = (calls.rank >= 0) & (calls.rank < MOST_RANKS) & (calls.seq >= 0)
    sound &= (calls.group >= 0) & (calls.operation >= 0) & np.isfinite(calls.start_s)
    return np.asarray(sound & _lasts(calls.wait_s) & _lasts(calls.duration_s))


class _Summed(NamedTuple):
    """What one message sums."""

    sums: Sums
    spans: Spans
    reached: Reached
    longest_wait_s: float


def _of_sums(message: StepTimings, words: _Words) -> _Summed | None:
    told = message.collectives
    if told is None:
        return None
    groups = words.of_groups(told.groups, whole([told.group_sizes]).tolist())
    operations = words.of_operations(told.operations)
    sums = Sums(
        whole([told.step]),
        _numbered(whole([told.group]), groups),
        _numbered(whole([told.operation]), operations),
        whole([told.count]),
        whole([told.members]),
        whole([told.bytes]),
        floats([told.wait_s]),
        floats([told.duration_s]),
    )
    spans = Spans(
        whole([told.span_rank]),
        floats([told.span_first_s]) + message.t0_s,
        floats([told.span_last_s]) + message.t0_s,
        floats([told.span_waited_s]),
    )
    group = _numbered(whole([told.reached_group]), groups)
    reached = Reached(whole([told.reached_rank]), group, whole([told.reached_seq]))
    return _Summed(sums, spans, reached, told.longest_wait_s)


def _sums_sound(sums: Sums) -> NDArray[np.bool_]:
    sound = (sums.step >= 0) & (sums.group >= 0) & (sums.operation >= 0) & (sums.calls > 0) & (sums.members > 0)
    return np.asarray(sound & (sums.bytes >= 0) & _lasts(sums.wait_s) & _lasts(sums.duration_s))


def _spans_sound(spans: Spans) -> NDArray[np.bool_]:
    sound = (spans.ranks >= 0) & (spans.ranks < MOST_RANKS) & np.isfinite(spans.first_s)
    # Waits that overlap may add up to more than the time there was.
    return np.asarray(sound & _lasts(spans.last_s - spans.first_s) & (spans.waited_s >= 0) & (spans.waited_s < np.inf))


def _links(messages: Sequence[CollectiveTimings | StepTimings]) -> LinkRows:
    parts: list[LinkRows] = []
    before = 0
    for message in messages:
        part = _samples(message.links) if isinstance(message, CollectiveTimings) else _columns(message)
        parts.append(part._replace(of=part.of + before))
        before += part.rank.size
    links: LinkRows = _together(LinkRows, parts)
    sound = (links.rank >= 0) & (links.rank < MOST_RANKS)
    if sound.all():
        return links
    there = (links.of >= 0) & (links.of < sound.size)
    moved = np.append(np.where(sound, np.cumsum(sound) - 1, -1), -1)[np.where(there, links.of, sound.size)]
    return links._replace(of=moved, **{name: getattr(links, name)[sound] for name in LinkRows._fields[:5]})


def _samples(links: Sequence[LinkSample]) -> LinkRows:
    if not links:
        return NO_LINKS
    peers = [(at, peer) for at, link in enumerate(links) for peer in link.peers]

    def ints(numbers: Sequence[int]) -> Ints:
        return np.array(numbers, dtype=np.uint64).astype(np.int64)

    def measured(numbers: Sequence[float | None]) -> Array:
        return np.array([np.nan if one is None else one for one in numbers], dtype=np.float64)

    return LinkRows(
        ints([link.rank for link in links]),
        ints([link.connections for link in links]),
        measured([link.rtt_s for link in links]),
        ints([link.retransmits for link in links]),
        measured([link.rated_bytes_per_s for link in links]),
        ints([at for at, _ in peers]),
        ints([end_of_link(peer.local) for _, peer in peers]),
        ints([end_of_link(peer.remote) for _, peer in peers]),
        measured([peer.rtt_s for _, peer in peers]),
    )


def _columns(message: StepTimings) -> LinkRows:
    told = message.links
    if told is None:
        return NO_LINKS
    rank = whole([told.rank])
    rated = told.rated_bytes_per_s
    return LinkRows(
        rank,
        whole([told.connections]),
        floats([told.rtt_s]),
        whole([told.retransmits]),
        np.full(rank.size, np.nan) if rated is None else floats([rated]),
        whole([told.of]),
        whole([told.local]),
        whole([told.remote]),
        floats([told.peer_rtt_s]),
    )
