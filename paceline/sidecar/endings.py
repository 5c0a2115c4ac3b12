"""How the ranks of this node end: what each said last, and what the kernel says of its process.

Rule of this file: it waits for nobody. A rank has ended once its connection has and its process has; what the kernel
says is an argument or comes from a reader that is one, and so is the clock. A process that goes on after its goodbye is
asked for again until the sidecar ends; one that goes on though its connection broke has not ended.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paceline.events import LONGEST_MESSAGE, OpenCollective, RankEnd
from paceline.sidecar.columns import LONGEST_WORD
from paceline.sidecar.process_end import (
    KILLED_BY_RAY,
    Exit,
    Handle,
    ends_by_status,
    oom_events,
    oom_kills,
    process_exit,
    process_start,
)
from paceline.training.failure_messages import Failed

#: A connection that broke this long before its process ends was not the end.
BROKEN_S = 5.0
#: Slurm ends a job from so long before its time limit, as this node's clock shows it, until so long after it: it looks
#: once a minute, and waits between SIGTERM and SIGKILL. Later than that the limit was raised meanwhile.
EARLY_S, LATE_S = 5.0, 300.0

Job = tuple[str, int]
Who = tuple[Job, int]


class Kernel(NamedTuple):
    """What reads processes: when one started, how it ended, kills for memory around it, and whether Ray ends it."""

    start: Callable[[int], int | None] = process_start
    exit: Callable[[int, int | None, Handle | None], Exit | None] = process_exit
    oom_file: Callable[[int], Path | None] = oom_events
    oom_kills: Callable[[Path | None], int] = oom_kills
    of_ray: Callable[[int], bool] = ends_by_status


@dataclass
class _Rank:
    pid: int
    started: int | None
    oom_file: Path | None
    oom_kills: int
    handle: Handle | None = None
    of_ray: bool = False
    exit: Exit | None = None
    failed: Failed | None = None
    bye: bool = False
    left_s: float | None = None
    collective: OpenCollective | None = None


def time_limit_s(environ: Mapping[str, str]) -> float | None:
    """When Slurm ends the job of ``environ``, in Unix seconds; None where that is not known.

    >>> time_limit_s({"SLURM_JOB_END_TIME": "1790000000"}), time_limit_s({}), time_limit_s({"SLURM_JOB_END_TIME": "x"})
    (1790000000.0, None, None)
    """
    raw = environ.get("SLURM_JOB_END_TIME", "")
    return (float(raw) or None) if raw.isascii() and raw.isdigit() and len(raw) < 12 else None


class Endings:
    """The ends of the ranks of one node, whose job ends at ``limit_s`` (Unix seconds) where a scheduler says so."""

    def __init__(self, kernel: Kernel | None = None, limit_s: float | None = None) -> None:
        self._kernel = kernel or Kernel()
        self._limit_s = limit_s
        self._ranks: dict[Who, _Rank] = {}

    def join(self, who: Who, pid: int, handle: Handle | None = None) -> None:
        """A rank has joined; ``pid`` is its process as this node numbers it, 0 where it is not visible, and ``handle``
        is of it. Whoever opened that calls ``look`` before closing it."""
        kernel = self._kernel
        file = kernel.oom_file(pid) if pid else None
        started, of_ray = (kernel.start(pid), kernel.of_ray(pid)) if pid else (None, False)
        self._ranks[who] = _Rank(pid, started, file, kernel.oom_kills(file), handle, of_ray)

    def fail(self, who: Who, failed: Failed) -> None:
        """A rank says which exception ends it."""
        if who in self._ranks:
            self._ranks[who].failed = failed

    def look(self, who: Who) -> None:
        """The process of a rank has just ended: its exit status can be read for a moment."""
        rank = self._ranks.get(who)
        if rank is not None and rank.exit is None:
            rank.exit = self._kernel.exit(rank.pid, rank.started, rank.handle)

    def leave(self, who: Who, now_s: float, collective: OpenCollective | None, *, bye: bool) -> None:
        """A rank's goodbye, or the end of its connection, in ``collective``."""
        rank = self._ranks.get(who)
        if rank is not None and rank.left_s is None:
            rank.left_s, rank.bye, rank.collective = now_s, bye, collective
            if rank.pid:
                self.look(who)

    def drain(self, now_s: float, unix_s: float) -> dict[Job, list[RankEnd]]:
        """The ranks that have ended since this was last asked, by job."""
        ended: dict[Job, list[RankEnd]] = {}
        for who, rank in list(self._ranks.items()):
            if rank.left_s is None:
                continue
            if rank.pid:
                self.look(who)
            if rank.pid and rank.exit is None:
                if not rank.bye and now_s - rank.left_s >= BROKEN_S:
                    del self._ranks[who]
                continue
            del self._ranks[who]
            ended.setdefault(who[0], []).append(self._end(who[1], rank, unix_s))
        return ended

    def _end(self, number: int, rank: _Rank, unix_s: float) -> RankEnd:
        status = rank.exit.status if rank.exit is not None else None
        if rank.of_ray and status == KILLED_BY_RAY:
            status = None  # Ray ends workers that have finished in the same way: it says nothing of the training.
        failed, collective = rank.failed, rank.collective
        if failed is not None and failed.handled and status == 0:
            failed = None
        end = RankEnd(
            rank=number,
            time_s=max(unix_s, 0.0),
            how="exit" if rank.bye else "lost",
            status=status if status is None or -64 <= status <= 255 else None,
            pid=rank.pid,
            oom_kills=max(self._kernel.oom_kills(rank.oom_file) - rank.oom_kills, 0),
            group=collective.group if collective else "",
            seq=collective.seq if collective else None,
            operation=collective.operation if collective else "",
            out_of_time=self._limit_s is not None and -EARLY_S <= unix_s - self._limit_s <= LATE_S,
        )
        return end if failed is None else _raised(end, failed)


def _raised(end: RankEnd, failed: Failed) -> RankEnd:
    words = {name: getattr(end, name) for name in end.__struct_fields__}
    # One of another thread, or that the script may have handled, need not have ended the process.
    ended = not (failed.thread or (failed.handled and end.status is None))
    return RankEnd(
        **words
        | {
            "how": "exception" if ended else end.how,
            "time_s": failed.raised_s if ended else end.time_s,
            "error": failed.error[:LONGEST_WORD],
            "message": failed.message[:LONGEST_MESSAGE],
            "first": failed.first[:LONGEST_MESSAGE],
            "line": failed.line[:LONGEST_WORD],
            "thread": failed.thread[:LONGEST_WORD],
        }
    )
