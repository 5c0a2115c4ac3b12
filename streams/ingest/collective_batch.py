"""A few messages about collectives as one: sound rows, sums and links as arrays, for every line of judgement.

Rule of this file: pure; rows that cannot be are left out and counted. Collectives come one by one
(CollectiveCalls) or summed on their node (StepTimings); what follows from both alike, how far each rank has got and how
long it stood waiting, is worked out here.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.columns import rows
from paceline.events import RANK_LIMIT, CollectiveCalls, CollectiveSums, StepTimings

from ..limits import ABSURD_S
from ..raw_columns import Floats, Ints, floats, whole
from .collective_rows import (
    NO_CALLS,
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
    split,
    sums_sound,
    together,
)
from .coverage import CoverageTracker
from .link_rows import LinkRows, link_rows
from .vocabularies import Groups, Words

CollectiveMessage = CollectiveCalls | StepTimings


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
    #: The earliest of those; -1 where none is known.
    first_step: int
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
    one_by_one = [message for message in messages if not isinstance(message, StepTimings)]
    steps = [message for message in messages if isinstance(message, StepTimings)]
    groups, operations, calls, sums = Groups(), Words(), NO_CALLS, NO_SUMS
    if one_by_one:
        calls = together(Calls, [_calls_of(message, groups, operations) for message in one_by_one])
        calls = only_sound(calls, calls_sound(calls, _most_ranks(coverage)), coverage)
    summed = [(one.t0_s, one.collectives) for one in steps if one.collectives]
    if summed:
        sums = _sums([part for _, part in summed], groups, operations)
        sums = only_sound(sums, sums_sound(sums), coverage)
    spans, reached = _progress(summed, groups, coverage)
    longest = [one.longest_wait_s for _, one in summed if 0 <= one.longest_wait_s <= ABSURD_S]
    if calls.rank.size:
        spans = together(Spans, [calls.spans(), spans])
        reached = together(Reached, [calls.reached(), reached])
        longest.append(float(calls.wait_s.max()))
    numbered = (calls.step, sums.step, whole([one.step for one in steps]))
    return CollectiveBatch(
        calls=calls,
        phases=all(one.phases for one in one_by_one),
        sums=sums,
        groups=list(groups.numbers),
        group_sizes=groups.sizes,
        operations=list(operations.numbers),
        links=link_rows(steps),
        spans=spans.merged() if spans.ranks.size else spans,
        reached=reached,
        longest_wait_s=max(longest, default=0.0),
        # Of the steps that ranks have closed the collectives are summed a step later.
        last_step=max(map(_highest, numbered)),
        first_step=_lowest(numbered),
    )


def _highest(numbers: Ints) -> int:
    """The highest of ``numbers``, -1 at the least."""
    return max(int(numbers[numbers.argmax()]), -1) if numbers.size else -1


def _lowest(told: Sequence[Ints]) -> int:
    """The lowest of all numbers that are not negative, -1 where there is none."""
    return min((int(numbers[numbers >= 0].min()) for numbers in told if (numbers >= 0).any()), default=-1)


def _calls_of(message: CollectiveCalls, groups: Groups, operations: Words) -> Calls:
    """The rows of ``message``, in the numbers of ``groups`` and ``operations``; a number of no word becomes -1."""
    columns = (message.rank, message.step, message.seq, message.group, message.operation, message.bytes)
    rank, step, seq, group, operation, moved = (whole([column]) for column in columns)
    start, took, wait = (floats([column]) for column in (message.start_s, message.duration_s, message.wait_s))
    groups.learn(message.groups, whole([message.group_sizes]).tolist())
    group = groups.of([message.groups], group, [rank.size])
    operation = operations.of([message.operations], operation, [rank.size])
    return Calls(rank, step, seq, group, operation, moved, start + message.t0_s, took, wait)


def _progress(
    told: Sequence[tuple[float, CollectiveSums]], groups: Groups, coverage: CoverageTracker
) -> tuple[Spans, Reached]:
    """How far ranks have got and how long they waited, of what messages sum, each with its ``t0_s``."""
    if not told:
        return NO_SPANS, NOT_REACHED
    parts = [part for _, part in told]
    began_s: Floats | float = told[0][0]
    if len(told) > 1:
        began_s = np.repeat([t0_s for t0_s, _ in told], [rows(part.span_rank) for part in parts])
    spans = Spans(
        whole([part.span_rank for part in parts]),
        floats([part.span_first_s for part in parts]) + began_s,
        floats([part.span_last_s for part in parts]) + began_s,
        floats([part.span_waited_s for part in parts]),
    )
    most = _most_ranks(coverage)
    reached, there = _reached(parts, groups, most)
    return (
        only_sound(spans, spans_sound(spans, most), coverage),
        only_sound(reached, there, coverage),
    )


def _reached(parts: Sequence[CollectiveSums], groups: Groups, most: int) -> tuple[Reached, NDArray[np.bool_]]:
    """How far ranks have got by ``parts``, and which of these rows can be in a job of ``most`` ranks."""
    group = whole([part.reached_group for part in parts])
    reached = Reached(
        whole([part.reached_rank for part in parts]),
        groups.of([part.groups for part in parts], group, [rows(part.reached_group) for part in parts]),
        whole([part.reached_seq for part in parts]),
    )
    return reached, (reached.rank >= 0) & (reached.rank < most) & (reached.seq >= 0) & (reached.group >= 0)


def reached_in(told: CollectiveSums, coverage: CoverageTracker) -> Iterator[tuple[int, str, int]]:
    """How far ranks have got by one message: rank, group and number. What cannot be is left out, and counted with the
    batch that the message comes into."""
    groups = Groups()
    groups.learn(told.groups, whole([told.group_sizes]).tolist())
    reached, there = _reached([told], groups, _most_ranks(coverage))
    names = list(groups.numbers)
    for rank, group, seq in zip(*(column[there].tolist() for column in reached), strict=True):
        yield rank, names[group], seq


def called_in(told: CollectiveCalls, coverage: CoverageTracker) -> Iterator[tuple[int, str, int]]:
    """How far ranks have got by the collectives of one message, in the same way."""
    groups = Groups()
    calls = _calls_of(told, groups, Words())
    reached = split(calls, calls_sound(calls, _most_ranks(coverage)))[0].reached()
    names = list(groups.numbers)
    for rank, group, seq in zip(*(column.tolist() for column in reached), strict=True):
        yield rank, names[group], seq


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


def _most_ranks(coverage: CoverageTracker) -> int:
    """Ranks from this number on are none of the job, as far as is known: tables are as long as the highest rank."""
    return min(coverage.plausible_ranks, RANK_LIMIT) if coverage.roster.worlds else RANK_LIMIT
