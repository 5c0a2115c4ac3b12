"""A few messages about collectives as one: sound rows, sums and links as arrays, for every line of judgement.

Rule of this file: pure; rows that cannot be are left out and counted. Collectives come one by one (CollectiveTimings,
CollectiveCalls) or summed on their node (StepTimings); what follows from both alike, how far each rank has got and how
long it stood waiting, is worked out here.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import CollectiveCalls, CollectiveSums, CollectiveTimings, StepTimings

from .coverage import CoverageTracker
from .limits import ABSURD_S, MOST_RANKS
from .link_rows import LinkRows, link_rows
from .raw_columns import floats, rows, whole
from .robust import Array

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


def _nothing(kind: Any) -> Any:
    """``kind``, a NamedTuple of columns, with no row."""
    floating = {name for name, one in kind.__annotations__.items() if one is not Ints}
    return kind(*(np.empty(0, np.float64 if name in floating else np.int64) for name in kind._fields))


_NO_SUMS: Sums = _nothing(Sums)
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
    spans: Spans
    reached: Reached
    longest_wait_s: float
    #: The latest step of any of the collectives, or that is closed; -1 where none is known.
    last_step: int


class _Words:
    """The vocabularies of several messages as one."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, words: Sequence[str]) -> Ints:
        """The number of each word in here, then -1, for what is no word."""
        numbers = self.numbers
        return np.array([*[numbers.setdefault(word, len(numbers)) for word in words], -1], dtype=np.int64)

    def of(self, vocabularies: Sequence[Sequence[str]], indices: Ints, rows: Sequence[int]) -> Ints:
        """``indices`` into the vocabulary of their own message, so many ``rows`` of each, as numbers in here."""
        if not vocabularies:
            return indices
        first = vocabularies[0]
        if all(words is first or words == first for words in vocabularies):
            there = (indices >= 0) & (indices < len(first))
            return np.asarray(self.number(first)[np.where(there, indices, len(first))])
        numbers = np.concatenate([self.number(words) for words in vocabularies])
        sizes = np.array([len(words) for words in vocabularies], dtype=np.int64)
        base, size = (np.repeat(column, rows) for column in (np.cumsum(sizes + 1) - sizes - 1, sizes))
        return np.asarray(numbers[base + np.where((indices >= 0) & (indices < size), indices, size)])


class _Sizes(_Words):
    """Groups, and how many members each has."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def learn(self, groups: Sequence[str], sizes: Sequence[int]) -> None:
        """Number ``groups``, whose sizes are new."""
        for name, size in zip(groups, sizes, strict=True):
            if self.numbers.setdefault(name, len(self.numbers)) == len(self.sizes):
                self.sizes.append(size)


def collective_batch(messages: Sequence[CollectiveMessage], coverage: CoverageTracker) -> CollectiveBatch:
    """What ``messages`` tell; rows that cannot be are noted in ``coverage``."""
    groups, operations = _Sizes(), _Words()
    one_by_one = [message for message in messages if not isinstance(message, StepTimings)]
    calls = _together(Calls, [_calls_of(message, groups, operations) for message in one_by_one])
    calls = _sound(calls, _calls_sound(calls), coverage)
    summed = [(one.t0_s, one.collectives) for one in messages if isinstance(one, StepTimings) and one.collectives]
    sums, spans, reached = _summed(summed, groups, operations, coverage)
    longest = [one.longest_wait_s for _, one in summed if 0 <= one.longest_wait_s <= ABSURD_S]
    if calls.rank.size:
        spans = _together(Spans, [calls.spans(), spans])
        reached = _together(Reached, [calls.reached(), reached])
        longest.append(float(calls.wait_s.max()))
    return CollectiveBatch(
        calls=calls,
        phases=all(isinstance(one, CollectiveTimings) and one.phases for one in one_by_one),
        sums=sums,
        groups=list(groups.numbers),
        group_sizes=groups.sizes,
        operations=list(operations.numbers),
        links=link_rows([message for message in messages if not isinstance(message, CollectiveCalls)]),
        spans=spans.merged() if spans.ranks.size else spans,
        reached=reached,
        longest_wait_s=max(longest, default=0.0),
        last_step=max(int(step.max(initial=-1)) for step in (calls.step, sums.step, _closed(messages))),
    )


def collective_sums(messages: Sequence[StepTimings], coverage: CoverageTracker) -> tuple[Sums, list[str], list[str]]:
    """The sums alone that ``messages`` tell, with the names of their groups and operations."""
    groups, operations = _Sizes(), _Words()
    parts = [one.collectives for one in messages if one.collectives]
    sums = _sums(parts, groups, operations) if parts else _NO_SUMS
    return _sound(sums, _sums_sound(sums), coverage), list(groups.numbers), list(operations.numbers)


def _closed(messages: Sequence[CollectiveMessage]) -> Ints:
    """The steps that ranks have closed: their collectives are summed a step later."""
    return whole([message.step for message in messages if isinstance(message, StepTimings)])


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


def _calls_of(message: CollectiveTimings | CollectiveCalls, groups: _Sizes, operations: _Words) -> Calls:
    """The rows of ``message``, in the numbers of ``groups`` and ``operations``; a number of no word becomes -1."""
    if isinstance(message, CollectiveTimings):
        columns = (message.rank, message.step, message.seq, message.group, message.operation, message.bytes)
        ints = [np.asarray(column, dtype=np.int64) for column in columns]
        start, took, wait = (
            np.asarray(column, dtype=np.float64) for column in (message.start_s, message.duration_s, message.wait_s)
        )
        groups.learn(message.groups, message.group_sizes)
    else:
        raw = (message.rank, message.step, message.seq, message.group, message.operation, message.bytes)
        ints = [whole([column]) for column in raw]
        start, took, wait = (floats([column]) for column in (message.start_s, message.duration_s, message.wait_s))
        groups.learn(message.groups, whole([message.group_sizes]).tolist())
    rank, step, seq, group, operation, moved = ints
    group = groups.of([message.groups], group, [rank.size])
    operation = operations.of([message.operations], operation, [rank.size])
    return Calls(rank, step, seq, group, operation, moved, start + message.t0_s, took, wait)


def _calls_sound(calls: Calls) -> NDArray[np.bool_]:
    sound = (calls.rank >= 0) & (calls.rank < MOST_RANKS) & (calls.seq >= 0)
    sound &= (calls.group >= 0) & (calls.operation >= 0) & np.isfinite(calls.start_s)
    return np.asarray(sound & _lasts(calls.wait_s) & _lasts(calls.duration_s))


def _summed(
    told: Sequence[tuple[float, CollectiveSums]], groups: _Sizes, operations: _Words, coverage: CoverageTracker
) -> tuple[Sums, Spans, Reached]:
    """What messages sum, each with its ``t0_s``."""
    if not told:
        return _NO_SUMS, _NO_SPANS, _NOT_REACHED
    parts = [part for _, part in told]
    sums = _sums(parts, groups, operations)
    began_s = np.repeat([t0_s for t0_s, _ in told], [rows(part.span_rank) for part in parts])
    spans = Spans(
        whole([part.span_rank for part in parts]),
        floats([part.span_first_s for part in parts]) + began_s,
        floats([part.span_last_s for part in parts]) + began_s,
        floats([part.span_waited_s for part in parts]),
    )
    group = whole([part.reached_group for part in parts])
    reached = Reached(
        whole([part.reached_rank for part in parts]),
        groups.of([part.groups for part in parts], group, [rows(part.reached_group) for part in parts]),
        whole([part.reached_seq for part in parts]),
    )
    there = (reached.rank >= 0) & (reached.rank < MOST_RANKS) & (reached.seq >= 0) & (reached.group >= 0)
    return (
        _sound(sums, _sums_sound(sums), coverage),
        _sound(spans, _spans_sound(spans), coverage),
        _sound(reached, there, coverage),
    )


def _sums(parts: Sequence[CollectiveSums], groups: _Sizes, operations: _Words) -> Sums:
    known = None
    for part in parts:
        if known is None or part.groups != known.groups or part.group_sizes != known.group_sizes:
            groups.learn(part.groups, whole([part.group_sizes]).tolist())
            known = part
    each = [rows(part.step) for part in parts]
    return Sums(
        whole([part.step for part in parts]),
        groups.of([part.groups for part in parts], whole([part.group for part in parts]), each),
        operations.of([part.operations for part in parts], whole([part.operation for part in parts]), each),
        whole([part.count for part in parts]),
        whole([part.members for part in parts]),
        whole([part.bytes for part in parts]),
        floats([part.wait_s for part in parts]),
        floats([part.duration_s for part in parts]),
    )


def _sums_sound(sums: Sums) -> NDArray[np.bool_]:
    sound = (sums.step >= 0) & (sums.group >= 0) & (sums.operation >= 0) & (sums.calls > 0) & (sums.members > 0)
    return np.asarray(sound & (sums.bytes >= 0) & _lasts(sums.wait_s) & _lasts(sums.duration_s))


def _spans_sound(spans: Spans) -> NDArray[np.bool_]:
    sound = (spans.ranks >= 0) & (spans.ranks < MOST_RANKS) & np.isfinite(spans.first_s)
    # Waits that overlap may add up to more than the time there was.
    return np.asarray(sound & _lasts(spans.last_s - spans.first_s) & (spans.waited_s >= 0) & (spans.waited_s < np.inf))
