"""A few messages about collectives as one: sound rows, sums and links as arrays, for every line of judgement.

Rule of this file: pure; rows that cannot be are left out and counted. Collectives come one by one (CollectiveTimings,
CollectiveCalls) or summed on their node (StepTimings); what follows from both alike, how far each rank has got and how
long it stood waiting, is worked out here.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paceline.columns import rows
from paceline.events import RANK_LIMIT, CollectiveCalls, CollectiveSums, CollectiveTimings, StepTimings

from .collective_rows import (
    NO_SPANS,
    NO_SUMS,
    NOT_REACHED,
    Calls,
    Reached,
    Spans,
    Sums,
    calls_sound,
    only_sound,
    spans_sound,
    sums_sound,
    together,
)
from .coverage import CoverageTracker
from .limits import ABSURD_S
from .link_rows import LinkRows, link_rows
from .raw_columns import Ints, floats, whole
from .vocabularies import Groups, Words

CollectiveMessage = CollectiveTimings | CollectiveCalls | StepTimings


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
    #: So many steps stand behind each that all told: others were left out on purpose. And by rank, how many it leaves
    #: out after one that it tells, -1 for a rank that tells none.
    each: int = 1
    left_out: Ints = np.empty(0, dtype=np.int64)

    def each_of(self, ranks: Ints) -> Ints:
        """How many steps stand behind each that was told by these ``ranks``."""
        each = np.ones(ranks.size, dtype=np.int64)
        known = ranks < self.left_out.size
        each[known] += np.maximum(self.left_out[ranks[known]], 0)
        return each


def collective_batch(messages: Sequence[CollectiveMessage], coverage: CoverageTracker) -> CollectiveBatch:
    """What ``messages`` tell; rows that cannot be are noted in ``coverage``."""
    groups, operations = Groups(), Words()
    one_by_one = [message for message in messages if not isinstance(message, StepTimings)]
    calls = together(Calls, [_calls_of(message, groups, operations) for message in one_by_one])
    calls = only_sound(calls, calls_sound(calls), coverage)
    summed = [(one.t0_s, one.collectives) for one in messages if isinstance(one, StepTimings) and one.collectives]
    sums, spans, reached = _summed(summed, groups, operations, coverage)
    longest = [one.longest_wait_s for _, one in summed if 0 <= one.longest_wait_s <= ABSURD_S]
    if calls.rank.size:
        spans = together(Spans, [calls.spans(), spans])
        reached = together(Reached, [calls.reached(), reached])
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
    groups, operations = Groups(), Words()
    parts = [one.collectives for one in messages if one.collectives]
    sums = _sums(parts, groups, operations) if parts else NO_SUMS
    return only_sound(sums, sums_sound(sums), coverage), list(groups.numbers), list(operations.numbers)


def _closed(messages: Sequence[CollectiveMessage]) -> Ints:
    """The steps that ranks have closed: their collectives are summed a step later."""
    return whole([message.step for message in messages if isinstance(message, StepTimings)])


def _calls_of(message: CollectiveTimings | CollectiveCalls, groups: Groups, operations: Words) -> Calls:
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


def _summed(
    told: Sequence[tuple[float, CollectiveSums]], groups: Groups, operations: Words, coverage: CoverageTracker
) -> tuple[Sums, Spans, Reached]:
    """What messages sum, each with its ``t0_s``."""
    if not told:
        return NO_SUMS, NO_SPANS, NOT_REACHED
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
    there = (reached.rank >= 0) & (reached.rank < RANK_LIMIT) & (reached.seq >= 0) & (reached.group >= 0)
    return (
        only_sound(sums, sums_sound(sums), coverage),
        only_sound(spans, spans_sound(spans), coverage),
        only_sound(reached, there, coverage),
    )


def _sums(parts: Sequence[CollectiveSums], groups: Groups, operations: Words) -> Sums:
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
