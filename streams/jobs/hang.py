"""Has the job stopped: who stands in which collective, and who has not come to it.

Rule of this file: pure. The ranks that wait tell so themselves; who is missing follows from the numbers of the
collectives that each rank is known to have reached. A rank that is missing here because it waits elsewhere is a victim:
accused are those who are missing and wait nowhere. How long counts by each waiter's own clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from paceline.events import OpenCollective

from ..collective_batch import CollectiveBatch
from ..episodes.finding import Said, Subject, number
from ..episodes.lifecycle import Signal
from ..episodes.tracker import Episode, Measured, Policy, Tracker
from ..limits import MOST_RANKS

#: Ranks told by number in a finding; of more, only the first.
MOST_TOLD = 64
_SHOWN = 8
#: A job has one hang at a time.
_JOB = "job"


@dataclass(frozen=True)
class HangConfig:
    """A collective hangs when ranks have stood in it for ``least_s``, and ``times`` longer than ever before; it is
    confirmed at twice that. A rank that evaluates alone for a minute is no hang in a job that has seen one."""

    least_s: float = 30.0
    times: float = 5.0


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


class HangEvidence(Measured, frozen=True, kw_only=True):
    """How long the longest waiter has waited, the longest wait that ever ended well, and the collective to name."""

    waited_s: float
    usual_s: float
    stop: Stop


HangEpisode = Episode[str, HangEvidence]


class Hang:
    """Who waits where, in one job."""

    def __init__(self, config: HangConfig) -> None:
        self.config = config
        self.waits: dict[int, list[Wait]] = {}
        self.reached: dict[str, dict[int, int]] = {}
        self.longest_s = 0.0
        self.last_step = -1
        # It only goes on waiting: growth is no news.
        self.tracker = Tracker(HangEpisode, Policy(growth_at=frozenset()))

    def reach(self, batch: CollectiveBatch) -> None:
        """Take down what each rank has got to in each group."""
        for one, at, seq in zip(*(column.tolist() for column in batch.reached), strict=True):
            reached = self.reached.setdefault(batch.groups[at], {})
            reached[one] = max(reached.get(one, -1), seq)
        self.longest_s = max(self.longest_s, batch.longest_wait_s)
        self.last_step = max(self.last_step, batch.last_step)

    def update(self, ranks: Sequence[int], open_: Sequence[OpenCollective], now_s: float | None) -> HangEpisode | None:
        """Take in who of a node's ``ranks`` waits at ``now_s``; the episode where it has something new to tell."""
        if now_s is None and not self.waits:
            return None
        for rank in ranks:
            self.waits.pop(rank, None)
        now_s = now_s or 0.0
        for one in open_:
            if one.rank < MOST_RANKS and one.start_s < now_s:
                wait = Wait(one.rank, one.group, one.group_size, one.seq, one.operation, now_s - one.start_s)
                self.waits.setdefault(one.rank, []).append(wait)
        return self._judge()

    def _judge(self) -> HangEpisode | None:
        longest = max((wait.waited_s for waits in self.waits.values() for wait in waits), default=0.0)
        bar = max(self.config.least_s, self.config.times * self.longest_s)
        signal: Signal | None = "calm" if not self.waits else None
        if longest >= bar:
            signal = "persistent" if longest >= 2 * bar else "late"
        episode = self.tracker.get(_JOB)
        if signal is None or (signal == "calm" and episode is None):
            return None
        episode = episode or self.tracker.begin(_JOB, self.last_step)
        if signal != "calm":
            episode.lost_s = episode.span_s = longest
            episode.evidence = HangEvidence(
                margin=longest / bar, waited_s=longest, usual_s=self.longest_s, stop=self._stop()
            )
        return self.tracker.revise(_JOB, signal, longest)

    def _stop(self) -> Stop:
        """The collective to name: of those that somebody who waits nowhere is missing from, the longest awaited."""
        places = sorted({(wait.group, wait.seq) for waits in self.waits.values() for wait in waits})
        stops = [self._of(group, seq) for group, seq in places]
        return min(stops, key=lambda stop: (not stop.missing, not stop.unknown, -stop.waits))

    def _of(self, group: str, seq: int) -> Stop:
        here = [w for ws in self.waits.values() for w in ws if w.group == group and w.seq == seq]
        waiting = sorted({wait.rank for wait in here})
        reached = self.reached.get(group, {})
        missing = sorted(rank for rank, at in reached.items() if at < seq and rank not in self.waits)
        size = max(wait.size for wait in here)
        unknown = max(size - len(set(reached) | set(waiting)), 0)
        last = max((reached[rank] for rank in missing), default=-1)
        counts = (len(waiting), len(missing))
        return Stop(group, seq, here[0].operation, waiting[:MOST_TOLD], *counts, missing[:MOST_TOLD], unknown, last)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "waits": [msgspec.to_builtins(wait) for waits in self.waits.values() for wait in waits],
            "reached": [[group, list(reached.items())] for group, reached in self.reached.items()],
            "longest_s": self.longest_s,
            "last_step": self.last_step,
            "tracker": self.tracker.snapshot(),
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.waits = {}
        for wait in msgspec.convert(data["waits"], list[Wait]):
            self.waits.setdefault(wait.rank, []).append(wait)
        self.reached = {group: dict(reached) for group, reached in data["reached"]}
        self.longest_s, self.last_step = float(data["longest_s"]), int(data["last_step"])
        self.tracker.load(data["tracker"])


def said(episode: HangEpisode, nodes: Mapping[int, str]) -> Said:
    """What is said of a job that has stopped. ``nodes``: where each rank runs."""
    seen, stop = episode.measured, episode.measured.stop
    where = f"{stop.operation} number {stop.seq} of group {stop.group}"
    longest = "longest so far; beside it the longest that ever ended well"
    evidence = [
        number("waited", seen.waited_s, "s", seen.usual_s, longest),
        number("waiting", stop.waits, "ranks", None, f"stand in {where}"),
    ]
    waiting = f"{stop.waits} ranks ({_some(stop.waiting, stop.waits)}) have stood in {where} for {seen.waited_s:.0f} s"
    if stop.missing:
        evidence.append(number("missing_reached", stop.last_seq, "number", stop.seq, "last collective of the missing"))
        missing = _some(stop.missing, stop.misses)
        summary = f"{waiting}; rank {missing} has not come to it. Look at that process: py-spy dump, dmesg."
    elif stop.unknown:
        summary = f"{waiting}; {stop.unknown} members of the group did not report. Check that they have started."
    else:
        summary = (
            f"{waiting}, and every member is in it or waits elsewhere: look at the network and at mismatched calls."
        )
    missing_from = tuple(sorted({nodes[rank] for rank in stop.missing if rank in nodes}))
    subject = Subject("hang", where, ranks=tuple(stop.missing), group=stop.group, nodes=missing_from)
    return Said(subject, evidence, summary)


def _some(ranks: list[int], count: int) -> str:
    shown = ranks[:_SHOWN]
    return ", ".join(map(str, shown)) + (f" and {count - len(shown)} more" if count > len(shown) else "")
