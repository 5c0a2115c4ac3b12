"""Is the job bound by its communication: how much of the time goes into transfers, and how fast they are.

Rule of this file: pure arithmetic over whole collectives. Waiting for a slow rank is no communication: of each
collective only the shortest wait of its members counts, for who comes last waits for nobody. Sends and receives of a
pipeline are left out: time in them is mostly the pipeline's bubble.

Bus bandwidth is that of NCCL's own tests (nccl-tests, PERFORMANCE.md): bytes over the shortest time of any member,
times what the operation moves over the busiest link. Of each size the fastest tenth counts: the others met traffic.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from paceline.events import Cause

from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured
from ..robust import Array
from .collective_batch import CollectiveBatch, Ints, Spans, starts
from .job_episodes import JobEpisodes, JudgedWindow, Sight

#: What an operation of n ranks moves over the busiest link: so many times (n - 1) / n, or 0 for once, whatever n.
FACTORS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1, "broadcast": 0, "reduce": 0}
_POINT_TO_POINT = ("send", "recv", "isend", "irecv")
#: Transfers smaller than this measure latency, not bandwidth.
_LEAST_BYTES = 4096
#: Collectives that members are still missing from; beyond it the oldest are given up.
_MOST_OPEN = 16_384

#: The share of transfers of a size that the one which counts is faster than.
_FAST = 0.9

#: Bus speeds told in a finding.
_SPEEDS_TOLD = 4
#: Links that carry less than this share of what they are rated at are slow; above it there is simply much to move.
_FAR_UNDER = 0.5

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


class BusSpeed(msgspec.Struct, frozen=True):
    """The bus bandwidth of one operation on messages of 2**power bytes and more, up to twice that."""

    operation: str
    power: int
    bytes_per_s: float


class TrafficEvidence(Measured, frozen=True, kw_only=True):
    """Shares of the time in collectives, of the rank that waits least and of the median rank; and bus speeds."""

    least_share: float
    share: float
    speeds: tuple[BusSpeed, ...]
    rated_bytes_per_s: float | None


TrafficEpisode = Episode[str, TrafficEvidence]


class _OpenCollective(NamedTuple):
    """A collective that members are still missing from."""

    heard: int
    wait_s: float
    took_s: float


class _Calls(NamedTuple):
    """Collectives: how many members of each were heard, their shortest wait and their shortest time."""

    group: Ints
    seq: Ints
    operation: Ints
    bytes: Ints
    heard: Ints
    wait_s: Array
    took_s: Array


class Traffic:
    """Waiting and transfers of one job, span by span."""

    def __init__(self, config: TrafficConfig) -> None:
        self.config = config
        self.episodes = JobEpisodes(TrafficEpisode)
        self.open: dict[tuple[str, int], _OpenCollective] = {}
        #: By rank: what the interface it uses is rated at, bytes a second.
        self.rated: dict[int, float] = {}
        self._clear()

    def _clear(self) -> None:
        self.first_s: dict[int, float] = {}
        self.last_s: dict[int, float] = {}
        self.groups: dict[int, set[str]] = {}
        self.waited: dict[str, float] = {}
        self.steps = [-1, -1]
        self.speeds: dict[tuple[str, int], list[float]] = {}

    def update(self, batch: CollectiveBatch, spans: Spans) -> TrafficEpisode | None:
        """Take in a batch; the episode where it has something new to tell."""
        calls = batch.calls
        for rank, first_s, last_s in zip(spans.ranks, spans.first_s, spans.last_s, strict=True):
            self.first_s.setdefault(rank, first_s)
            self.last_s[rank] = max(self.last_s.get(rank, 0.0), last_s)
        if len(batch.groups) == 1:
            for rank in spans.ranks:
                self.groups.setdefault(rank, set()).add(batch.groups[0])
        else:
            for rank, at in {*zip(calls.rank.tolist(), calls.group.tolist(), strict=True)}:
                self.groups.setdefault(rank, set()).add(batch.groups[at])
        steps = calls.step[calls.step >= 0]
        if steps.size:
            first = int(steps.min()) if self.steps[0] < 0 else self.steps[0]
            self.steps = [first, max(self.steps[1], int(steps.max()))]
        self.rated.update({link.rank: link.rated_bytes_per_s for link in batch.links if link.rated_bytes_per_s})
        self._merge(batch)
        return self._judge(spans.ranks)

    def _merge(self, batch: CollectiveBatch) -> None:
        """Add rows to their collectives; those that are whole now are counted."""
        calls = batch.calls
        order = np.lexsort((calls.seq, calls.group))
        first = starts(calls.group[order], calls.seq[order])
        lead = order[first]
        told = _Calls(
            calls.group[lead],
            calls.seq[lead],
            calls.operation[lead],
            calls.bytes[lead],
            np.append(first[1:], order.size) - first,
            np.minimum.reduceat(calls.wait_s[order], first),
            np.minimum.reduceat(calls.duration_s[order], first),
        )
        whole = told.heard >= np.array(batch.group_sizes)[told.group]
        if not self.open and whole.all():  # all members are on one node: the common case
            self._count(batch, told)
            return
        whole_now = self._join(batch, told)
        if whole_now.seq.size:
            self._count(batch, whole_now)
        while len(self.open) > _MOST_OPEN:
            del self.open[next(iter(self.open))]

    def _join(self, batch: CollectiveBatch, told: _Calls) -> _Calls:
        """Add what other nodes have told of the same collectives; those that are whole with it."""
        sizes, names, open_ = batch.group_sizes, batch.groups, self.open
        done: list[int] = []
        waits, times = told.wait_s.tolist(), told.took_s.tolist()
        for at, (group, seq, members) in enumerate(
            zip(told.group.tolist(), told.seq.tolist(), told.heard.tolist(), strict=True)
        ):
            key = (names[group], seq)
            before = open_.pop(key, None)
            if before is not None:
                members += before.heard
                waits[at], times[at] = min(waits[at], before.wait_s), min(times[at], before.took_s)
            if members < sizes[group]:
                open_[key] = _OpenCollective(members, waits[at], times[at])
            else:
                done.append(at)
        joined = told._replace(wait_s=np.array(waits), took_s=np.array(times))
        return _Calls(*(column[done] for column in joined))  # type: ignore[arg-type]

    def _count(self, batch: CollectiveBatch, whole: _Calls) -> None:
        """Add up whole collectives."""
        between_two = np.array([word in _POINT_TO_POINT for word in batch.operations])[whole.operation]
        waited = np.bincount(whole.group, np.where(between_two, 0.0, whole.wait_s), len(batch.groups))
        for at in np.flatnonzero(np.bincount(whole.group)).tolist():
            self.waited[batch.groups[at]] = self.waited.get(batch.groups[at], 0.0) + float(waited[at])
        size = np.array(batch.group_sizes, dtype=np.float64)[whole.group]
        fit = (whole.bytes >= _LEAST_BYTES) & (whole.took_s > 0) & (size > 1)
        power = np.frexp(whole.bytes.astype(np.float64))[1] - 1
        for at, word in enumerate(batch.operations):
            factor = next((FACTORS[name] for name in FACTORS if word.startswith(name)), None)
            mine = fit & (whole.operation == at)
            if factor is None or not mine.any():
                continue
            turns = factor * (size[mine] - 1) / size[mine] if factor else 1.0
            speed = whole.bytes[mine] / whole.took_s[mine] * turns
            for one in np.unique(power[mine]).tolist():
                fast = float(np.quantile(speed[power[mine] == one], _FAST))
                self.speeds.setdefault((word, one), []).append(fast)

    def _judge(self, ranks: list[int]) -> TrafficEpisode | None:
        if max(self.last_s[rank] - self.first_s[rank] for rank in ranks) < self.config.span_s:
            return None
        spans = {rank: self.last_s[rank] - first for rank, first in self.first_s.items()}
        longest = max(spans.values())
        waits = {rank: sum(self.waited.get(group, 0.0) for group in groups) for rank, groups in self.groups.items()}
        shares = [min(waits[rank] / span, 1.0) for rank, span in spans.items() if span >= longest / 2]
        window = JudgedWindow(max(self.steps[0], 0), max(self.steps[1], 0), longest)
        least = min(shares)
        rated = self.config.rated_bytes_per_s or min(self.rated.values(), default=0.0)
        fastest = sorted(self.speeds.items(), key=lambda item: -item[0][1])[:_SPEEDS_TOLD]
        evidence = TrafficEvidence(
            least_share=least,
            share=float(np.median(shares)),
            speeds=tuple(BusSpeed(word, power, float(np.quantile(seen, _FAST))) for (word, power), seen in fastest),
            rated_bytes_per_s=rated or None,
        )
        reached = max((speed.bytes_per_s for speed in evidence.speeds), default=rated)
        cause: Cause = "link" if reached < _FAR_UNDER * rated else "unknown"
        self._clear()
        sight = Sight(least, self.config.least_share, least / max(1 - least, 0.01), cause)
        return self.episodes.push(_JOB, window, sight, evidence)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "episodes": self.episodes.snapshot(),
            "rated": [[*pair] for pair in self.rated.items()],
            "open": [[group, seq, *told] for (group, seq), told in self.open.items()],
            "first_s": [[*pair] for pair in self.first_s.items()],
            "last_s": [[*pair] for pair in self.last_s.items()],
            "waited": [[*pair] for pair in self.waited.items()],
            "groups": [[rank, sorted(groups)] for rank, groups in self.groups.items()],
            "steps": self.steps,
            "speeds": [[word, power, seen] for (word, power), seen in self.speeds.items()],
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.episodes.load(data["episodes"])
        self.rated = dict(data["rated"])
        self.open = {(group, seq): _OpenCollective(*told) for group, seq, *told in data["open"]}
        self.first_s, self.last_s = dict(data["first_s"]), dict(data["last_s"])
        self.waited = dict(data["waited"])
        self.groups = {rank: set(groups) for rank, groups in data["groups"]}
        self.steps = list(data["steps"])
        self.speeds = {(word, power): list(seen) for word, power, seen in data["speeds"]}


def said(episode: TrafficEpisode, config: TrafficConfig) -> Said:
    """What is said of a job all of whose ranks stand in transfers."""
    seen = episode.measured
    rule = f"the rank that waits least decides: it waits for nobody; reported from {config.least_share:.0%}"
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
        f"Every rank stands in transfers for {seen.least_share:.0%} or more of the time, since step "
        f"{episode.first_step}: the job is bound by its communication"
        + (f" ({'; '.join(fast[:2])})" if fast else "")
        + (_LINKS_SLOW if episode.cause == "link" else _MUCH_TO_MOVE)
    )
    return Said(Subject("communication_bound", "traffic"), evidence, summary)


def _bytes(size: int) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size}{unit}"
        size //= 1024
    return f"{size}B"
