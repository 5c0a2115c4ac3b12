"""What a balancer's measurements say of single ranks: out of memory, or slow while balanced.

Rule of this file: pure and bounded, and told by this topic alone: in which order it comes beside the steps of the same
job nobody promises. A rank that takes less work keeps up with its peers, so no comparison of steps can name it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.events import BalanceObserved, Coverage, Finding
from paceline.sequences import Sequences

from ..episodes.finding import JobKey, Said, Subject, finding, number
from ..episodes.tracker import Episode, Measured, Tracker
from ..jobs.job_episodes import JobEpisodes, JudgedWindow, Sight
from ..snapshots import described, pack, unpack
from .job_balance import MOST_PRODUCERS

#: Layout of the snapshot; another version is not read.
_LAYOUT = 1
#: By which part of its peers' share a rank's share is less where it is called slow; half of it is no longer.
LESS = 0.15
#: After so many seconds without another failed step a rank has memory enough.
CALM_S = 60.0
#: A rank that ran out of memory said so itself.
_SURE = 0.99


class MemoryEvidence(Measured, frozen=True, kw_only=True):
    """How many steps a rank had no memory for so far, and how many samples it takes at most from now on."""

    times: int
    most: int | None


class ShareEvidence(Measured, frozen=True, kw_only=True):
    """Samples of a batch, of a rank and of the median of the others."""

    share: int
    peers: float


MemoryEpisode = Episode[int, MemoryEvidence]
ShareEpisode = Episode[int, ShareEvidence]


class RankFindings:
    """Judges the ranks of one attempt of one job; every event given to it must be of that one."""

    def __init__(self) -> None:
        self.sequences = Sequences(MOST_PRODUCERS)
        self.memory = Tracker(MemoryEpisode)
        self.shares = JobEpisodes(ShareEpisode)
        #: Of ranks that ran out of memory: how often, and when that was last heard (Unix time).
        self.ran_out: dict[int, int] = {}
        self.ran_out_s: dict[int, float] = {}
        self.batch = -1
        self.began_s = self.at_s = 0.0

    def update(self, event: BalanceObserved) -> list[Finding]:
        """Take in one observation; the findings that it brings to light or changes."""
        if not self.sequences.admit(event.producer, event.sequence):
            return []
        if event.t0_s < self.at_s and event.batch < self.batch:
            return []  # A spool held it back: newer ones have come.
        if self.batch < 0:
            self.began_s = self.at_s = event.t0_s
        window = JudgedWindow(self.batch + 1, event.batch, max(event.t0_s - self.at_s, 0.0))
        self.batch, self.at_s = event.batch, event.t0_s
        job = JobKey(event.cluster, event.job, event.attempt)
        ranks = len(event.shares)
        coverage = Coverage(ranks_expected=ranks, ranks_heard=ranks, events_missing=self.sequences.missing)
        memory = [finding(one, _memory_said(one), job, coverage) for one in self._memory(event)]
        return memory + [finding(one, _share_said(one), job, coverage) for one in self._slow(event, window)]

    def _memory(self, event: BalanceObserved) -> list[MemoryEpisode]:
        """The ranks that ran out of memory since the last observation, and those that have not for a while."""
        counts = {rank: times for rank, times in enumerate(event.ran_out[: len(event.shares)]) if times}
        known, self.ran_out = self.ran_out, counts
        step_s = max((seconds for seconds in event.ready_s if seconds is not None), default=0.0)
        spent_s = max(event.t0_s - self.began_s, step_s)
        told = []
        for rank, times in counts.items():
            before = known.get(rank, 0)
            if times == before:
                continue
            # Fewer than were known of are those of another run under the same name.
            more = times - before if times > before else times
            episode = self.memory.get(rank) or self.memory.begin(rank, event.batch, "memory_pressure")
            episode.last = float(event.batch)
            episode.lost_s = min(episode.lost_s + more * step_s, spent_s)  # Whatever somebody counts.
            episode.span_s = spent_s
            most = event.most[rank] if rank < len(event.most) else None
            episode.evidence = MemoryEvidence(times=times, most=most)
            self.ran_out_s[rank] = event.t0_s
            told.append(self.memory.revise(rank, "persistent", event.t0_s, news=True))
        over = [rank for rank, at_s in self.ran_out_s.items() if event.t0_s - at_s > CALM_S]
        for rank in over:
            del self.ran_out_s[rank]
            told.append(self.memory.revise(rank, "calm", event.t0_s))
        return [episode for episode in told if episode is not None]

    def _slow(self, event: BalanceObserved, window: JudgedWindow) -> list[ShareEpisode]:
        """The ranks that were measured to be so slow that they take much less than their peers."""
        # Shares that somebody wrote down, and those from before the first plan, are no measurement.
        if event.mode != "adaptive" or event.version == 0 or len(event.shares) < 2:
            return []
        shares = np.array(event.shares, dtype=np.float64)
        peers = median_of_others(shares)
        less = 1.0 - shares / peers
        for rank, most in enumerate(event.most[: len(shares)]):
            if most is not None and shares[rank] >= most:
                less[rank] = 0.0  # It is short of memory; whether it is slow, too, cannot be told.
        lasting = [rank for rank in self.shares.open() if rank < len(shares)]
        judged = sorted({*np.flatnonzero(less >= LESS).tolist(), *lasting})
        told = []
        for rank in judged:
            sight = Sight(float(less[rank]), LESS, 0.0, "worker_compute")
            evidence = ShareEvidence(share=event.shares[rank], peers=float(peers[rank]))
            told.append(self.shares.push(rank, window, sight, evidence))
        return [episode for episode in told if episode is not None]

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        return pack(
            _LAYOUT,
            {
                "sequences": self.sequences.snapshot(),
                "memory": self.memory.snapshot(),
                "shares": self.shares.snapshot(),
                "ran_out": list(self.ran_out.items()),
                "ran_out_s": list(self.ran_out_s.items()),
                "at": [self.batch, self.began_s, self.at_s],
            },
        )

    @classmethod
    def restore(cls, data: bytes) -> "RankFindings":
        """The decision that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        state, made = unpack(_LAYOUT, data), cls()
        with described():
            made._load(state)
        return made

    def _load(self, state: dict[str, Any]) -> None:
        self.sequences = Sequences.restore(state["sequences"])
        self.memory.load(state["memory"])
        self.shares.load(state["shares"])
        self.ran_out, self.ran_out_s = dict(state["ran_out"]), dict(state["ran_out_s"])
        self.batch, self.began_s, self.at_s = state["at"]


def median_of_others(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each of at least two ``values`` the median of all others.

    >>> median_of_others(np.array([30.0, 80.0, 70.0, 76.0])).tolist()
    [76.0, 70.0, 76.0, 70.0]
    """
    order = np.argsort(values, kind="stable")
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values))
    ordered, others = values[order], len(values) - 1
    low, high = (others - 1) // 2, others // 2
    median: NDArray[np.float64] = (ordered[low + (place <= low)] + ordered[high + (place <= high)]) / 2.0
    return median


def _memory_said(episode: MemoryEpisode) -> Said:
    seen, rank = episode.measured, episode.subject
    times = f"{seen.times} time{'s'[: seen.times - 1]}"
    takes = f"it takes {seen.most} samples at most from now on" if seen.most is not None else "it takes fewer samples"
    summary = (
        f"Rank {rank} ran out of memory, {times} so far: all ranks passed that batch "
        f"over, training goes on, and {takes}. Start the next run with that max_batch."
    )
    rule = "as the rank itself says; the samples of these steps are not trained on"
    told = [number("out_of_memory", seen.times, "steps", 0.0, rule)]
    if seen.most is not None:
        told.append(number("most", seen.most, "samples", None, "what it takes of a batch at most from now on"))
    over = f"Rank {rank} has had memory enough for {CALM_S:g} s; it ran out of it {times}."
    return Said(_subject("out_of_memory", rank), told, summary, over=over, severity="warning", confidence=_SURE)


def _share_said(episode: ShareEpisode) -> Said:
    seen, rank = episode.measured, episode.subject
    since = f"from batch {episode.first_step}"
    summary = (
        f"Rank {rank} is slower than its peers, and balanced: it takes {seen.share} samples of a batch where they take "
        f"{seen.peers:g}, {since} on. Its steps end with theirs, so comparing them does not name it; its node and "
        "device are the place to look."
    )
    rule = f"samples of a batch, by what the balancer measured; told from {LESS:.0%} less than the median of the others"
    over = f"Rank {rank} takes as many samples as its peers again; it was slow {since} to {episode.last_step}."
    told = [number("share", seen.share, "samples", seen.peers, rule)]
    return Said(_subject("balanced_straggler", rank), told, summary, over=over, severity="info")


def _subject(kind: Any, rank: int) -> Subject:
    return Subject(kind, f"rank {rank}", ranks=(rank,), has_steps=False)
