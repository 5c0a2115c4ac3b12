"""What the page holds of one job: its ranks' last steps, phases, windows, findings and balancer.

Rule of this file: pure and bounded. Each attempt of a job has a buffer of its own.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from paceline import events
from paceline.job_life import JobLife, stages_of

from .balance_book import BalanceBook
from .findings_book import FindingsBook
from .step_ring import RANKS_MAX, StepRing

#: Steps the heatmap can look back, and steps the phases are taken over.
STEPS, PHASE_STEPS = 4096, 256
LENGTHS_MAX = 8
#: Windows of a length whose collectives are kept: an hour of those of 10 s, six of those of a minute.
TRAFFIC_WINDOWS = 360
LAYERS = (*events.PHASES, *events.OVERLAYS, events.STEP)
WAITING = "communication"


class JobBuffer:
    """One attempt of one job."""

    def __init__(self, cluster: str, job: str, attempt: int) -> None:
        self.cluster, self.job, self.attempt = cluster, job, attempt
        self.first_step: int | None = None
        self.first_s: float | None = None
        self.last_s: float | None = None
        #: When its newest step began.
        self.stepped_s: float | None = None
        self.described: dict[str, events.JobDescribed] = {}
        self.life = JobLife(attempt)
        self.windows: dict[float, events.JobWindow] = {}
        #: Windows of each length that tell of collectives, the newest last.
        self.traffic: dict[float, deque[events.JobWindow]] = {}
        self.findings = FindingsBook()
        self.balance = BalanceBook()
        self.matrix = StepRing((events.STEP, WAITING), STEPS)
        self.phases = StepRing(LAYERS, PHASE_STEPS)
        self.nodes: dict[int, str] = {}
        self.devices: dict[int, str] = {}
        self.world_sizes: dict[int, int] = {}

    @property
    def ended_s(self) -> float | None:
        """When the last node's part ended; None while any known part runs or ranks are still to describe themselves."""
        parts = [part for teller, part in self.described.items() if teller in self.life.nodes]
        if not parts or sum(len(part.places) for part in parts) < max(part.world_size for part in parts):
            return None
        return self.life.ended_by(self.stepped_s)

    @property
    def exit_status(self) -> int | None:
        """The first exit status that is not 0; 0 where all known are; None where none is known."""
        statuses = [part.exit_status for part in self.described.values() if part.exit_status is not None]
        return next((status for status in statuses if status != 0), 0 if statuses else None)

    @property
    def world_size(self) -> int:
        """Ranks there should be: the largest number anyone named."""
        named = [part.world_size for part in self.described.values()] + list(self.world_sizes.values())
        return max([*named, self.matrix.ranks])

    @property
    def stages(self) -> dict[int, int]:
        """By rank its pipeline stage, where that is known."""
        return stages_of(self.described.values())

    @property
    def cells(self) -> int:
        """Numbers that its steps and phases take, and the times of its balancer."""
        return self.matrix.cells + self.phases.cells + self.balance.cells

    def shrink(self) -> int:
        """Keep half as many steps; how many numbers less that is, 0 where it goes no further."""
        return self.matrix.shrink() + self.phases.shrink() + self.balance.shrink()

    def heard(self, at_s: float) -> None:
        """A message of the job was written at ``at_s``."""
        self.first_s = at_s if self.first_s is None else min(self.first_s, at_s)
        self.last_s = at_s if self.last_s is None else max(self.last_s, at_s)

    def describe(self, event: events.JobDescribed) -> None:
        """Take one node's part of the job."""
        if event.teller not in self.described and len(self.described) >= RANKS_MAX:
            return
        self.described[event.teller] = event
        self.life.update(event)
        for place in event.places:
            if 0 <= place.rank < RANKS_MAX:
                self.nodes[place.rank], self.devices[place.rank] = event.node, place.device

    def window(self, event: events.JobWindow) -> None:
        """Keep the newest window of each length."""
        held = self.windows.get(event.length_s)
        if (held is None and len(self.windows) < LENGTHS_MAX) or (held is not None and event.start_s >= held.start_s):
            self.windows[event.length_s] = event
        if event.collectives and (event.length_s in self.traffic or len(self.traffic) < LENGTHS_MAX):
            held_before = self.traffic.setdefault(event.length_s, deque(maxlen=TRAFFIC_WINDOWS))
            if not held_before or event.start_s > held_before[-1].start_s:
                held_before.append(event)

    def put(self, event: events.StepTimings) -> None:
        """Add a message of wide rows.

        Raises:
            ValueError: a column that numbers or counts holds fractions.
        """
        rank, step = _whole(event.rank), _whole(event.step)
        speakers = event.speakers
        self._place(
            event.node, _whole(speakers.ranks).tolist(), _whole(speakers.world_sizes).tolist(), speakers.devices
        )
        if rank.size == 0:
            return
        told = {name: _floats(column) for name, column in event.phases.items() if name in LAYERS}
        told[events.STEP] = _floats(event.step_s)
        none = np.full(rank.size, np.nan)
        settled = step >= self._settled_from(step)
        for ring, kept in ((self.matrix, step >= 0), (self.phases, settled)):
            values = np.stack([told.get(name, none) for name in ring.layers])
            ring.put(rank[kept], step[kept], values[:, kept])
        start_s = _floats(event.start_s)
        known = np.abs(start_s) <= events.LATEST_S
        self._mark(step[known], start_s[known] + event.t0_s)

    def _mark(self, step: npt.NDArray[np.int64], began_s: npt.NDArray[np.float64]) -> None:
        self.matrix.mark(step, began_s)
        known = began_s[np.isfinite(began_s)]
        if known.size:
            self.stepped_s = max(float(known.max()), self.stepped_s or 0.0)

    def _place(self, node: str, ranks: list[int], world_sizes: list[int], devices: list[str]) -> None:
        for who, world_size, device in zip(ranks, world_sizes, devices, strict=True):
            if 0 <= who < RANKS_MAX:
                self.nodes[who], self.devices[who], self.world_sizes[who] = node, device, world_size

    def _settled_from(self, step: npt.NDArray[np.int64]) -> int:
        """The first step after the warm-up of this attempt, which may go on from a checkpoint at any step."""
        numbers = step[step >= 0]
        if numbers.size:
            first = int(numbers.min())
            self.first_step = first if self.first_step is None else min(first, self.first_step)
        return (self.first_step or 0) + events.WARM_UP_STEPS


def _whole(column: events.Column) -> npt.NDArray[np.int64]:
    if column.type.startswith("f"):
        raise ValueError(f"a column of whole numbers has the type {column.type}")
    return np.frombuffer(column.data, "<" + column.type).astype(np.int64)


def _floats(column: events.Column) -> npt.NDArray[np.float64]:
    return np.frombuffer(column.data, "<" + column.type).astype(np.float64)
