"""Is one rank's network link slow: round trips compared between ranks, while everybody waits.

Rule of this file: pure. A slow link slows every member of a ring alike, so waiting cannot name it; the kernel's round
trip can: the rank with the slow link is far from all its peers, each of which is close to the others. A job that tells
no connections one by one is judged by the smallest round trip each rank saw.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..episodes.finding import Said, nth, number
from ..episodes.persistence import Streaks
from ..episodes.tracker import Episode, Measured, Policy, Tracker
from ..ingest.collective_batch import CollectiveBatch
from ..ingest.collective_rows import Spans
from ..ingest.link_rows import LinkRows
from ..raw_columns import Ints
from ..robust import Array, peers_median
from ..stored import Kept, Stored
from .accused import AccusedRank, back_among_peers
from .distances import Distances

#: Ranks up to which the peers of each are told apart.
_EXACT = 32
#: While a link is taken for slow, half of either bar keeps it so: round trips vary by as much from second to second.
_STILL = 0.5
#: Weight of the newest batch in what waiting is usual.
_NEWEST = 0.2
#: A link that is sampled again after longer than this, in seconds, costs no more than so much.
_MOST_SPANNED_S = 60.0
_MILLI = 1e3
#: Growth is told from the first samples on, and a change of state does not put it off: what a link costs is seen in the
#: waiting of the whole job, which goes up and down.
_POLICY = Policy(
    growth_at=frozenset({("suspected", "late"), ("confirmed", "persistent")}),
    doubles_from=frozenset(),
)


@dataclass(frozen=True)
class LinksConfig:
    """A link is slow when its round trip is ``times`` its peers' and at least ``rtt_s`` above them, while waiting takes
    ``wait`` of the time: suspected after ``samples`` on end, confirmed after twice as many."""

    times: float = 5.0
    rtt_s: float = 0.002
    samples: int = 4
    wait: float = 0.2


class LinkEvidence(Measured, frozen=True, kw_only=True):
    """How far a rank is from its nearest peer, and how much everybody waits; ``usual_wait`` is before it. The
    ``times``-th time of this link: a job may have no steps that tell its episodes apart."""

    rtt_s: float
    peers_rtt_s: float
    retransmits: int
    wait_ratio: float
    usual_wait_ratio: float
    times: int


LinkEpisode = Episode[int, LinkEvidence]


class SlowLinks(Stored):
    """Round trips and waiting of the ranks of one job.

    >>> import numpy as np
    >>> from streams.ingest.collective_batch import collective_batch
    >>> from streams.ingest.collective_rows import Spans
    >>> from streams.ingest.coverage import CoverageTracker
    >>> from streams.ingest.link_rows import LinkRows
    >>> rank, none, times = np.arange(3), np.empty(0, dtype=int), np.ones(3)
    >>> links = LinkRows(rank, rank + 2, np.array([0.0002, 0.0002, 0.0200]), 0 * rank, times, *[none] * 3, np.empty(0))
    >>> spans = Spans(rank, 0 * times, times, 0.5 * times)
    >>> batch = collective_batch([], CoverageTracker())._replace(links=links, spans=spans)
    >>> slow_links = SlowLinks(LinksConfig())
    >>> [[(link.subject, link.state) for link in slow_links.update(batch)] for _ in range(8)][3::4]
    [[(2, 'suspected')], [(2, 'confirmed')]]
    """

    distances: Kept[Distances]
    rtt_s: Kept[Array]
    waits: Kept[Array]
    ended_s: Kept[Array]
    spanned_s: Kept[Array]
    retransmits: Kept[Ints]
    usual_wait: Kept[float]
    usual: Kept[float]
    since: Kept[int]
    times: Kept[dict[int, int]]
    streaks: Kept[Streaks[int]]
    tracker: Kept[Tracker[Any, Any]]

    def __init__(self, config: LinksConfig) -> None:
        self.config = config
        self.distances = Distances()
        #: By rank, NaN where nothing is known: its round trip, and its share of time spent waiting.
        self.rtt_s = np.empty(0)
        self.waits = np.empty(0)
        #: When its last collective ended, by its own clock; and how long they lasted since its link was judged.
        self.ended_s = np.empty(0)
        self.spanned_s = np.empty(0)
        self.retransmits = np.empty(0, dtype=np.int64)
        self.usual_wait = 0.0
        #: Of many ranks: their median round trip, and samples since it was worked out.
        self.usual, self.since = 0.0, 0
        #: By rank: episodes of its link so far.
        self.times = {}
        self.streaks = Streaks(config.samples, 2 * config.samples, config.samples)
        self.tracker = Tracker(LinkEpisode, _POLICY)

    def update(self, batch: CollectiveBatch) -> list[LinkEpisode]:
        """Take in what the ranks sampled; the episodes that have something new to tell."""
        self._widen(max(int(batch.links.rank.max(initial=-1)), int(batch.spans.ranks.max(initial=-1))) + 1)
        self._weigh(batch.spans, batch.each_of(batch.spans.ranks))
        if not batch.links.rank.size:  # Those of a job without phases come in messages of their own.
            return []
        span_s = self._spanned(batch.links.rank, batch)
        fresh = self._round_trips(batch.links)
        if int((~np.isnan(self.rtt_s)).sum()) < 3:  # of two ranks both ends of the one link look alike
            return []
        peers_s = self._others(fresh)
        told = []
        for rank, other_s, far in zip(fresh.tolist(), peers_s.tolist(), self._far(fresh, peers_s), strict=True):
            slow = far and self.wait_ratio() >= self.config.wait * self._held(rank)
            if slow or rank in self.streaks.bad or self.tracker.get(rank) is not None:
                told.append(self._judge(rank, other_s, slow, batch.last_step, span_s))
        if not self.suspects():
            waits = self.waits[np.unique(batch.links.rank)]
            heard = waits[~np.isnan(waits)]
            self.usual_wait += _NEWEST * ((float(np.median(heard)) if heard.size else 0.0) - self.usual_wait)
        return [episode for episode in told if episode is not None]

    def suspects(self) -> bool:
        """Whether any link may be slow: then it explains the waiting of all."""
        return bool(self.streaks.bad)

    def _held(self, rank: int) -> float:
        """The share of the bars that counts for ``rank``."""
        return _STILL if rank in self.streaks.bad else 1.0

    def _far(self, ranks: Ints, peers_s: Array) -> list[bool]:
        rtt_s = self.rtt_s[ranks]
        more_s = self.config.rtt_s * np.where(np.isin(ranks, list(self.streaks.bad)), _STILL, 1.0)
        far: list[bool] = ((rtt_s >= self.config.times * peers_s) & (rtt_s >= peers_s + more_s)).tolist()
        return far

    def _judge(self, rank: int, peers_s: float, slow: bool, step: int, span_s: float) -> LinkEpisode | None:
        episode = self.tracker.get(rank)
        if not slow and episode is None:
            self.streaks.forget(rank)
            return None
        signal = self.streaks.push(rank, slow)
        if signal is None:
            return None
        rtt_s = float(self.rtt_s[rank])
        if episode is None:
            self.times[rank] = self.times.get(rank, 0) + 1
            episode = self.tracker.begin(rank, step, "link")
        more = max(self.wait_ratio() - self.usual_wait, 0.0)
        episode.add_tick(max(step, episode.last_step), span_s, more / max(1.0 - more, 0.01))
        if signal != "calm":
            episode.evidence = LinkEvidence(
                margin=rtt_s / max(self.config.times * peers_s, self.config.rtt_s),
                rtt_s=rtt_s,
                peers_rtt_s=peers_s,
                retransmits=int(self.retransmits[rank]),
                wait_ratio=self.wait_ratio(),
                usual_wait_ratio=self.usual_wait,
                times=self.times[rank],
            )
        told = self.tracker.revise(rank, signal, episode.length)
        if self.tracker.get(rank) is None:
            self.streaks.forget(rank)
        return told

    def _others(self, ranks: Ints) -> Array:
        """The median round trip of the others, for each of ``ranks``.

        Of many ranks one more or less does not move it, nor do the newest of them: it is worked out again after every
        sixteenth part of them.
        """
        known = int((~np.isnan(self.rtt_s)).sum())
        if known <= _EXACT:
            return peers_median(self.rtt_s)[ranks]
        if self.since * 16 >= known or self.usual <= 0.0:
            self.since, self.usual = 0, float(np.nanmedian(self.rtt_s))
        self.since += ranks.size
        return np.full(ranks.size, self.usual)

    def _round_trips(self, links: LinkRows) -> Ints:
        """Update each rank's round trip to its nearest peer; the ranks of which ``links`` know one, ascending."""
        sound = links.connections > 0
        self.retransmits[links.rank[sound]] = links.retransmits[sound]
        told_apart = self.distances.told_apart
        there = (links.of >= 0) & np.append(sound, False)[links.of]
        ranks, rtts_s = self.distances.update(links._replace(of=np.where(there, links.of, -1)))
        if not self.distances.told_apart:
            smallest = sound & np.isfinite(links.rtt_s) & (links.rtt_s >= 0)
            ranks, rtts_s = links.rank[smallest], links.rtt_s[smallest]
        elif not told_apart:
            self.rtt_s[:] = np.nan  # smallest ones of connections that may be idle compare with nothing
        self.rtt_s[ranks] = rtts_s
        return np.unique(ranks)

    def wait_ratio(self) -> float:
        """The median rank's share of time spent waiting in collectives, in the last batches."""
        heard = self.waits[~np.isnan(self.waits)]
        return float(np.median(heard)) if heard.size else 0.0

    def _weigh(self, spans: Spans, each: Ints) -> None:
        """Update each rank's share of waiting, of which it tells one step in ``each``."""
        if not spans.ranks.size:
            return
        lasted = spans.last_s - spans.first_s
        sampled = each > 1  # what lies between two steps that were told belongs to it
        lasted[sampled] = np.fmax(lasted, spans.last_s - self.ended_s[spans.ranks])[sampled]
        self.ended_s[spans.ranks] = spans.last_s
        some = lasted > 0
        self.waits[spans.ranks[some]] = np.minimum((spans.waited_s * each)[some] / lasted[some], 1.0)
        spanned_s = self.spanned_s[spans.ranks[some]] + lasted[some]
        self.spanned_s[spans.ranks[some]] = np.minimum(spanned_s, _MOST_SPANNED_S)

    def _spanned(self, ranks: Ints, batch: CollectiveBatch) -> float:
        """How long the collectives of ``ranks`` lasted since their links were judged."""
        lasted = self.spanned_s[ranks]
        self.spanned_s[ranks] = 0.0
        return float(np.median(lasted) if (batch.each_of(ranks) > 1).any() else lasted.max(initial=0.0))

    def _widen(self, ranks: int) -> None:
        more = ranks - self.rtt_s.size
        if more > 0:
            self.rtt_s = np.pad(self.rtt_s, (0, more), constant_values=np.nan)
            self.waits = np.pad(self.waits, (0, more), constant_values=np.nan)
            self.ended_s = np.pad(self.ended_s, (0, more), constant_values=np.nan)
            self.spanned_s = np.pad(self.spanned_s, (0, more))
            self.retransmits = np.pad(self.retransmits, (0, more))


def said(episode: LinkEpisode, rank: AccusedRank) -> Said:
    """What is said of a slow link."""
    seen = episode.measured
    evidence = [
        number("round_trip", seen.rtt_s, "s", seen.peers_rtt_s, "smallest smoothed TCP round trip to any other rank"),
        number(
            "wait", seen.wait_ratio, "ratio", seen.usual_wait_ratio, "median rank's share of time waiting; before it"
        ),
        number("retransmits", float(seen.retransmits), "segments", None, "TCP segments sent again since the start"),
    ]
    summary = (
        f"{rank.words()} is {seen.rtt_s * _MILLI:.1f} ms away from its nearest peer, where its "
        f"peers are {seen.peers_rtt_s * _MILLI:.2f} ms from theirs, since about step {episode.first_step}. "
        f"The reason is its network link; every rank waits {seen.wait_ratio:.0%} of the time."
    )
    return Said(rank.subject(nth("link", seen.times)), evidence, summary, over=back_among_peers(rank, episode))
