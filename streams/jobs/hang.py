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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from paceline.accused_units import MISSING
from paceline.decoders import convert
from paceline.events import RANK_LIMIT, WARM_UP_STEPS, OpenCollective, RankLook
from paceline.words import seconds

from ..episodes.finding import Blocked, Said, Subject, number
from ..episodes.lifecycle import Signal
from ..episodes.tracker import Episode, Measured, Policy, Tracker
from ..ingest.collective_batch import CollectiveBatch
from ..stored import Kept, Stored
from .first_death import Blockage
from .waits import Place, Wait, Waits, Where

#: Ranks told by number in a finding; of more, only the first.
MOST_TOLD = 64
_SHOWN = 8
#: A missing rank that still moves holds the finding back for so long, in seconds: PyTorch's own limit by default.
MOVES_S = 600.0
#: However long waits are usual, a hang is reported after so long, in seconds, and confirmed at twice that: before NCCL
#: ends the job, after 600 s by default. Only where a usual wait is nearly as long, after ``MARGIN`` times that.
LATEST_HANG_S, MARGIN = 240.0, 1.5
#: Changes of whom and what a hang names that are reported one by one in each state; a further one is reported once the
#: wait has grown by this factor. In a job of thousands of nodes each message may change it.
MOST_NEWS, NEWS_GROWTH = 3, 1.25
#: What a rank does now, and what it did when it was last seen, in words.
_DOING = {
    "moving": ("it is working", "it was working"),
    "evaluating": ("it is running a model", "it was running a model"),
    "compiling": ("it is compiling", "it was compiling"),
    "loading": ("its data loader is working", "its data loader was working"),
    "computing": ("it is computing", "it was computing"),
    "waiting": ("it is waiting there", "it was waiting there"),
    "waiting_for_loader": ("it is waiting for its data loader", "it was waiting for its data loader"),
    "in_kernel": ("it is blocked in the kernel", "it was blocked in the kernel"),
    "not_answering": (
        "its Python does not run: native code holds the interpreter's lock",
        "its Python did not run: native code held the interpreter's lock",
    ),
    "stopped": (
        "its process is stopped (SIGSTOP or a debugger)",
        "its process was stopped (SIGSTOP or a debugger)",
    ),
    "gone": ("its process is gone", "its process was gone"),
}
_UNSEEN = ("", "")
#: What `py-spy dump` needs beside the process: a loader's workers are others; pausing one that is in the kernel hangs;
#: what native code does is not in Python's frames.
_DUMP = {"waiting_for_loader": "--subprocesses ", "in_kernel": "--nonblocking ", "not_answering": "--native "}
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


class Seen(msgspec.Struct):
    """Where the code of a rank is, and what it does there."""

    rank: int
    doing: str
    moved: bool | None
    line: str
    pid: int
    #: The line at which its data loader's worker stands, or why that is not known.
    worker_line: str = ""
    worker_unseen: str = ""


class Stop(msgspec.Struct):
    """A collective that somebody is missing from, or that ranks call in different ways."""

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
    #: Where those accused are, as far as they were looked at, and the line at which most of the others wait.
    places: list[Seen] = []
    others_line: str = ""
    #: The calls that differ under this number, each as words and its ranks, most ranks first; empty where they agree.
    calls: list[tuple[str, list[int]]] = []
    #: Where the others wait for ranks that wait here, because groups are used in different order: the first of them,
    #: how many they are, and their collective.
    across: list[int] = []
    across_waits: int = 0
    across_in: str = ""
    #: Ranks that may be the members never heard of; and whether others were looked at, but none of those missing.
    perhaps: list[Seen] = []
    unlooked: bool = False
    #: Ranks that called it and wait there no longer: the first of them, and how many they are.
    left: list[int] = []
    leaves: int = 0
    #: It is over, and none of those who waited is known to have been through it: they gave up, or were not heard.
    unended: bool = False

    def where(self) -> str:
        """The collective in words."""
        return f"{self.operation} number {self.seq} of group {self.group}"

    def accused(self) -> list[int]:
        """The ranks to name: those missing, or the few that call something else."""
        if self.calls:
            first, *others = (ranks for _, ranks in self.calls)
            odd = sorted(rank for ranks in others for rank in ranks)
            return odd if len(odd) < len(first) else []
        return self.missing

    def moves(self) -> bool:
        """Whether any of those accused, or that may be missing, has got further since the look before."""
        return any(place.moved for place in (*self.places, *self.perhaps))

    def seen(self) -> bool:
        """Whether it is known why nobody gets further: all the missing stand still, calls differ, or groups cross."""
        still = [place for place in self.places if place.moved is False]
        missing = bool(self.missing) and not self.unknown
        return bool(self.calls or self.across) or (missing and len(still) == len(self.missing))


class HangEvidence(Measured, frozen=True, kw_only=True):
    """How long the longest waiter has waited, the longest wait that is usual, and the collective to name.

    ``name``: the collective named when the hang began; the one to name may change while it lasts, the finding's id not.
    """

    name: str
    waited_s: float
    usual_s: float
    stop: Stop
    #: Where those accused were when last seen in this collective: who goes on is looked at no longer.
    last_seen: tuple[Seen, ...] = ()


class Reported(msgspec.Struct):
    """What was last reported: the collective, after how long a wait, and how many changes since the state changed."""

    stop: Stop
    waited_s: float
    changes: int = 0

    def is_due(self, now: Stop, waited_s: float) -> bool:
        """Whether ``now``, after ``waited_s``, is to be reported for what it names."""
        room = self.changes < MOST_NEWS or waited_s >= NEWS_GROWTH * self.waited_s
        return room and _news(self.stop, now)


HangEpisode = Episode[str, HangEvidence]


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
                last_seen=tuple(stop.places) or _last_seen(last, stop),
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
            stop.across_in = _collective(other.operation(), other.seq, other.group)

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


def _last_seen(before: HangEvidence | None, now: Stop) -> tuple[Seen, ...]:
    """Where those who are accused ``now`` were when last seen, if that was in the same collective."""
    if before is None or (before.stop.group, before.stop.seq) != (now.group, now.seq):
        return ()
    accused = set(now.accused())
    return tuple(place for place in before.last_seen if place.rank in accused)


def _news(before: Stop, now: Stop) -> bool:
    """Whether ``now`` names other ranks, a line that was not known before, or shows the first movement."""
    if before.accused() != now.accused() or (now.moves() and not before.moves()):
        return True
    known = {place.rank: place for place in before.places}
    for place in now.places:
        then = known.get(place.rank)
        if (place.line and not (then and then.line)) or (place.worker_line and not (then and then.worker_line)):
            return True
    return False


def said(episode: HangEpisode, nodes: Mapping[int, str], *, ended: bool = False) -> Said:
    """What is said of a job that has stopped. ``nodes``: where each rank runs. ``ended``: its processes are gone."""
    seen, stop = episode.measured, episode.measured.stop
    collective = _collective(stop.operation, stop.seq, stop.group)
    longest = "longest so far; beside it the longest that is usual"
    evidence = [
        number("waited", seen.waited_s, "s", seen.usual_s, longest),
        number("waiting", stop.waits, "ranks", None, f"blocked in {stop.where()}"),
    ]
    if stop.missing:
        evidence.append(number("missing_reached", stop.last_seq, "number", stop.seq, "last collective of the missing"))
    accused = stop.accused()
    if not stop.calls and stop.misses > len(stop.missing):
        rule = f"have not called it; the finding names {len(stop.missing)} of them"
        evidence.append(number(MISSING, stop.misses, "ranks", None, rule))
    blocked = _blocked(stop, nodes, ended=ended or episode.state == "recovered")
    waiting = f"{_ranks(stop.waiting, stop.waits)} blocked in {collective} for {_long(seen.waited_s)}"
    reason = _reason(stop)
    works = stop.moves() and seen.waited_s < MOVES_S
    advice = "That is no hang while it goes on." if works else _advice(stop, blocked)
    summary = f"{waiting}; {reason}. {'The job has ended. ' if ended else ''}{advice}"
    # Who still waited when it went on is chance: the last to come back.
    now = "no rank waits there any longer, and none is known to have got through" if stop.unended else "now it goes on"
    over = f"The job was blocked in {collective} for {_long(seen.waited_s)}{_awaited(stop, blocked)}; {now}."
    on = tuple(sorted({nodes[rank] for rank in accused if rank in nodes}))
    subject = Subject("hang", seen.name, ranks=tuple(accused), group=stop.group, nodes=on)
    return Said(subject, evidence, summary, over=over, blocked=blocked)


def behind_deaths(seen: HangEvidence, nodes: Mapping[int, str]) -> Blockage:
    """What is said of ``seen`` where its ranks have ended since."""
    stop = seen.stop
    blocked = _blocked(stop, nodes, ended=True)
    words = f"the job had hung in {_collective(stop.operation, stop.seq, stop.group)}: {_reason(stop)}"
    next_ = f"look at {blocked.line}" if blocked.line else _COMPARE
    return Blockage(words, blocked.line, next_, tuple(stop.accused()))


def _long(waited_s: float) -> str:
    return f"{waited_s:.0f} s" if waited_s < 119.5 else seconds(waited_s)


def _collective(operation: str, seq: int, group: str) -> str:
    return f"{operation} #{seq} (group {group})"


def _awaited(stop: Stop, blocked: Blocked) -> str:
    """For whom the job waited, and where these were and what they did there, as far as it was seen."""
    if not stop.missing:
        return ""
    at = f" at {blocked.line}" if blocked.line else ""
    seen = _seen_best(stop)
    did = _did(seen) if seen is not None else ""
    if seen is not None and did:
        did = f": {did}" if stop.misses == 1 else f" (rank {seen.rank}: {did})"
    return f", waiting for {plain_ranks(stop.missing, stop.misses)}{at}{did}"


def _reason(stop: Stop) -> str:
    """Why nobody gets further, as far as it is seen."""
    if stop.calls:
        calls = [f"{plain_ranks(ranks, len(ranks))} called {call}" for call, ranks in stop.calls[:_SHOWN]]
        return f"calls differ: {', '.join(calls)}{_place(stop)}"
    if stop.missing:
        place = _place(stop)
        verb = "has" if stop.misses == 1 else "have"
        return f"{plain_ranks(stop.missing, stop.misses)} {verb} not called it{place}"
    if stop.across:
        verb = "waits" if stop.across_waits == 1 else "wait"
        others = plain_ranks(stop.across, stop.across_waits)
        return f"{others} {verb} in {stop.across_in} for these: two groups are used in different order"
    if stop.unknown:
        members = "1 member of the group has" if stop.unknown == 1 else f"{stop.unknown} members of the group have"
        works = next((place for place in stop.perhaps if place.moved), None)
        may = f"; rank {works.rank} may be one: {_what(works)}" if works else ""
        return f"{members} never reported{may}"
    if stop.left:
        verb = "waits" if stop.leaves == 1 else "wait"
        return f"{plain_ranks(stop.left, stop.leaves)} called it and no longer {verb} in it"
    return "every member of the group waits in it or in another collective"


def _place(stop: Stop) -> str:
    """The line of the first of the missing whose line is known, and what it does there."""
    if not stop.places:
        return ": no looks arrive from there, so what is done there is not known" if stop.unlooked else ""
    seen = _seen_best(stop)
    words = _what(seen) if seen is not None else ""
    return f": {words}" if words else ""


def _seen_best(stop: Stop) -> Seen | None:
    """The first of the missing whose line is known, else the first that was looked at."""
    return next((one for one in stop.places if one.line), next(iter(stop.places), None))


def _did(place: Seen) -> str:
    """What a rank did when it was last seen.

    >>> _did(Seen(2, "stopped", False, "train.py:12", 4711))
    'its process was stopped (SIGSTOP or a debugger)'
    """
    return _DOING.get(place.doing, _UNSEEN)[1]


def _what(place: Seen) -> str:
    """Where a rank is, and what it does there."""
    words = [place.line, _DOING.get(place.doing, _UNSEEN)[0]]
    if place.worker_line:
        words.append(f"whose worker is at {place.worker_line}")
    elif place.worker_unseen:
        words.append(f"whose worker's line is not known: {place.worker_unseen}")
    return ", ".join(filter(None, words))


_COMPARE = "compare the order, operations and sizes of the calls on these ranks; check the network"


def _advice(stop: Stop, blocked: Blocked) -> str:
    if blocked.next:
        return f"Next: {blocked.next}."
    if stop.unknown and not (stop.calls or stop.across):
        return "Check that they have started."
    return f"Next: {_COMPARE}."


def _blocked(stop: Stop, nodes: Mapping[int, str], *, ended: bool) -> Blocked:
    place = _seen_best(stop)
    next_ = ""
    if stop.missing and not stop.calls:
        rank = place.rank if place is not None else stop.missing[0]
        on = f"on {f'node {nodes[rank]}' if rank in nodes else 'its node'}"
        next_ = _command_next_time(rank, place, on) if ended else f"{_command(rank, place)} {on}"
    accused = set(stop.accused())
    return Blocked(
        line=place.line if place is not None else "",
        others_line=stop.others_line,
        victims=tuple(rank for rank in sorted((*stop.waiting, *stop.across)) if rank not in accused),
        seq=stop.seq,
        operation=stop.operation,
        next=next_,
        worker_line=place.worker_line if place is not None else "",
    )


def _command(rank: int, place: Seen | None) -> str:
    if place is None or not place.pid:
        return f"py-spy dump of rank {rank}"
    if place.doing == "stopped":
        return f"kill -CONT {place.pid}"
    return f"py-spy dump {_DUMP.get(place.doing, '')}--pid {place.pid}"


def _command_next_time(rank: int, place: Seen | None, on: str) -> str:
    """What to do where the processes of this run are gone."""
    if place is not None and place.doing == "stopped":
        return f"find out what stopped the process of rank {rank} {on}"
    options = "" if place is None else _DUMP.get(place.doing, "")
    return f"if it hangs again, py-spy dump {options}of rank {rank} {on} before you end it"


def _ranks(ranks: list[int], count: int) -> str:
    """The subject of a sentence and its verb.

    >>> _ranks([0, 1, 3], 3), _ranks([2], 1)
    ('Ranks 0, 1 and 3 have been', 'Rank 2 has been')
    """
    plain = plain_ranks(ranks, count)
    return f"{plain[0].upper()}{plain[1:]} {'has' if count == 1 else 'have'} been"


def plain_ranks(ranks: Sequence[int], count: int) -> str:
    """``count`` ranks in words, of which ``ranks`` are the first.

    >>> plain_ranks([2], 1), plain_ranks([0, 1], 2), plain_ranks(list(range(20)), 20)
    ('rank 2', 'ranks 0 and 1', 'ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more')
    """
    shown = [str(rank) for rank in ranks[:_SHOWN]]
    more = f"{count - len(shown)} more" if count > len(shown) else shown.pop() if len(shown) > 1 else ""
    return f"rank{'' if count == 1 else 's'} {', '.join(shown)}" + (f" and {more}" if more else "")
