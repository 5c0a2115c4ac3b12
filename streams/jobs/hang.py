"""Has the job stopped: who stands in which collective, and who has not come to it.

Rule of this file: pure. The ranks that wait tell so themselves; who is missing follows from the numbers of the
collectives that each rank is known to have reached. A rank that is missing here because it waits elsewhere is a victim:
accused are those who are missing and wait nowhere. How long counts by each waiter's own clock.
"""

from typing import Any

import msgspec
import numpy as np

from paceline.events import CollectiveTimings

from ..episodes.episode import Episode
from ..episodes.lifecycle import FINAL, Signal, follow
from .collective_batch import Heard, starts
from .config import MOST_RANKS, Config

#: Ranks told by number in a finding; of more, only the first.
MOST_TOLD = 64


class Wait(msgspec.Struct):
    """One rank in one collective that has no result: since when, in seconds of its own clock until it last said so."""

    rank: int
    group: str
    size: int
    seq: int
    operation: str
    waited_s: float


class Stop(msgspec.Struct):
    """A collective that somebody is missing from."""

    group: str
    seq: int
    operation: str
    waiting: list[int]
    #: How many wait and how many are missing; the lists hold the first of them.
    waits: int
    misses: int
    missing: list[int]
    #: Members of the group that were never heard of.
    unknown: int
    last_seq: int


class Hang:
    """Who waits where, in one job."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.waits: dict[int, list[Wait]] = {}
        self.reached: dict[str, dict[int, int]] = {}
        self.longest_s = 0.0
        self.last_step = -1
        self.episode: Episode | None = None
        self.stop: Stop | None = None

    def reach(self, heard: Heard) -> None:
        """Take down what each rank has got to in each group."""
        groups, calls = heard.groups, heard.calls
        if not calls.rank.size:
            return
        order = np.lexsort((calls.rank, calls.group))
        rank, group = calls.rank[order], calls.group[order]
        first = starts(group, rank)
        latest = np.maximum.reduceat(calls.seq[order], first)
        for at, one, seq in zip(group[first].tolist(), rank[first].tolist(), latest.tolist(), strict=True):
            known = self.reached.setdefault(groups[at], {})
            known[one] = max(known.get(one, -1), seq)
        self.longest_s = max(self.longest_s, float(calls.wait_s.max()))
        self.last_step = max(self.last_step, int(calls.step.max()))

    def update(self, batch: CollectiveTimings) -> tuple[Episode, Stop] | None:
        """Take in who waits on one node; the episode where it has something new to tell."""
        if batch.now_s is None and not self.waits:
            return None
        for rank in batch.ranks:
            self.waits.pop(rank, None)
        now_s = batch.now_s or 0.0
        for one in batch.open:
            if one.rank < MOST_RANKS and one.start_s < now_s:
                wait = Wait(one.rank, one.group, one.group_size, one.seq, one.operation, now_s - one.start_s)
                self.waits.setdefault(one.rank, []).append(wait)
        return self._judge()

    def _judge(self) -> tuple[Episode, Stop] | None:
        longest = max((wait.waited_s for waits in self.waits.values() for wait in waits), default=0.0)
        bar = max(self.config.hang_s, self.config.hang_times * self.longest_s)
        signal: Signal | None = "calm" if not self.waits else None
        if longest >= bar:
            signal = "persistent" if longest >= 2 * bar else "late"
        if signal is None or (signal == "calm" and self.episode is None):
            return None
        episode = self.episode or Episode(rank=-1, first_step=self.last_step, last_step=self.last_step)
        self.episode = episode
        before, episode.state = episode.state, follow(episode.state, signal)
        if signal != "calm":
            self.stop = self._stop()
            episode.lost_s = episode.span_s = longest
            episode.evidence = {"waited": longest, "usual": self.longest_s, "margin": longest / bar}
        if episode.state == before or self.stop is None:
            return None
        episode.revision += 1
        told = msgspec.structs.replace(episode, evidence=dict(episode.evidence)), self.stop
        if episode.state in FINAL:
            self.episode = self.stop = None
        return told

    def _stop(self) -> Stop:
        """The collective to name: of those that somebody who waits nowhere is missing from, the longest awaited."""
        places = sorted({(wait.group, wait.seq) for waits in self.waits.values() for wait in waits})
        found = [self._of(group, seq) for group, seq in places]
        found.sort(key=lambda stop: (not stop.missing, not stop.unknown, -stop.waits))
        return found[0]

    def _of(self, group: str, seq: int) -> Stop:
        here = [w for ws in self.waits.values() for w in ws if w.group == group and w.seq == seq]
        waiting = sorted({wait.rank for wait in here})
        known = self.reached.get(group, {})
        missing = sorted(rank for rank, at in known.items() if at < seq and rank not in self.waits)
        size = max(wait.size for wait in here)
        unknown = max(size - len(set(known) | set(waiting)), 0)
        last = max((known[rank] for rank in missing), default=-1)
        counts = (len(waiting), len(missing))
        return Stop(group, seq, here[0].operation, waiting[:MOST_TOLD], *counts, missing[:MOST_TOLD], unknown, last)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "waits": [msgspec.to_builtins(wait) for waits in self.waits.values() for wait in waits],
            "reached": [[group, list(known.items())] for group, known in self.reached.items()],
            "longest_s": self.longest_s,
            "last_step": self.last_step,
            "episode": msgspec.to_builtins(self.episode),
            "stop": msgspec.to_builtins(self.stop),
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.waits = {}
        for wait in msgspec.convert(data["waits"], list[Wait]):
            self.waits.setdefault(wait.rank, []).append(wait)
        self.reached = {group: dict(known) for group, known in data["reached"]}
        self.longest_s, self.last_step = float(data["longest_s"]), int(data["last_step"])
        self.episode = msgspec.convert(data["episode"], Episode | None)
        self.stop = msgspec.convert(data["stop"], Stop | None)
