"""What a balancer's measurements say of ranks: out of memory, or slow while balanced.

Rule of this file: pure and bounded, and told by this topic alone: in which order it comes beside the steps of the same
job nobody promises. A rank that takes less work keeps up with its peers, so no comparison of steps can name it.

Up to ``MOST_SINGLE`` ranks have a finding each. Where more have the same trouble, all of them have one finding
together, which names them; the single ones end then, and while it lasts it speaks for every rank that joins them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.events import BalanceObserved, Coverage, Finding
from paceline.ranges import ranges
from paceline.sequences import Sequences

from ..episodes.crowd import MOST_SINGLE
from ..episodes.finding import JobKey, Said, Subject, finding, number
from ..episodes.tracker import Episode, Measured, Tracker
from ..jobs.job_episodes import JobEpisodes, JudgedWindow, Sight
from ..stored import Kept, StoredDecision
from .job_balance import MOST_PRODUCERS

#: What is found here. It is counted by a balancer's own runs, whatever the launch by its job's steps.
BALANCE_KINDS = frozenset({"balanced_straggler", "out_of_memory"})
#: By which part of its peers' share a rank's share is less where it is called slow; half of it is no longer.
LESS = 0.15
#: After so many seconds without another failed step a rank has memory enough.
CALM_S = 60.0
#: The subject of the episode of all ranks with the same trouble, where they are more; no rank has this number.
TOGETHER = -1
#: A rank that ran out of memory said so itself.
_SURE = 0.99


class MemoryEvidence(Measured, frozen=True, kw_only=True):
    """How many steps a rank had no memory for so far, and how many samples it takes at most from now on.

    Of many ``ranks``: of the one that had it most often, and the fewest samples of all.
    """

    times: int
    most: int | None
    ranks: tuple[int, ...] = ()


class ShareEvidence(Measured, frozen=True, kw_only=True):
    """Samples of a batch, of a rank and of the median of the others; of many ``ranks``: of that with the fewest."""

    share: int
    peers: float
    ranks: tuple[int, ...] = ()


MemoryEpisode = Episode[int, MemoryEvidence]
ShareEpisode = Episode[int, ShareEvidence]


class RankFindings(StoredDecision):
    """Judges the ranks of one attempt of one job; every event given to it must be of that one."""

    layout = 2
    sequences: Kept[Sequences]
    memory: Kept[Tracker[Any, Any]]
    shares: Kept[JobEpisodes[Any, Any]]
    ran_out: Kept[dict[int, int]]
    ran_out_s: Kept[dict[int, float]]
    batch: Kept[int]
    began_s: Kept[float]
    at_s: Kept[float]

    def __init__(self) -> None:
        self.sequences = Sequences(MOST_PRODUCERS)
        self.memory = Tracker(MemoryEpisode)
        self.shares = JobEpisodes(ShareEpisode)
        #: Of ranks that ran out of memory: how often, and when that was last heard (Unix time).
        self.ran_out = {}
        self.ran_out_s = {}
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
        memory, slow = self._memory(event), self._slow(event, window)
        joined = self.memory.get(TOGETHER), self.shares.get(TOGETHER)
        said = [finding(one, _memory_said(one, joined[0]), job, coverage) for one in memory]
        return said + [finding(one, _share_said(one, joined[1]), job, coverage) for one in slow]

    def _memory(self, event: BalanceObserved) -> list[MemoryEpisode]:
        """The ranks that ran out of memory since the last observation, and those that have not for a while."""
        counts = {rank: times for rank, times in enumerate(event.ran_out[: len(event.shares)]) if times}
        known, self.ran_out = self.ran_out, counts
        # Fewer than were known of are those of another run under the same name.
        more = {
            rank: times - before if times > (before := known.get(rank, 0)) else times
            for rank, times in counts.items()
            if times != known.get(rank, 0)
        }
        self.ran_out_s |= dict.fromkeys(more, event.t0_s)
        over = [rank for rank, at_s in self.ran_out_s.items() if event.t0_s - at_s > CALM_S]
        for rank in over:
            del self.ran_out_s[rank]
        if self.memory.get(TOGETHER) is not None or len(self.ran_out_s) > MOST_SINGLE:
            return self._many_out_of_memory(event, more)
        told = [self._out_of_memory(event, rank, [rank], times) for rank, times in more.items()]
        told += [self.memory.revise(rank, "calm", event.t0_s) for rank in over if self.memory.get(rank) is not None]
        return [episode for episode in told if episode is not None]

    def _many_out_of_memory(self, event: BalanceObserved, more: dict[int, int]) -> list[MemoryEpisode]:
        """All of them together; it is over when none has run out for a while."""
        single = [rank for rank in self.memory.open() if rank != TOGETHER]
        told = [self.memory.revise(rank, "calm", event.t0_s) for rank in single]
        if more:
            told.append(self._out_of_memory(event, TOGETHER, sorted(self.ran_out_s), max(more.values())))
        elif not self.ran_out_s:
            told.append(self.memory.revise(TOGETHER, "calm", event.t0_s))
        return [episode for episode in told if episode is not None]

    def _out_of_memory(self, event: BalanceObserved, subject: int, ranks: list[int], more: int) -> MemoryEpisode | None:
        """``ranks`` ran out of memory, ``more`` times since the last observation; each time a step was lost."""
        step_s = max((seconds for seconds in event.ready_s if seconds is not None), default=0.0)
        spent_s = max(event.t0_s - self.began_s, step_s)
        episode = self.memory.get(subject) or self.memory.begin(subject, event.batch, "memory_pressure")
        episode.last = float(event.batch)
        episode.lost_s = min(episode.lost_s + more * step_s, spent_s)  # Whatever somebody counts.
        episode.span_s = spent_s
        caps = [most for rank in ranks if rank < len(event.most) and (most := event.most[rank]) is not None]
        named = tuple(ranks) if subject == TOGETHER else ()
        times = max(self.ran_out.get(rank, 0) for rank in ranks)
        episode.evidence = MemoryEvidence(times=times, most=min(caps, default=None), ranks=named)
        return self.memory.revise(subject, "persistent", event.t0_s, news=True)

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
        less[peers - shares <= event.tile] = 0.0  # Shares are whole tiles: one less is rounding.
        known = {rank: ready_s for rank, ready_s in enumerate(event.ready_s[: len(shares)]) if ready_s is not None}
        if len(known) > 1:
            ranks, ready = np.array(list(known)), np.array(list(known.values()))
            # Who is ready clearly before its peers could take more: its share is a start that nobody measured, or old.
            less[ranks[ready < (1.0 - LESS / 2) * median_of_others(ready)]] = 0.0
        slow = np.flatnonzero(less >= LESS).tolist()
        if self.shares.get(TOGETHER) is not None or len(slow) > MOST_SINGLE:
            return self._many_slow(event, window, less, peers)
        lasting = [rank for rank in self.shares.open() if rank < len(shares)]
        told = [self._share(event, window, rank, less, peers) for rank in sorted({*slow, *lasting})]
        return [episode for episode in told if episode is not None]

    def _many_slow(
        self, event: BalanceObserved, window: JudgedWindow, less: NDArray[np.float64], peers: NDArray[np.float64]
    ) -> list[ShareEpisode]:
        """All of them together: those that are slow, or were and are no longer so but by half."""
        single = [rank for rank in self.shares.open() if rank != TOGETHER]
        told = [self.shares.end(rank) for rank in single]
        together = self.shares.get(TOGETHER)
        before = together.measured.ranks if together is not None and together.evidence is not None else ()
        still = [rank for rank in before if rank < len(less) and less[rank] >= LESS / 2]
        ranks = sorted({*np.flatnonzero(less >= LESS).tolist(), *still})
        told.append(self._share(event, window, TOGETHER, less, peers, tuple(ranks) or before))
        return [episode for episode in told if episode is not None]

    def _share(
        self,
        event: BalanceObserved,
        window: JudgedWindow,
        subject: int,
        less: NDArray[np.float64],
        peers: NDArray[np.float64],
        ranks: tuple[int, ...] = (),
    ) -> ShareEpisode | None:
        """What this observation says of ``subject``: a rank, or all of ``ranks``."""
        rank = int(less.argmax()) if subject == TOGETHER else subject
        sight = Sight(float(less[rank]), LESS, 0.0, "worker_compute")
        evidence = ShareEvidence(share=event.shares[rank], peers=float(peers[rank]), ranks=ranks)
        return self.shares.push(subject, window, sight, evidence)


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


def _memory_said(episode: MemoryEpisode, together: MemoryEpisode | None) -> Said:
    """``together``: that of all ranks with this trouble, while there is one."""
    seen, who = episode.measured, _who(episode)
    times = f"{seen.times} time{'s'[: seen.times - 1]}"
    if episode.subject == TOGETHER:
        least = f" (the least: {seen.most})" if seen.most is not None else ""
        takes = f"they take fewer samples from now on{least}"
        what = f"{who} ran out of memory, up to {times} each so far"
        over = f"{who} had memory enough for {CALM_S:g} s; they ran out of it up to {times} each."
    else:
        takes = (
            f"it takes {seen.most} samples at most from now on" if seen.most is not None else "it takes fewer samples"
        )
        what = f"{who} ran out of memory, {times} so far"
        over = f"{who} has had memory enough for {CALM_S:g} s; it ran out of it {times}."
    summary = (
        f"{what}: all ranks passed that batch over, training goes on, and {takes}. "
        "Start the next run with that max_batch."
    )
    rule = "as the rank itself says; the samples of these steps are not trained on"
    told = [number("out_of_memory", seen.times, "steps", 0.0, rule)]
    if seen.most is not None:
        told.append(number("most", seen.most, "samples", None, "what it takes of a batch at most from now on"))
    by = _joined(episode, together)
    over = _JOINED.format(who) if by is not None else over
    subject = _subject("out_of_memory", episode)
    return Said(subject, told, summary, over=over, severity="warning", confidence=_SURE, replaced_by=by)


def _share_said(episode: ShareEpisode, together: ShareEpisode | None) -> Said:
    """``together``: that of all ranks with this trouble, while there is one."""
    seen, who = episode.measured, _who(episode)
    since = f"from batch {episode.first_step}"
    if episode.subject == TOGETHER:
        summary = (
            f"{who} are slow and get fewer samples (the slowest {seen.share} instead of {seen.peers:g}), {since} on, "
            "so their steps no longer take longer. Check their nodes and devices."
        )
        over = f"{who} take as many samples as their peers again; they were slow {since} to {episode.last_step}."
    else:
        summary = (
            f"{who} is slow and gets fewer samples ({seen.share} instead of {seen.peers:g}), {since} on, so its steps "
            "no longer take longer. Check its node and device."
        )
        over = f"{who} takes as many samples as its peers again; it was slow {since} to {episode.last_step}."
    rule = f"samples of a batch, by the balancer; reported from {LESS:.0%} less than the median of the others"
    told = [number("share", seen.share, "samples", seen.peers, rule)]
    by = _joined(episode, together)
    over = _JOINED.format(who) if by is not None else over
    return Said(_subject("balanced_straggler", episode), told, summary, over=over, severity="info", replaced_by=by)


#: The subject of the finding of many, and the last word of a rank's own then.
_MANY, _JOINED = "many ranks", "{} is one of many with this trouble now: one finding names them all."


def _joined(
    episode: MemoryEpisode | ShareEpisode, together: MemoryEpisode | ShareEpisode | None
) -> tuple[str, int] | None:
    """The finding that reports a rank's trouble from now on."""
    if together is None or episode.subject == TOGETHER:
        return None
    return _MANY, int(together.first)


def _ranks(episode: MemoryEpisode | ShareEpisode) -> tuple[int, ...]:
    return episode.measured.ranks if episode.subject == TOGETHER else (episode.subject,)


def _who(episode: MemoryEpisode | ShareEpisode) -> str:
    ranks = episode.measured.ranks
    return f"{len(ranks)} ranks ({ranges(ranks)})" if episode.subject == TOGETHER else f"Rank {episode.subject}"


def _subject(kind: Any, episode: MemoryEpisode | ShareEpisode) -> Subject:
    name = _MANY if episode.subject == TOGETHER else f"rank {episode.subject}"
    return Subject(kind, name, ranks=_ranks(episode), has_steps=False)
