"""Is the job bound by its communication: how much of the time goes into transfers, and how fast they are.

Rule of this file: pure arithmetic over whole collectives. Waiting for a slow rank is no communication: of each
collective only the shortest wait of its members counts, for who comes last waits for nobody. Sends and receives of a
pipeline are left out: time in them is mostly the pipeline's bubble.

Bus bandwidth is that of NCCL's own tests (nccl-tests, PERFORMANCE.md): bytes over the shortest time of any member,
times what the operation moves over the busiest link. Of each size the fastest tenth counts: the others met traffic.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import Cause

from ..episodes.finding import Said, Subject, nth, number
from ..episodes.lifecycle import FINAL
from ..episodes.tracker import Episode, Measured
from ..ingest.collective_batch import CollectiveBatch
from ..ingest.collective_rows import Spans, Sums
from ..raw_columns import Ints
from ..robust import Array
from ..runs import distinct, starts
from ..stored import Kept, Stored
from .bus_speeds import BusSpeed, BusSpeeds, powers
from .job_episodes import JobEpisodes, JudgedWindow, Sight

_POINT_TO_POINT = ("send", "recv", "isend", "irecv")
#: Collectives that members are still missing from; beyond it the oldest are given up.
_MOST_OPEN = 16_384

#: Bus speeds told in a finding.
_SPEEDS_TOLD = 4
#: Links that carry less than this share of what they are rated at are slow; above it there is simply much to move.
_FAR_UNDER = 0.5

#: A span is counted from the end of the one before. The first one has none, and the last step in it no computing
#: after it: too few steps make it look full of transfers.
_FIRST_STEPS = 10

#: A job has one traffic.
_JOB = "traffic"
_MUCH_TO_MOVE = ". Accumulate gradients over more micro-batches, overlap or compress them, or use faster links."
_LINKS_SLOW = (
    ". That is far under what the links can do: look at which transport and interface are used (NCCL_DEBUG=INFO)."
)


@dataclass(frozen=True)
class TrafficConfig:
    """A job is bound by its communication when the rank that waits least stands in transfers for ``least_share`` of the
    time, over spans of at least ``span_s``.

    ``rated_bytes_per_s`` is what the links between ranks should carry one way, for comparison with the measured bus
    bandwidth; 0 is what the nodes' network interfaces are rated at, where the kernel tells.
    """

    least_share: float = 0.4
    span_s: float = 10.0
    rated_bytes_per_s: float = 0.0


class TrafficEvidence(Measured, frozen=True, kw_only=True):
    """Shares of the time in collectives, of the rank that waits least and of the median rank; and bus speeds. The
    ``times``-th time of this job, which may have no steps that tell its episodes apart."""

    least_share: float
    share: float
    speeds: tuple[BusSpeed, ...]
    rated_bytes_per_s: float | None
    times: int


TrafficEpisode = Episode[str, TrafficEvidence]


class _Open(NamedTuple):
    """A collective, or the collectives of a step, that members are still missing from."""

    heard: int
    wait_s: float
    took_s: float


class _Whole(NamedTuple):
    """Collectives that all members have told: how many, their bytes in all, shortest wait and time of any member."""

    group: Ints
    operation: Ints
    calls: Ints
    bytes: Ints
    wait_s: Array
    took_s: Array


class Traffic(Stored):
    """Waiting and transfers of one job, span by span."""

    episodes: Kept[JobEpisodes[Any, Any]]
    over: Kept[int]
    open: Kept[dict[tuple[Any, ...], _Open]]
    open_by_nccl: Kept[dict[tuple[Any, ...], _Open]]
    rated: Kept[Array]
    first_s: Kept[Array]
    last_s: Kept[Array]
    began: Kept[bool]
    waited: Kept[dict[str, float]]
    members: Kept[dict[str, set[int]]]
    steps: Kept[list[int]]
    speeds: Kept[BusSpeeds]
    speeds_by_nccl: Kept[BusSpeeds]

    def __init__(self, config: TrafficConfig) -> None:
        self.config = config
        self.episodes = JobEpisodes(TrafficEpisode)
        #: Episodes that were reported and are over.
        self.over = 0
        #: By group and number, or by group, step, operation and power of two of the bytes.
        self.open = {}
        #: The same of those that NCCL has timed.
        self.open_by_nccl = {}
        #: By rank: what the interface it uses is rated at, bytes a second; NaN is not known.
        self.rated = np.empty(0)
        #: By rank: where the span before ended, else its first start; and its last end. NaN where it was not heard.
        self.first_s = np.empty(0)
        self.last_s = np.empty(0)
        self._begin_span()
        #: Whether a span was there before.
        self.began = False

    def _begin_span(self) -> None:
        """Begin where the one before ends: what was computed since belongs to it, of long steps nearly all there is."""
        self.began = True
        self.first_s, self.last_s = self.last_s, np.full_like(self.last_s, np.nan)
        self.members = {}
        self.waited = {}
        self.steps = [-1, -1]
        self.speeds = BusSpeeds()
        #: By NCCL's own times, which are the transfer alone; a host's begin when it issues one, maybe long before.
        self.speeds_by_nccl = BusSpeeds()

    def update(self, batch: CollectiveBatch) -> TrafficEpisode | None:
        """Take in a batch; the episode where it has something new to tell."""
        spans = batch.spans
        if spans.ranks.size:
            self._span(spans)
        self._meet(batch)
        calls, steps = batch.calls.step, batch.sums.step
        if calls.size:
            steps = np.concatenate([calls[calls >= 0], steps])
        if steps.size:
            first = int(steps.min()) if self.steps[0] < 0 else self.steps[0]
            self.steps = [first, max(self.steps[1], int(steps.max()))]
        links = batch.links
        told = links.rated_bytes_per_s > 0
        if np.count_nonzero(told):
            self.rated = _widened(self.rated, int(links.rank[told].max()) + 1)
            self.rated[links.rank[told]] = links.rated_bytes_per_s[told]
        if batch.calls.rank.size:
            self._count(batch, self._merge(batch, self.open))
        if batch.sums.step.size:
            self._count(batch, self._merge_sums(batch))
        _forget(self.open)
        return self._judge(spans.ranks) if spans.ranks.size else None

    def update_by_nccl(self, batch: CollectiveBatch) -> None:
        """Take in collectives that NCCL has timed: the same as others, but for their speed."""
        if batch.calls.rank.size:
            self._speed(batch, self._merge(batch, self.open_by_nccl), self.speeds_by_nccl)
            _forget(self.open_by_nccl)

    def _meet(self, batch: CollectiveBatch) -> None:
        """Take down who is in which group."""
        reached = batch.reached
        if not reached.group.size:
            return
        if np.count_nonzero(reached.group == reached.group[0]) == reached.group.size:
            self.members.setdefault(batch.groups[int(reached.group[0])], set()).update(reached.rank.tolist())
            return
        order = np.argsort(reached.group, kind="stable")
        first = starts(reached.group[order])
        ranks = reached.rank[order].tolist()
        for begin, end in zip(first.tolist(), [*first[1:].tolist(), order.size], strict=True):
            name = batch.groups[int(reached.group[order[begin]])]
            self.members.setdefault(name, set()).update(ranks[begin:end])

    def _span(self, spans: Spans) -> None:
        ranks = int(spans.ranks.max()) + 1
        self.first_s, self.last_s = _widened(self.first_s, ranks), _widened(self.last_s, ranks)
        first_s = self.first_s[spans.ranks]  # Unknown, or after what comes now: then the clock was set back.
        self.first_s[spans.ranks] = np.where(first_s <= spans.last_s, first_s, spans.first_s)
        self.last_s[spans.ranks] = np.fmax(self.last_s[spans.ranks], spans.last_s)

    def _merge(self, batch: CollectiveBatch, open_: dict[tuple[Any, ...], _Open]) -> _Whole:
        """Add rows to their collectives; those that are whole now."""
        calls = batch.calls
        order = np.lexsort((calls.seq, calls.group))
        first = starts(calls.group[order], calls.seq[order])
        lead = order[first]
        heard = np.append(first[1:], order.size) - first
        told = _Whole(
            calls.group[lead],
            calls.operation[lead],
            np.ones(lead.size, dtype=np.int64),
            calls.bytes[lead],
            np.minimum.reduceat(calls.wait_s[order], first),
            np.minimum.reduceat(calls.duration_s[order], first),
        )
        whole = heard >= np.array(batch.group_sizes)[told.group]
        if not open_ and whole.all():  # all members are on one node: the common case
            return told
        keys = zip((batch.groups[at] for at in told.group.tolist()), calls.seq[lead].tolist(), strict=True)
        return _joined(batch, told, heard, keys, open_)

    def _merge_sums(self, batch: CollectiveBatch) -> _Whole:
        """Add what nodes tell of the collectives of a step; those that all members have told."""
        sums = batch.sums
        between_two = _between_two(batch, sums.operation)
        if between_two is not None:  # each end tells its own: no two of them are one
            sums = Sums(*(column[~between_two] for column in sums))  # type: ignore[arg-type]
        told = _Whole(sums.group, sums.operation, sums.calls, sums.bytes, sums.wait_s, sums.duration_s)
        here = sums.members >= np.array(batch.group_sizes)[told.group]
        if not self.open and np.count_nonzero(here) == here.size:  # all members are on one node: the common case
            return told
        power = powers(told.bytes / told.calls)
        groups = [batch.groups[at] for at in told.group.tolist()]
        words = [batch.operations[at] for at in told.operation.tolist()]
        keys = zip(groups, sums.step.tolist(), words, power.tolist(), strict=True)
        return _joined(batch, told, sums.members, keys, self.open)

    def _count(self, batch: CollectiveBatch, whole: _Whole) -> None:
        """Add up whole collectives."""
        between_two = _between_two(batch, whole.operation)
        waits_s = whole.wait_s if between_two is None else np.where(between_two, 0.0, whole.wait_s)
        waited = np.bincount(whole.group, waits_s, len(batch.groups))
        for at in distinct(whole.group):
            waited_s = float(waited[at]) * batch.each
            self.waited[batch.groups[at]] = self.waited.get(batch.groups[at], 0.0) + waited_s
        self._speed(batch, whole, self.speeds)

    def _speed(self, batch: CollectiveBatch, whole: _Whole, speeds: BusSpeeds) -> None:
        ranks = np.array(batch.group_sizes)[whole.group]
        speeds.append(batch.operations, whole.operation, ranks, whole.calls, whole.bytes, whole.took_s)

    def _judge(self, ranks: Ints) -> TrafficEpisode | None:
        lasted = self.last_s - self.first_s
        if float(lasted[ranks].max()) < self.config.span_s:
            return None
        first, last = self.steps
        if not self.began and 0 <= last < first + _FIRST_STEPS:
            self._begin_span()
            return None
        heard = np.flatnonzero(~np.isnan(lasted))
        longest = float(lasted[heard].max())
        waits = np.zeros(lasted.size)
        for group, waited_s in self.waited.items():
            # Of members that told no span, nothing is compared.
            waits[[rank for rank in self.members.get(group, ()) if rank < waits.size]] += waited_s
        compared = heard[lasted[heard] >= longest / 2]
        shares = np.minimum(waits[compared] / lasted[compared], 1.0)
        window = JudgedWindow(max(self.steps[0], 0), max(self.steps[1], 0), longest)
        least = float(shares.min())
        rated = self.config.rated_bytes_per_s or float(np.nanmin(self.rated, initial=np.inf))
        rated = rated if np.isfinite(rated) else 0.0
        evidence = TrafficEvidence(
            least_share=least,
            share=float(np.median(shares)),
            speeds=self.speeds.better(self.speeds_by_nccl).fastest(_SPEEDS_TOLD),
            rated_bytes_per_s=rated or None,
            times=self.over + 1,
        )
        reached = max((speed.bytes_per_s for speed in evidence.speeds), default=rated)
        cause: Cause = "link" if reached < _FAR_UNDER * rated else "unknown"
        self._begin_span()
        sight = Sight(least, self.config.least_share, least / max(1 - least, 0.01), cause)
        episode = self.episodes.push(_JOB, window, sight, evidence)
        self.over += episode is not None and episode.state in FINAL
        return episode


def _between_two(batch: CollectiveBatch, operation: Ints) -> NDArray[np.bool_] | None:
    """Which rows, of this ``operation`` each, are sends and receives; None where there is no such word."""
    words = [word in _POINT_TO_POINT for word in batch.operations]
    return np.array(words)[operation] if any(words) else None


def _joined(
    batch: CollectiveBatch,
    told: _Whole,
    heard: Ints,
    keys: Iterable[tuple[Any, ...]],
    open_: dict[tuple[Any, ...], _Open],
) -> _Whole:
    """Add to ``told`` what other nodes have told of the same collectives; those that are whole with it."""
    sizes = batch.group_sizes
    done: list[int] = []
    waits, times = told.wait_s.tolist(), told.took_s.tolist()
    for at, (key, group, members) in enumerate(zip(keys, told.group.tolist(), heard.tolist(), strict=True)):
        before = open_.pop(key, None)
        if before is not None:
            members += before.heard
            waits[at], times[at] = min(waits[at], before.wait_s), min(times[at], before.took_s)
        if members < sizes[group]:
            open_[key] = _Open(members, waits[at], times[at])
        else:
            done.append(at)
    joined = told._replace(wait_s=np.array(waits), took_s=np.array(times))
    return _Whole(*(column[done] for column in joined))  # type: ignore[arg-type]


def _forget(open_: dict[tuple[Any, ...], _Open]) -> None:
    """Give up the oldest of too many."""
    while len(open_) > _MOST_OPEN:
        del open_[next(iter(open_))]


def _widened(values: Array, ranks: int) -> Array:
    """A copy of ``values`` with room for so many ``ranks``."""
    more = ranks - values.size
    return np.pad(values, (0, more), constant_values=np.nan) if more > 0 else values.copy()


def said(episode: TrafficEpisode, config: TrafficConfig) -> Said:
    """What is said of a job all of whose ranks stand in transfers."""
    seen = episode.measured
    rule = f"by the rank that waits least, which waits for no other rank; reported from {config.least_share:.0%}"
    evidence = [
        number("least_wait_share", seen.least_share, "ratio", None, rule),
        number("wait_share", seen.share, "ratio", None, "median rank's share of the time in collectives"),
    ]
    rated = seen.rated_bytes_per_s
    fast = []
    for speed in seen.speeds:
        size = _bytes(2**speed.power)
        how = "fastest tenth; nccl-tests' busbw; beside it what the slowest link is rated at"
        evidence.append(number(f"bus_bandwidth_{speed.operation}_{size}", speed.bytes_per_s, "bytes/s", rated, how))
        beside = f" of {rated / 1e9:.2f} rated" if rated else ""
        fast.append(f"{speed.operation} of {size}: {speed.bytes_per_s / 1e9:.2f} GB/s{beside}")
    summary = (
        f"Every rank spends {seen.least_share:.0%} or more of the time in transfers, since about step "
        f"{episode.first_step}: the job is bound by its communication"
        + (f" ({'; '.join(fast[:2])})" if fast else "")
        + (_LINKS_SLOW if episode.cause == "link" else _MUCH_TO_MOVE)
    )
    return Said(Subject("communication_bound", nth("traffic", seen.times)), evidence, summary)


def _bytes(size: int) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size}{unit}"
        size //= 1024
    return f"{size}B"
