"""Has the job stopped: who waits in which collective, who has not called it, and where its code is.

Rule of this file: pure. The ranks that wait say so themselves; who is missing follows from the numbers of the
collectives that each rank is known to have reached; who waited there until a timeout or its end is not missing. A rank
that is missing here because it waits elsewhere is a victim: accused are those who are missing and wait nowhere. How
long counts by each waiter's own clock. Where the missing were looked at and do not move, it is reported early; while
one of them moves (a checkpoint, an evaluation), not at all, and after that the time counts from its last movement.
How long is too long follows from the longest wait that is usual in the job. Those of its first steps are not, nor is
one that was confirmed as a hang, unless a second of its length ends well: then it is a pause of the job's own.
Before the first collective of a group nobody says who its members are: then every rank that waits nowhere may be the
one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from paceline.decoders import convert
from paceline.events import RANK_LIMIT, WARM_UP_STEPS, OpenCollective, RankLook

from ..episodes.lifecycle import Signal
from ..episodes.tracker import Policy, Tracker
from ..ingest.collective_batch import CollectiveBatch
from ..stored import Kept, Stored
from .hang_evidence import MOST_TOLD, MOVES_S, HangEpisode, HangEvidence, Reported, Seen, Stop, call_words, last_seen
from .waiting_place import Place, Wait, Where
from .waits import Waits

#: However long waits are usual, a hang is reported after so long, in seconds, and confirmed at twice that: before NCCL
#: ends the job, after 600 s by default. Only where a usual wait is nearly as long, after ``MARGIN`` times that.
LATEST_HANG_S, MARGIN = 240.0, 1.5
#: A job has one hang at a time.
_JOB = "job"


@dataclass(frozen=True)
class HangConfig:
    """A collective hangs when ranks have stood in it for ``least_s``, and ``times`` longer than ever before; it is
    confirmed at twice that. A rank that evaluates alone for a minute is no hang in a job that has seen one. ``times``
    counts up to ``LATEST_HANG_S``.

    Where the reason is seen, by looks at the missing or by calls that differ, ``seen_share`` of ``least_s`` is enough,
    and ``seen_times`` longer than ever before."""

    least_s: float = 30.0
    times: float = 5.0
    seen_share: float = 0.4
    seen_times: float = 3.0


class Hang(Stored):
    """Who waits where, in one job."""

    longest_s: Kept[float]
    hung_s: Kept[float]
    usual_from: Kept[int]
    last_step: Kept[int]
    moved_s: Kept[float]
    moved_in: Kept[Where | None]
    reported: Kept[Reported | None]
    given_up: Kept[HangEvidence | None]
    tracker: Kept[Tracker[Any, Any]]

    def __init__(self, config: HangConfig) -> None:
        self.config = config
        self.waits = Waits()
        self.looks: dict[int, Seen] = {}
        self.longest_s = 0.0
        #: The longest that was reported as a hang and ended well, and the first step whose waits are usual.
        self.hung_s = 0.0
        self.usual_from = -1
        self.last_step = -1
        #: How long the longest had waited when one of the missing last moved, and for which collective.
        self.moved_s = 0.0
        self.moved_in = None
        self.reported = None
        #: What was confirmed and is over, where none is known to have got through it, until a step ends.
        self.given_up = None
        self.tracker = Tracker(HangEpisode, Policy())

    def reach(self, batch: CollectiveBatch) -> None:
        """Take down what each rank has got to in each group."""
        for rank, group, seq in zip(*(column.tolist() for column in batch.reached), strict=True):
            self.waits.reach(rank, batch.groups[group], seq)
        if batch.last_step >= WARM_UP_STEPS > self.last_step:
            self.longest_s, self.usual_from = 0.0, max(self.usual_from, WARM_UP_STEPS)
        step = batch.first_step if batch.first_step >= 0 else self.last_step
        if step >= self.usual_from:
            self.longest_s = max(self.longest_s, batch.longest_wait_s)
        if batch.last_step > self.last_step:
            self.given_up = None
        self.last_step = max(self.last_step, batch.last_step)

    def reach_each(self, reached: Iterable[tuple[int, str, int]]) -> None:
        """Take down ranks, groups and numbers of a message whose other rows still wait for those of its peers."""
        for rank, group, seq in reached:
            self.waits.reach(rank, group, seq)

    def through(self, ranks: Iterable[int]) -> list[int]:
        """Those of ``ranks`` that wait, and have been through all that they wait in."""
        waits, reached = self.waits.waits, self.waits.reached
        return [
            rank
            for rank in dict.fromkeys(ranks)
            if rank in waits and all(reached.get(group, {}).get(rank, -1) >= seq for group, seq in waits[rank])
        ]

    def look(self, ranks: Sequence[int], looks: Sequence[RankLook], *, standing: bool) -> None:
        """Where ranks of a node are; what was seen of ``ranks`` before goes once it is not said who is ``standing``."""
        if not standing:
            for rank in ranks if self.looks else ():
                if self.looks.pop(rank, None):
                    self.waits.see(rank, "")
        for one in looks:
            if one.rank < RANK_LIMIT:
                self.looks[one.rank] = Seen(
                    one.rank, one.doing, one.moved, one.line, one.pid, one.worker_line, one.worker_unseen
                )
                self.waits.see(one.rank, one.line)

    def keeps_ranks(self) -> bool:
        """Whether anything is kept of ranks that wait or were looked at."""
        return bool(self.waits.waits or self.looks)

    def update(
        self, ranks: Sequence[int], open_: Sequence[OpenCollective], now_s: float | None, expected: int = 0
    ) -> HangEpisode | None:
        """Take in who of ``ranks`` waits at ``now_s``, nobody at None; the episode where there is news of it.

        ``expected`` is how many ranks the job has, 0 where that is not known. At None the others have not said that
        they still wait: all that can follow is that nobody does."""
        if now_s is None and not self.waits.waits:
            return None
        told, now_s = now_s is not None, now_s or 0.0
        waits: dict[int, list[Wait]] = {rank: [] for rank in ranks}
        for one in open_:
            if one.rank < RANK_LIMIT and one.start_s < now_s:
                words = (one.group, one.group_size, one.seq, one.operation)
                waits.setdefault(one.rank, []).append(Wait(one.rank, *words, now_s - one.start_s, one.bytes))
        for rank, its in waits.items():
            self.waits.stand(rank, its)
        return self._judge(expected, told=told)

    def _judge(self, expected: int, *, told: bool) -> HangEpisode | None:
        longest = self.waits.longest_s()
        place = self.waits.first() if longest >= self.config.seen_share * self.config.least_s else None
        stop = self._stop(place, expected) if place is not None else None
        moves = self._follow_movement(stop, longest)
        if not told and self.waits.keeps_anybody():
            return None
        threshold = self._threshold(stop)
        since = longest - self.moved_s
        signal: Signal | None = None if self.waits.keeps_anybody() else "calm"
        if stop is not None and not moves and since >= threshold:
            signal = "persistent" if since >= 2 * threshold else "late"
        episode = self.tracker.get(_JOB)
        if (signal is None and not moves) or (episode is None and signal not in ("late", "persistent")):
            return None
        # Before the first step has ended it is step 0 that the hang costs.
        episode = episode or self.tracker.begin(_JOB, max(self.last_step, 0))
        news = False
        if signal != "calm" and stop is not None:
            news = self.reported is not None and self.reported.is_due(stop, longest)
            episode.length = episode.span_s = longest
            # Whoever waited longest may go on before the others: the job has waited as long all the same.
            episode.lost_s = max(episode.lost_s, longest)
            margin = since / threshold
            last = episode.evidence
            episode.evidence = HangEvidence(
                margin=margin,
                name=last.name if last is not None else stop.where(),
                waited_s=longest,
                usual_s=self.longest_s,
                stop=stop,
                last_seen=tuple(stop.places) or last_seen(last, stop),
            )
        if signal == "calm":
            episode.evidence = over = self._over(episode.measured)
            if not over.stop.unended:
                self.longest_s = max(self.longest_s, min(over.waited_s, self.hung_s, LATEST_HANG_S))
                self.hung_s = max(self.hung_s, over.waited_s)
            self.given_up = over if over.stop.unended and episode.state == "confirmed" else None
        before = episode.state
        found = self.tracker.revise(_JOB, signal, longest, news=news)
        if episode.state == "confirmed":
            self.usual_from = self.last_step + 2
        if found is not None:
            seen = found.measured
            changes = self.reported.changes + news if self.reported is not None and found.state == before else 0
            self.reported = None if signal == "calm" else Reported(seen.stop, seen.waited_s, changes)
        return found

    def conclude(self) -> HangEpisode | None:
        """Nothing follows: a hang that is confirmed and has gone on since it was reported, once more."""
        episode = self.tracker.get(_JOB)
        if episode is None or episode.state != "confirmed" or self.reported is None:
            return None
        waited_s = episode.measured.waited_s
        if waited_s <= self.reported.waited_s:
            return None
        self.reported.waited_s = waited_s
        return self.tracker.revise(_JOB, None, waited_s, news=True)

    def blockage(self) -> HangEvidence | None:
        """What the job hangs in, confirmed, or hung in until its ranks gave up."""
        episode = self.tracker.get(_JOB)
        return self.given_up if episode is None or episode.state != "confirmed" else episode.evidence

    def _over(self, last: HangEvidence) -> HangEvidence:
        """What is known of the collective now that nobody waits."""
        stop, reached = last.stop, self.waits.reached.get(last.stop.group, {})
        through = any(reached.get(rank, -1) >= stop.seq for rank in stop.waiting)
        places = stop.places or list(last.last_seen)
        return msgspec.structs.replace(last, stop=msgspec.structs.replace(stop, unended=not through, places=places))

    def _follow_movement(self, stop: Stop | None, longest: float) -> bool:
        """Whether one of the missing moves, and has not done so for too long. The others may wait for it: that they
        stand still meanwhile says nothing of them."""
        moves = stop is not None and stop.moves() and longest < MOVES_S
        where = (stop.group, stop.seq) if stop is not None else None
        if moves:
            self.moved_s, self.moved_in = longest, where
            if longest >= LATEST_HANG_S:
                self.usual_from = self.last_step + 2
            for place in stop.places if stop is not None else ():
                place.moved = place.moved or None
        # Of those who wait in one collective the longest may be the first to go on: that is no other wait.
        elif longest >= MOVES_S or (longest < self.moved_s and where != self.moved_in):
            self.moved_s, self.moved_in = 0.0, None
        return moves

    def _threshold(self, stop: Stop | None) -> float:
        """How long is too long for ``stop``.

        The first step of a job compiles and connects: what is seen in it is no reason to report early. Nor is one look
        after a rank has moved: the next comes within ``usual``.
        """
        config = self.config
        most = max(LATEST_HANG_S, MARGIN * self.longest_s)
        usual = max(config.least_s, min(config.times * self.longest_s, most))
        if stop is not None and stop.seen() and self.last_step >= 1 and not self.moved_s:
            return min(max(config.seen_share * config.least_s, config.seen_times * self.longest_s), usual)
        return usual

    def _stop(self, place: Place, expected: int) -> Stop:
        """What is known of ``place``."""
        calls = place.calls()
        stop = Stop(
            place.group,
            place.seq,
            place.operation(),
            place.waiting[:MOST_TOLD],
            len(place.waiting),
            len(place.missing),
            place.missing[:MOST_TOLD],
            unknown=place.unknown(),
            last_seq=place.last_seq(),
            calls=calls if len(calls) > 1 else [],
            left=sorted(islice(place.left, MOST_TOLD)),
            leaves=len(place.left),
        )
        self._cross(stop, place, expected)
        self._name_unknown(stop, place, expected)
        accused = stop.accused()
        stop.places = [self.looks[rank] for rank in accused[:MOST_TOLD] if rank in self.looks]
        stop.unlooked = bool(self.looks and stop.missing and not stop.places)
        stop.others_line = self._most_common_line(place, accused if stop.calls else [])
        return stop

    def _name_unknown(self, stop: Stop, place: Place, expected: int) -> None:
        """Who may be the members of the group that were never heard of: those of a group of all ranks are the ranks
        that wait nowhere, if as many are known."""
        if not stop.unknown or stop.calls or stop.across:
            return
        idle = sorted(rank for rank in self.looks if not self.waits.where(rank) and rank not in place.missing)
        if max(place.sizes, default=0) == expected and len(idle) == stop.unknown and not stop.missing:
            stop.missing, stop.misses, stop.unknown = idle[:MOST_TOLD], len(idle), 0
        else:
            stop.perhaps = [self.looks[rank] for rank in idle[:MOST_TOLD]]

    def _most_common_line(self, place: Place, but: list[int]) -> str:
        lines = place.lines - Counter(self.looks[rank].line for rank in but if rank in self.looks)
        del lines[""]
        return max(sorted(lines), key=lines.__getitem__, default="")

    def _cross(self, stop: Stop, place: Place, expected: int) -> None:
        """Note who waits for those in ``place`` elsewhere, if groups are used in different order and none moves."""
        other = None if place.missing else self._waits_across(place) or self._waits_around(expected)
        if other is None:
            return
        across = [rank for rank in other.waiting[:MOST_TOLD] if rank not in place.waits]
        if not any(self.looks[rank].moved for rank in (*across, *stop.waiting) if rank in self.looks):
            stop.across, stop.across_waits = across, len(other.waiting)
            stop.across_in = call_words(other.operation(), other.seq, other.group)

    def _waits_across(self, place: Place) -> Place | None:
        """Where ranks that have not come to ``place`` wait for ranks that wait in it."""
        others = {where for late in place.behind[:MOST_TOLD] for where in self.waits.where(late)}
        for group, seq in sorted(others):
            reached = self.waits.reached.get(group, {})
            if any(reached.get(rank, seq) < seq for rank in place.waiting[:MOST_TOLD]):
                return self.waits.place((group, seq))
        return None

    def _waits_around(self, expected: int) -> Place | None:
        """Another place, if every rank of the job waits and every place lacks a member: then they wait in a circle,
        though nothing tells who the members of a group are before its first collective."""
        return self.waits.second() if self.waits.all_lack(expected) else None

    def state(self) -> dict[str, Any]:
        """The state, with who waits where, in what order that is followed again."""
        return {
            **super().state(),
            "waits": [msgspec.to_builtins(wait) for waits in self.waits.waits.values() for wait in waits.values()],
            "left": [msgspec.to_builtins(wait) for wait in self.waits.left()],
            "reached": self.waits.reached,
            "looks": [msgspec.to_builtins(place) for place in self.looks.values()],
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``state`` described."""
        super().load(data)
        self.waits, self.looks = Waits(), {}
        for group, reached in convert(data["reached"], dict[str, dict[int, int]]).items():
            for rank, seq in reached.items():
                self.waits.reach(rank, group, seq)
        for seen in convert(data["looks"], list[Seen]):
            self.looks[seen.rank] = seen
            self.waits.see(seen.rank, seen.line)
        waits: dict[int, list[Wait]] = {}
        for wait in convert(data["waits"], list[Wait]):
            waits.setdefault(wait.rank, []).append(wait)
        for rank, its in waits.items():
            self.waits.stand(rank, its)
        for wait in convert(data["left"], list[Wait]):
            self.waits.give_up(wait)
