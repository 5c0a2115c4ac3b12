"""The collectives of one message as columns: the sums of complete steps, and how far the ranks have come.

Rule of this file: pure; times leave as offsets from the message's ``t0_s``.
"""

from collections.abc import Sequence

from paceline import columns
from paceline.events import CollectiveSums
from paceline.sidecar.collective_sums import Sum
from paceline.sidecar.columns import MOST_ROWS, MOST_WORDS, Groups, Vocabulary, bounded
from paceline.sidecar.progress import Progress


def collective_columns(sums: Sequence[Sum], progress: Progress, t0_s: float) -> CollectiveSums | None:
    """What a message says of collectives; None where there is nothing to say."""
    if not sums and not progress.spans:
        return None
    groups, operations = Groups(), Vocabulary()
    group = [groups.place(one.group, one.group_size) for one in sums]
    operation = [operations.index(one.operation) for one in sums]
    reached = [
        (rank, groups.place(name, progress.sizes[name]), seq)
        for rank, places in progress.reached.items()
        for name, seq in places.items()
        if len(groups.words) + len(operations.words) < MOST_WORDS
    ][:MOST_ROWS]
    spans = list(progress.spans.values())
    return CollectiveSums(
        groups=groups.words,
        group_sizes=columns.whole(groups.sizes),
        operations=operations.words,
        step=columns.whole([one.step for one in sums]),
        group=columns.whole(group),
        operation=columns.whole(operation),
        count=columns.whole([one.calls for one in sums]),
        members=columns.whole([one.members for one in sums]),
        bytes=columns.whole([one.bytes for one in sums]),
        wait_s=columns.durations([bounded(one.wait_s) for one in sums]),
        duration_s=columns.durations([bounded(one.duration_s) for one in sums]),
        reached_rank=columns.whole([rank for rank, _, _ in reached]),
        reached_group=columns.whole([place for _, place, _ in reached]),
        reached_seq=columns.whole([seq for _, _, seq in reached]),
        span_rank=columns.whole(list(progress.spans)),
        span_first_s=columns.offsets([span.first_s - t0_s for span in spans]),
        span_last_s=columns.offsets([bounded(span.last_s - t0_s) for span in spans]),
        span_waited_s=columns.durations([bounded(span.waited_s) for span in spans]),
        longest_wait_s=round(progress.longest_wait_s, 6),
    )
