"""Is one rank's network link slow: round trips compared between ranks, while everybody waits.

Rule of this file: pure. A slow link slows every member of a ring alike, so waiting cannot name it; the kernel's round
trip can: the rank with the slow link is far from all its peers, each of which is close to the others. A job that tells
no connections one by one is judged by the smallest round trip each rank saw.
"""

from statistics import median
from typing import Any

import msgspec
import numpy as np

from paceline.events import LinkSample

from ..episodes.episode import Episode
from ..episodes.lifecycle import FINAL, Signal, follow
from .collective_batch import Heard, Spans
from .config import Config
from .distances import Distances

#: Ranks up to which the peers of each are told apart.
_EXACT = 32
#: Weight of the newest batch in what waiting is usual.
_NEWEST = 0.2


class Links:
    """Round trips and waiting of the ranks of one job."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.distances = Distances()
        self.rtt_s: dict[int, float] = {}
        self.retransmits: dict[int, int] = {}
        self.waits: dict[int, float] = {}
        self.quiet_wait = 0.0
        #: Of many ranks: their median round trip, and samples since it was worked out.
        self.usual, self.since = 0.0, 0
        self.slow: dict[int, int] = {}
        self.fine: dict[int, int] = {}
        self.episodes: dict[int, Episode] = {}

    def update(self, heard: Heard, spans: Spans | None) -> list[Episode]:
        """Take in what the ranks sampled; the episodes that have something new to tell."""
        if not heard.links:
            return []
        span = self._weigh(spans)
        fresh = self._round_trips(heard.links)
        if len(self.rtt_s) < 3:  # of two ranks both ends of the one link look alike
            return []
        step = int(heard.calls.step.max(initial=-1))
        told = []
        for rank in sorted(fresh):
            rtt, others = self.rtt_s[rank], self._others(rank)
            far = rtt >= self.config.link_times * others and rtt >= others + self.config.link_rtt_s
            if signal := self._signal(rank, far):
                told += self._move(rank, signal, step, span, rtt, others)
        if not self.slow:
            here = [self.waits[rank] for rank in heard.ranks if rank in self.waits]
            self.quiet_wait += _NEWEST * (median(here or [0.0]) - self.quiet_wait)
        return told

    def _others(self, rank: int) -> float:
        """The median round trip of the other ranks.

        Of many ranks one more or less does not move it, nor do the newest of them: it is worked out anew after every
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
        known = bool(self.distances.legs)
        fresh = self.distances.update(sound)
        if not self.distances.legs:
            fresh = {link.rank: link.rtt_s for link in sound if np.isfinite(link.rtt_s) and link.rtt_s >= 0}
        elif not known:
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

    def _signal(self, rank: int, far: bool) -> Signal | None:
        if far and self.wait_ratio() >= self.config.link_wait:
            self.slow[rank] = self.slow.get(rank, 0) + 1
            self.fine.pop(rank, None)
            if self.slow[rank] >= 2 * self.config.link_samples:
                return "persistent"
            return "late" if self.slow[rank] >= self.config.link_samples else None
        if rank in self.episodes:
            self.fine[rank] = self.fine.get(rank, 0) + 1
            return "calm" if self.fine[rank] >= self.config.link_samples else None
        self.slow.pop(rank, None)
        return None

    def _move(self, rank: int, signal: Signal, step: int, span: float, rtt: float, peers: float) -> list[Episode]:
        episode = self.episodes.setdefault(
            rank, Episode(rank=rank, first_step=step, last_step=step, cause="link", cause_share=1.0)
        )
        before = episode.state
        episode.state = follow(before, signal)
        more = max(self.wait_ratio() - self.quiet_wait, 0.0)
        episode.lasts(max(step, episode.last_step), span, more / max(1.0 - more, 0.01))
        if signal != "calm":
            episode.evidence = {
                "rtt": rtt,
                "peers_rtt": peers,
                "retransmits": float(self.retransmits.get(rank, 0)),
                "wait": self.wait_ratio(),
                "quiet_wait": self.quiet_wait,
                "margin": rtt / max(self.config.link_times * peers, self.config.link_rtt_s),
            }
        if episode.state == before and not episode.due():
            return []
        episode.revision += 1
        if episode.state in FINAL:
            del self.episodes[rank]
            self.slow.pop(rank, None)
            self.fine.pop(rank, None)
        return [episode]

    _TABLES = ("rtt_s", "retransmits", "waits", "slow", "fine")

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        tables = {name: [[rank, value] for rank, value in getattr(self, name).items()] for name in self._TABLES}
        episodes = [msgspec.to_builtins(episode) for episode in self.episodes.values()]
        distances = self.distances.snapshot()
        usual = {name: getattr(self, name) for name in ("quiet_wait", "usual", "since")}
        return {**tables, **usual, "episodes": episodes, "distances": distances}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        for name in self._TABLES:
            setattr(self, name, dict(data[name]))
        self.quiet_wait, self.usual, self.since = float(data["quiet_wait"]), float(data["usual"]), int(data["since"])
        self.distances.load(data["distances"])
        self.episodes = {e.rank: e for e in msgspec.convert(data["episodes"], list[Episode])}
