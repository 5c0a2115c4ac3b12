"""NCCL's own times of collectives, matched with the ranks and steps of this node.

Rule of this file: pure; times are Unix seconds of the node's clock, except ``now_s``, which is any clock that does not
go back. Whose a collective is, its process's id says, for the rank that NCCL tells counts within one communicator. Its
step is the one in which it began; -1 where that is none, or more than one may be it.

A rank tells a step when it is over, and a collective of it comes before that or after: a call waits until its rank has
told a step that ends later, for ``PATIENCE_S`` at most.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from paceline.nccl_inspector.calls import Call
from paceline.sidecar.rank_rows import CollectiveRow, StepRow

#: After that a call is told without its step.
PATIENCE_S = 30.0
#: Calls of one process that wait; beyond it the oldest are told without their step. The same of its last steps.
MOST_WAITING = 4096
MOST_STEPS = 4096
#: Processes that are known, those that have gone included: the last of their calls are written when they end.
MOST_PROCESSES = 1024

Key = tuple[str, int]


class TimedCall(NamedTuple):
    """A collective by NCCL's own times: of which job and attempt, and of which rank of it."""

    key: Key
    rank: int
    row: CollectiveRow


class _Waiting(NamedTuple):
    call: Call
    since_s: float


class _Process:
    """One rank's process: its last steps, in order, and the calls whose step is not known yet."""

    def __init__(self, key: Key, rank: int) -> None:
        self.key, self.rank = key, rank
        self.starts: list[float] = []
        self.steps: list[StepRow] = []
        self.waiting: deque[_Waiting] = deque()

    def append_steps(self, rows: Iterable[StepRow]) -> None:
        """Steps that are over."""
        for row in rows:
            if self.starts and row.start_s < self.starts[-1]:
                self.starts, self.steps = [], []  # Its clock was put back: what was before cannot be told from it.
            self.starts.append(row.start_s)
            self.steps.append(row)
        del self.starts[:-MOST_STEPS], self.steps[:-MOST_STEPS]

    def reached_s(self) -> float:
        """Until when the steps are known."""
        return self.steps[-1].start_s + self.steps[-1].step_s if self.steps else float("-inf")

    def step_of(self, call: Call) -> int:
        """The step in which ``call`` began."""
        place = bisect_right(self.starts, call.latest_s) - 1
        if place < 0:
            return -1
        step = self.steps[place]
        inside = step.start_s <= call.earliest_s and call.latest_s < step.start_s + step.step_s
        return step.step if inside else -1

    def take(self, now_s: float, *, everything: bool) -> list[TimedCall]:
        """The calls that need not wait any longer."""
        reached_s, late_s = self.reached_s(), now_s - PATIENCE_S
        ready: list[TimedCall] = []
        held: deque[_Waiting] = deque()
        crowded = len(self.waiting) - MOST_WAITING
        for place, one in enumerate(self.waiting):
            if everything or place < crowded or one.call.latest_s < reached_s or one.since_s <= late_s:
                ready.append(TimedCall(self.key, self.rank, _row(one.call, self.step_of(one.call))))
            else:
                held.append(one)
        self.waiting = held
        return ready


class NcclTimes:
    """``join`` when a rank says hello, ``append_steps`` as it tells them, ``append`` for each call; ``take`` what is
    ready."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}

    def join(self, pid: int, key: Key, rank: int) -> None:
        """The process ``pid`` is a rank of the job and attempt ``key``."""
        before = self._processes.pop(pid, None)
        joined = self._processes[pid] = _Process(key, rank)
        if before is not None and (before.key, before.rank) == (key, rank):
            joined.waiting = before.waiting
        if len(self._processes) > MOST_PROCESSES:
            del self._processes[next(iter(self._processes))]

    def pids(self) -> list[int]:
        """The processes that are known, those that joined last at the end."""
        return list(self._processes)

    def append_steps(self, pid: int, rows: Iterable[StepRow]) -> None:
        """Steps that the process ``pid`` has told."""
        process = self._processes.get(pid)
        if process is not None:
            process.append_steps(rows)

    def append(self, call: Call, now_s: float) -> None:
        """A call that was read at ``now_s``; one of a process that is no rank's is nobody's."""
        process = self._processes.get(call.pid)
        if process is not None:
            process.waiting.append(_Waiting(call, now_s))

    def take(self, now_s: float, *, everything: bool = False) -> list[TimedCall]:
        """The calls whose step is known, or for which it is waited no longer."""
        return [one for process in self._processes.values() for one in process.take(now_s, everything=everything)]


def _row(call: Call, step: int) -> CollectiveRow:
    """A kernel stands until the last rank has come, so all of its time is time stood."""
    words = (call.group, call.size, call.operation, call.bytes)
    return CollectiveRow(step, call.seq, *words, call.latest_s, call.duration_s, call.duration_s)
