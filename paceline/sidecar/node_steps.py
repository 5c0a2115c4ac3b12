"""What the ranks of one job told on this node, until the next messages take it along.

Rule of this file: pure. Rows that cannot travel are dropped and counted, never guessed. A step's collectives are summed
once every rank that is here has closed a step after it: then nothing of them is to come, for one that nobody waits for
is closed when the step after its own ends.
"""

import math
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from paceline.events import OpenCollective, RankCondition, RankEnd, RankLook
from paceline.sidecar.call_columns import CallColumns
from paceline.sidecar.collective_columns import collective_columns
from paceline.sidecar.collective_sums import HeldCollectives
from paceline.sidecar.columns import travels
from paceline.sidecar.condition_columns import condition_columns
from paceline.sidecar.link_columns import Links
from paceline.sidecar.progress import Progress
from paceline.sidecar.rank_rows import CollectiveRow, StepRow
from paceline.sidecar.step_columns import StepColumns

#: Conditions kept for the next message: a rank's, once a second, while nothing else is sent.
MOST_CONDITIONS = 512
#: Ranks that stand in a collective, and are told in one message.
MOST_OPEN = 256
#: A rank that has closed nothing for so many looks, of a second each, while others went on, is not waited for.
LOOKS_WAITED = 10


class NodeSteps:
    """The steps, collectives, links and conditions of a job's ranks."""

    def __init__(self, *, phases: bool = False) -> None:
        #: Whether any step has been told: else collectives are told one by one, and carry the verdict.
        self.phases = phases
        self.steps = StepColumns()
        self.calls = CallColumns()
        self.links = Links()
        self.conditions: list[RankCondition] = []
        self.open: list[OpenCollective] = []
        self.open_s: float | None = None
        self.looks: list[RankLook] = []
        self.ends: list[RankEnd] = []
        self._held = HeldCollectives()
        self._progress = Progress()
        #: The latest step that each rank has closed, and that any had at each of the last looks.
        self._closed: dict[int, int] = {}
        self._looks: deque[int] = deque(maxlen=LOOKS_WAITED)

    def append_step(self, rank: int, row: StepRow) -> bool:
        """A step that ``rank`` has closed; whether it can travel."""
        if not self.steps.append(rank, row):
            return False
        self._closed[rank] = row.step
        return True

    def append_collective(self, rank: int, row: CollectiveRow, *, one_by_one: bool) -> bool:
        """A collective of ``rank`` that has ended; whether it can travel."""
        if not travels(row):
            return False
        self._progress.update(rank, row)
        if one_by_one:
            self.calls.append(rank, row)
        if not self.phases and self._held.full():
            self._held = HeldCollectives()  # No step is ever closed here, and the first that is begins late enough.
        return row.step < 0 or self._held.append(rank, row)

    def append_again(self, rank: int, row: CollectiveRow) -> None:
        """A collective of ``rank`` that a sidecar before us told one by one, but died before it was summed."""
        if travels(row) and row.step >= 0:
            self._held.append(rank, row)

    def held_from(self) -> float:
        """The first step whose collectives are not summed yet."""
        return self._held.first() if self.phases else math.inf

    def observe(self, conditions: Sequence[RankCondition]) -> None:
        """What the node did to the ranks meanwhile."""
        self.conditions = [*self.conditions, *conditions][-MOST_CONDITIONS:]

    def leave(self, rank: int) -> None:
        """``rank`` has gone: nobody waits for it."""
        self._closed.pop(rank, None)

    def look(self) -> None:
        """About a second has passed."""
        self._looks.append(max(self._closed.values(), default=-1))

    def complete_before(self, alive: Collection[int]) -> float:
        """The first step that may still have collectives to come, of the ranks ``alive``."""
        closed = min((self._closed.get(rank, -1) for rank in alive), default=-1)
        return max(closed, self._looks[0]) if len(self._looks) == LOOKS_WAITED else closed

    def crowded(self) -> bool:
        """Whether the next row belongs into another message."""
        return self.steps.full() or (self.phases and self._held.full())

    def due(self, complete_before: float, *, ended: bool) -> bool:
        """Whether there is something to send: rows, sums, who stands in a collective, links that nothing else brings,
        how ranks ended, or a job's last word."""
        if self.open_s is not None or self.ends:
            return True
        if not self.phases:
            return bool(self.links)
        return bool(self.steps) or self._held.due(complete_before) or (ended and bool(self._progress.spans))

    def take(self, complete_before: float, began_s: float) -> tuple[set[int], dict[str, Any]]:
        """One message's ranks and fields. ``began_s`` is its time where nothing in it has one."""
        steps, self.steps = self.steps, StepColumns()
        progress, self._progress = self._progress, Progress()
        conditions, self.conditions = self.conditions, []
        sums = self._held.take(complete_before)
        times = [steps.first_s(), progress.first_s() if self.phases else None, self.open_s]
        times.append(conditions[0].time_s if conditions else None)
        times.append(self.ends[0].time_s if self.ends else None)
        t0_s = float(math.floor(next((time_s for time_s in times if time_s is not None), began_s)))
        fields = {
            "t0_s": t0_s,
            **steps.fields(t0_s),
            "conditions": condition_columns(conditions, t0_s),
            "collectives": collective_columns(sums, progress, t0_s) if self.phases else None,
            "links": self.links.take(),
            "open": self.open[:MOST_OPEN],
            "now_s": self.open_s,
            "looks": self.looks[:MOST_OPEN],
            "ends": self.ends[:MOST_OPEN],
        }
        self.ends = self.ends[MOST_OPEN:]
        self.open, self.open_s, self.looks = [], None, []
        return steps.ranks() | set(progress.spans), fields
