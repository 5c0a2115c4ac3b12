"""Is one rank's network link slow: round trips compared between ranks, while everybody waits.

Rule of this file: pure. A slow link slows every member of a ring alike, so waiting cannot name it; the kernel's round
trip can: the rank with the slow link is far from all its peers, each of which is close to the others. A job that tells
no connections one by one is judged by the smallest round trip each rank saw.
"""

from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from paceline.events import LinkSample

from ..episodes.finding import Said, number
from ..episodes.persistence import Streaks
from ..episodes.tracker import Episode, Measured, Policy, Tracker
from .accused import AccusedRank, back_among_peers
from .collective_batch import CollectiveBatch, Spans
from .distances import Distances

#: Ranks up to which the peers of each are told apart.
_EXACT = 32
#: Weight of the newest batch in what waiting is usual.
_NEWEST = 0.2
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
    """How far a rank is from its nearest peer, and how much everybody waits; ``usual_wait`` is before it."""

    rtt_s: float
    peers_rtt_s: float
    retransmits: int
    wait_ratio: float
    usual_wait_ratio: float


LinkEpisode = Episode[int, LinkEvidence]


class SlowLinks:
    """Round trips and waiting of the ranks of one job.

    >>> from streams.jobs.collective_batch import Calls
    >>> no_calls = Calls(*(np.empty(0, dtype=np.int64) for _ in Calls._fields))
    >>> rtts_s = enumerate([0.0002, 0.0002, 0.0200])
    >>> links = [LinkSample(rank=rank, connections=2, rtt_s=rtt_s, retransmits=0) for rank, rtt_s in rtts_s]
    >>> batch, waits = CollectiveBatch(no_calls, [], [], [], True, links, [0, 1, 2]), Spans([0], [0.0], [1.0], [0.5])
    >>> slow_links = SlowLinks(LinksConfig())
    >>> [[(link.subject, link.state) for link in slow_links.update(batch, waits)] for _ in range(8)][3::4]
    [[(2, 'suspected')], [(2, 'confirmed')]]
    """

    def __init__(self, config: LinksConfig) -> None:
        self.config = config
        self.distances = Distances()
        self.rtt_s: dict[int, float] = {}
        self.retransmits: dict[int, int] = {}
        self.waits: dict[int, float] = {}
        self.usual_wait = 0.0
        #: Of many ranks: their median round trip, and samples since it was worked out.
        self.usual, self.since = 0.0, 0
        self.streaks: Streaks[int] = Streaks(config.samples, 2 * config.samples, config.samples)
        self.tracker = Tracker(LinkEpisode, _POLICY)

    def update(self, batch: CollectiveBatch, spans: Spans | None) -> list[LinkEpisode]:
        """Take in what the ranks sampled; the episodes that have something new to tell."""
        if not batch.links:
            return []
        span_s = self._weigh(spans)
        fresh = self._round_trips(batch.links)
        if len(self.rtt_s) < 3:  # of two ranks both ends of the one link look alike
            return []
        step = int(batch.calls.step.max(initial=-1))
        told = [episode for rank in sorted(fresh) if (episode := self._judge(rank, step, span_s))]
        if not self.suspects():
            here = [self.waits[rank] for rank in batch.ranks if rank in self.waits]
            self.usual_wait += _NEWEST * (median(here or [0.0]) - self.usual_wait)
        return told

    def suspects(self) -> bool:
        """Whether any link may be slow: then it explains the waiting of all."""
        return bool(self.streaks.bad)

    def _judge(self, rank: int, step: int, span_s: float) -> LinkEpisode | None:
        rtt_s, peers_s = self.rtt_s[rank], self._others(rank)
        far = rtt_s >= self.config.times * peers_s and rtt_s >= peers_s + self.config.rtt_s
        slow = far and self.wait_ratio() >= self.config.wait
        episode = self.tracker.get(rank)
        if not slow and episode is None:
            self.streaks.forget(rank)
            return None
        signal = self.streaks.push(rank, slow)
        if signal is None:
            return None
        episode = episode or self.tracker.begin(rank, step, "link")
        more = max(self.wait_ratio() - self.usual_wait, 0.0)
        episode.add_tick(max(step, episode.last_step), span_s, more / max(1.0 - more, 0.01))
        if signal != "calm":
            episode.evidence = LinkEvidence(
                margin=rtt_s / max(self.config.times * peers_s, self.config.rtt_s),
                rtt_s=rtt_s,
                peers_rtt_s=peers_s,
                retransmits=self.retransmits.get(rank, 0),
                wait_ratio=self.wait_ratio(),
                usual_wait_ratio=self.usual_wait,
            )
        told = self.tracker.revise(rank, signal, episode.length)
        if self.tracker.get(rank) is None:
            self.streaks.forget(rank)
        return told

    def _others(self, rank: int) -> float:
        """The median round trip of the other ranks.

        Of many ranks one more or less does not move it, nor do the newest of them: it is worked out again after every
        sixteenth part of them.
        """
        if len(self.rtt_s) <= _EXACT:
            return median([rtt for other, rtt in self.rtt_s.items() if other != rank])
        if self.since * 16 >= len(self.rtt_s) or self.usual <= 0.0:
            self.since, self.usual = 0, float(np.median(np.fromiter(self.rtt_s.values(), dtype=np.float64)))
        self.since += 1
        return self.usual

    def _round_trips(self, links: list[LinkSample]) -> set[int]:
        """Update each rank's round trip to its nearest peer; the ranks of which ``links`` know one."""
        sound = [link for link in links if link.connections > 0]
        self.retransmits.update({link.rank: link.retransmits for link in sound})
        told_apart = bool(self.distances.legs)
        fresh = self.distances.update(sound)
        if not self.distances.legs:
            fresh = {link.rank: link.rtt_s for link in sound if np.isfinite(link.rtt_s) and link.rtt_s >= 0}
        elif not told_apart:
            self.rtt_s.clear()  # smallest ones of connections that may be idle compare with nothing
        self.rtt_s.update(fresh)
        return set(fresh)

    def wait_ratio(self) -> float:
        """The median rank's share of time spent waiting in collectives, in the last batches."""
        return float(np.median(list(self.waits.values()))) if self.waits else 0.0

    def _weigh(self, spans: Spans | None) -> float:
        """Update each rank's share of waiting; the seconds this batch spans."""
        longest = 0.0
        for rank, first_s, last_s, waited_s in zip(*spans, strict=True) if spans else ():
            if last_s > first_s:
                self.waits[rank] = min(waited_s / (last_s - first_s), 1.0)
                longest = max(longest, last_s - first_s)
        return longest

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "rtt_s": [[rank, rtt_s] for rank, rtt_s in self.rtt_s.items()],
            "retransmits": [[rank, count] for rank, count in self.retransmits.items()],
            "waits": [[rank, wait] for rank, wait in self.waits.items()],
            "usual_wait": self.usual_wait,
            "usual": self.usual,
            "since": self.since,
            "streaks": self.streaks.snapshot(),
            "tracker": self.tracker.snapshot(),
            "distances": self.distances.snapshot(),
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.rtt_s, self.retransmits = dict(data["rtt_s"]), dict(data["retransmits"])
        self.waits = dict(data["waits"])
        self.usual_wait, self.usual, self.since = data["usual_wait"], data["usual"], data["since"]
        self.streaks.load(data["streaks"])
        self.tracker.load(data["tracker"])
        self.distances.load(data["distances"])


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
        f"peers are {seen.peers_rtt_s * _MILLI:.2f} ms from theirs, since step {episode.first_step}. "
        f"The reason is its network link; every rank waits {seen.wait_ratio:.0%} of the time."
    )
    return Said(rank.subject("link"), evidence, summary, over=back_among_peers(rank, episode))
