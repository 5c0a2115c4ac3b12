"""Looks: which ranks of this node get no further, when each is asked where it is, and what comes of it.

Rule of this file: it waits for nobody, sends nothing itself, and harms no rank: a look is a question to the rank's own
thread and a read of /proc, never a signal and never a pause. The clock is an argument, and so is what reads /proc.
Nothing happens while ranks move; a job that stands still is looked at twice, and then at growing intervals.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from paceline.events import RankLook
from paceline.sidecar.columns import LONGEST_WORD
from paceline.sidecar.look_verdict import UNSEEN, ProcessLook, Seen, WorkerLine, judge
from paceline.training.look_messages import LONGEST_FRAME, MOST_FRAMES, MOST_OTHERS, Looked

#: A rank that marked nothing for so long is looked at: at least, for so many times the longest gap that ended, at most.
LEAST_S, TIMES, MOST_S = 5.0, 3.0, 10.0
#: The second look comes so long after the first; the intervals double after it, up to the longest.
AGAIN_S, LONGEST_S = 5.0, 20.0
#: How long a rank has to answer: its thread that ships may sleep for a second.
ANSWER_S = 2.5
#: Ranks of one job that are looked at, and stack frames that travel.
MOST_LOOKED, MOST_SENT_FRAMES = 64, 8

Job = tuple[str, int]
Who = tuple[Job, int]
ReadProcess = Callable[[int, int], ProcessLook | None]


class Workers(Protocol):
    """What reads the workers of data loaders; ``pid`` is a rank's process."""

    def ask(self, pid: int) -> WorkerLine:
        """What is known of them; they are read from now on."""

    def forget(self, pid: int) -> None:
        """The rank waits for none."""

    def turn(self, now_s: float) -> None:
        """Go on reading."""


@dataclass
class _Rank:
    pid: int
    moved_s: float
    task: int = 0
    marked: bool = False
    #: Of the look under way: its number, since when, and what the rank answered; and what the look before saw.
    asked: tuple[int, float] | None = None
    answer: Looked | None = None
    before: Seen | None = None


@dataclass
class _Round:
    """The looks at one job since it stood still."""

    next_s: float
    pause_s: float = AGAIN_S
    looks: int = 0


@dataclass
class _Job:
    ranks: dict[int, _Rank] = field(default_factory=dict)
    longest_s: float = 0.0
    round: _Round | None = None


class Looks:
    """The looks at the ranks of one node. ``read`` tells of a process and one of its threads, ``workers`` of the
    workers of a data loader."""

    def __init__(self, read: ReadProcess, workers: Workers) -> None:
        self._read = read
        self._workers = workers
        self._jobs: dict[Job, _Job] = {}
        self._number = 0

    def join(self, who: Who, pid: int, now_s: float) -> None:
        """A rank has joined; ``pid`` is its process as this node numbers it, 0 where it is not visible."""
        job, rank = who
        self._jobs.setdefault(job, _Job()).ranks[rank] = _Rank(pid, now_s)

    def leave(self, who: Who) -> None:
        """A rank has left, or its connection has ended."""
        job = self._jobs.get(who[0])
        if job is not None:
            left = job.ranks.pop(who[1], None)
            if left is not None:
                self._workers.forget(left.pid)
            if not job.ranks:
                del self._jobs[who[0]]

    def mark(self, who: Who, now_s: float) -> None:
        """A rank's probe has written something down: it moves."""
        job = self._jobs.get(who[0])
        rank = job.ranks.get(who[1]) if job is not None else None
        if job is not None and rank is not None:
            job.longest_s = max(job.longest_s, now_s - rank.moved_s)
            rank.moved_s, rank.marked = now_s, True

    def wishes(self, now_s: float) -> Iterator[tuple[Who, int]]:
        """The ranks to be asked now, each with the number of its look."""
        self._workers.turn(now_s)
        for key, job in self._jobs.items():
            still_s = now_s - min(rank.moved_s for rank in job.ranks.values())
            if still_s < max(LEAST_S, min(TIMES * job.longest_s, MOST_S)):
                self._forget(job)
                continue
            job.round = job.round or _Round(now_s)
            if now_s < job.round.next_s:
                continue
            self._number += 1
            self._begin(job, job.round, now_s)
            yield from (((key, number), self._number) for number, rank in job.ranks.items() if rank.asked is not None)

    def _begin(self, job: _Job, round_: _Round, now_s: float) -> None:
        moved = any(rank.marked for rank in job.ranks.values())
        round_.looks += 1
        # While anybody moves, the next look tells whether that goes on.
        round_.pause_s = AGAIN_S if moved or round_.looks < 2 else min(2 * round_.pause_s, LONGEST_S)
        round_.next_s = now_s + round_.pause_s
        for rank in list(job.ranks.values())[:MOST_LOOKED]:
            rank.asked, rank.answer = (self._number, now_s), None

    def _forget(self, job: _Job) -> None:
        if job.round is not None:
            job.round = None
            for rank in job.ranks.values():
                self._workers.forget(rank.pid)
                rank.asked = rank.answer = rank.before = None
        for rank in job.ranks.values():
            rank.marked = False

    def answer(self, who: Who, looked: Looked) -> None:
        """A rank has answered; what answers no question of ours is ignored."""
        job = self._jobs.get(who[0])
        rank = job.ranks.get(who[1]) if job is not None else None
        if rank is not None and rank.asked is not None and rank.asked[0] == looked.number:
            rank.answer, rank.task = looked, looked.task

    def drain(self, now_s: float, unix_s: float) -> dict[Job, list[RankLook]]:
        """What has come of looks that are over: answered, or waited for long enough. A job's looks come together."""
        drained = {}
        for key, job in self._jobs.items():
            asked = {number: rank for number, rank in job.ranks.items() if rank.asked is not None}
            if asked and all(rank.answer or _overdue(rank, now_s) for rank in asked.values()):
                drained[key] = [self._look(number, rank, now_s, unix_s) for number, rank in asked.items()]
        return drained

    def moving(self, key: Job, now_s: float, unix_s: float) -> list[RankLook]:
        """The ranks of a job that nobody has to ask: their probes wrote something down within ``LEAST_S``."""
        job = self._jobs.get(key)
        ranks = list(job.ranks.items())[:MOST_LOOKED] if job is not None else []
        return [
            RankLook(rank=number, time_s=max(unix_s, 0.0), doing="moving", moved=True, pid=rank.pid)
            for number, rank in ranks
            if now_s - rank.moved_s < LEAST_S
        ]

    def _look(self, number: int, rank: _Rank, now_s: float, unix_s: float) -> RankLook:
        answer, before = rank.answer, rank.before
        # Without its number nothing is known of the process, which is no proof that it has gone.
        process = self._read(rank.pid, rank.task) if rank.pid else ProcessLook(UNSEEN)
        seen = Seen(now_s, process, answer is not None, answer.timed if answer else True, rank.marked)
        if answer is not None:
            others = tuple(answer.others[:MOST_OTHERS])
            seen = seen._replace(frames=tuple(answer.frames[:MOST_FRAMES]), line=answer.line, others=others)
        doing, moved = judge(before, seen)
        rank.asked, rank.answer, rank.before, rank.marked = None, None, seen, False
        then = before.process if before is not None else None
        worker = WorkerLine()
        if doing == "waiting_for_loader" and moved is False:
            worker = self._workers.ask(rank.pid)
        else:
            self._workers.forget(rank.pid)
        return RankLook(
            rank=number,
            time_s=max(unix_s, 0.0),
            doing=doing,
            moved=moved,
            line=seen.line[:LONGEST_FRAME],
            frames=[frame[:LONGEST_FRAME] for frame in seen.frames[:MOST_SENT_FRAMES]],
            pid=rank.pid,
            wait_channel=process.channel[:LONGEST_WORD] if process else "",
            span_s=now_s - before.at_s if before is not None else 0.0,
            cpu_s=max(process.cpu_s - then.cpu_s, 0.0) if process and then else 0.0,
            written_bytes=max(process.written_bytes - then.written_bytes, 0) if process and then else 0,
            worker_line=worker.line[:LONGEST_WORD],
            worker_unseen=worker.unseen,
        )


def _overdue(rank: _Rank, now_s: float) -> bool:
    return rank.asked is not None and now_s - rank.asked[1] >= ANSWER_S
