"""What the page holds of one job: its ranks' last steps, phases, windows, findings and balancer.

Rule of this file: pure and bounded. Each attempt of a job has a buffer of its own.
"""

import math
from collections import deque
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from paceline import events
from paceline.events.silence import LAUNCH_SILENT_S
from paceline.events.windows import is_newer
from paceline.held_bytes import HeldBytes, size_of
from paceline.job_life import BEYOND_S, JobLife, stages_of

from .balance_book import BalanceBook
from .findings_book import FindingsBook
from .step_ring import RANKS_MAX, STEP_MAX, StepRing

#: Steps the heatmap can look back, and steps the phases are taken over.
STEPS, PHASE_STEPS = 4096, 256
LENGTHS_MAX = 8
#: Windows of a length whose collectives are kept: an hour of those of 10 s, six of those of a minute.
TRAFFIC_WINDOWS = 360
#: Bytes of what its nodes say of it (16,384 of 8 ranks), of the names of ranks' nodes and devices, and of windows.
DESCRIBED_BYTES, NAME_BYTES, WINDOW_BYTES = 64 * 2**20, 16 * 2**20, 16 * 2**20
#: Bytes that each of these, and its findings, may keep where all jobs take too much.
KEPT_BYTES = 2**20
#: Bytes that count as one number of a step do; counted in whole pieces, so that not each message is something new.
_CELL_BYTES, _PIECE = 4, 2**16
LAYERS = (*events.PHASES, *events.OVERLAYS, events.STEP)
WAITING = "communication"


class JobBuffer:
    """One attempt of one job."""

    def __init__(self, cluster: str, job: str, attempt: int, earlier_findings: Iterable[str] = ()) -> None:
        self.cluster, self.job, self.attempt = cluster, job, attempt
        self.first_s: float | None = None
        self.last_s: float | None = None
        self.described: dict[str, events.JobDescribed] = {}
        self.life = JobLife(attempt)
        self.windows: dict[float, events.JobWindow] = {}
        #: Windows of each length that tell of collectives, the newest last.
        self.traffic: dict[float, deque[events.JobWindow]] = {}
        self.findings = FindingsBook(earlier_findings)
        self.balance = BalanceBook()
        self._begin_steps()
        #: Who described the run that goes on, and when it began; None where that is to be looked up again.
        self._run: tuple[set[str], float] | None = None
        self.nodes: dict[int, str] = {}
        self.devices: dict[int, str] = {}
        self.world_sizes: dict[int, int] = {}
        self._part_bytes = HeldBytes[str](DESCRIBED_BYTES)
        self._name_bytes = HeldBytes[int](NAME_BYTES)
        self._window_bytes = HeldBytes[float](WINDOW_BYTES)
        self._traffic_bytes = HeldBytes[tuple[float, float]](WINDOW_BYTES)

    def _begin_steps(self) -> None:
        self.first_step: int | None = None
        self.matrix = StepRing((events.STEP, WAITING), STEPS)
        self.phases = StepRing(LAYERS, PHASE_STEPS)

    @property
    def ended_s(self) -> float | None:
        """When the last node's part ended; None while any known part runs or ranks are still to describe themselves."""
        parts = [part for teller, part in self.described.items() if teller in self.life.nodes]
        if not parts or sum(len(part.places) for part in parts) < max(part.world_size for part in parts):
            return None
        return self.life.ended_by(self.matrix.began_s)

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
        """Numbers that its steps and phases take, and the times of its balancer; and words as so many numbers."""
        words = self.bytes // _PIECE * (_PIECE // _CELL_BYTES)
        return self.matrix.cells + self.phases.cells + self.balance.cells + words

    @property
    def bytes(self) -> int:
        """What takes no numbers: what nodes said, names, windows and findings."""
        held = (self._part_bytes, self._name_bytes, self._window_bytes, self._traffic_bytes, self.findings)
        return self.life.held_bytes + sum(one.bytes for one in held)

    def shrink(self) -> int:
        """Keep half as many steps and words; how many numbers less that is, 0 where it goes no further."""
        before = self.cells
        self.matrix.shrink()
        self.phases.shrink()
        self.balance.shrink()
        self._forget_parts(self._part_bytes.shrink(_half(self._part_bytes.bytes)))
        self._forget_names(self._name_bytes.shrink(_half(self._name_bytes.bytes)))
        self._forget_windows(self._window_bytes.shrink(_half(self._window_bytes.bytes)))
        self._forget_traffic(self._traffic_bytes.shrink(_half(self._traffic_bytes.bytes)))
        self.findings.shrink(_half(self.findings.bytes))
        return before - self.cells

    def heard(self, at_s: float) -> None:
        """A message of the job was written at ``at_s``."""
        self.first_s = at_s if self.first_s is None else min(self.first_s, at_s)
        self.last_s = at_s if self.last_s is None else max(self.last_s, at_s)

    def describe(self, event: events.JobDescribed) -> None:
        """Take one node's part of the job."""
        if event.teller not in self.described and len(self.described) >= RANKS_MAX:
            return
        self.described[event.teller] = event
        self._forget_parts(self._part_bytes.note(event.teller, size_of(event)))
        self.life.update(event)
        self._run = None
        for place in event.places:
            if 0 <= place.rank < RANKS_MAX:
                self._name(place.rank, event.node, place.device)

    def window(self, event: events.JobWindow) -> None:
        """Keep the newest window of each length, which after a clock was set back is one of later steps."""
        held = self.windows.get(event.length_s)
        if (held is None and len(self.windows) < LENGTHS_MAX) or (held is not None and is_newer(event, held)):
            self.windows[event.length_s] = event
            self._forget_windows(self._window_bytes.note(event.length_s, size_of(event)))
        if event.collectives and (event.length_s in self.traffic or len(self.traffic) < LENGTHS_MAX):
            self._keep_traffic(self.traffic.setdefault(event.length_s, deque()), event)

    def _keep_traffic(self, held: deque[events.JobWindow], event: events.JobWindow) -> None:
        if held and event.start_s <= held[-1].start_s and event.last_step <= held[-1].last_step:
            return
        while held and event.start_s <= held[-1].start_s:  # Their clock was ahead.
            self._traffic_bytes.forget((event.length_s, held.pop().start_s))
        held.append(event)
        self._forget_traffic(self._traffic_bytes.note((event.length_s, event.start_s), size_of(event)))
        if len(held) > TRAFFIC_WINDOWS:
            first = held[0].length_s, held[0].start_s
            self._traffic_bytes.forget(first)
            self._forget_traffic([first])

    def put(self, event: events.StepTimings) -> None:
        """Add a message of wide rows; a run before is passed over, and the next one begins the steps again.

        Raises:
            ValueError: a column that numbers or counts holds fractions.
        """
        rank, step = _whole(event.rank), _whole(event.step)
        start_s = _floats(event.start_s)
        began_s = np.where(np.abs(start_s) <= events.LATEST_S, start_s + event.t0_s, np.nan)
        own = ~(began_s + BEYOND_S < self._run_began_s(event.producer))
        if rank.size and not own.any():
            return
        speakers = event.speakers
        self._place(
            event.node, _whole(speakers.ranks).tolist(), _whole(speakers.world_sizes).tolist(), speakers.devices
        )
        if rank.size == 0:
            return
        if self._is_of_next_run(step[own], began_s[own]):
            self._begin_steps()
        told = {name: _floats(column) for name, column in event.phases.items() if name in LAYERS}
        told[events.STEP] = _floats(event.step_s)
        none = np.full(rank.size, np.nan)
        settled = own & (step >= self._settled_from(step[own]))
        for ring, kept in ((self.matrix, own & (step >= 0)), (self.phases, settled)):
            values = np.stack([told.get(name, none) for name in ring.layers])
            ring.put(rank[kept], step[kept], values[:, kept])
        known = own & np.isfinite(began_s)
        self.matrix.mark(step[known], began_s[known])

    def _run_began_s(self, producer: str) -> float:
        """When the run began that goes on; of its own steps, whose ``producer`` described it, any time is right."""
        if self._run is None:
            begun_s = self.life.begun_s
            producers = {part.producer for part in self.described.values()}
            self._run = producers, -math.inf if begun_s is None else begun_s
        producers, began_s = self._run
        return -math.inf if producer in producers else began_s

    def _is_of_next_run(self, step: npt.NDArray[np.int64], began_s: npt.NDArray[np.float64]) -> bool:
        """Whether steps are counted from the beginning after a silence: the run before was killed without a goodbye."""
        known = (step >= 0) & (step <= STEP_MAX) & np.isfinite(began_s)
        if not known.any() or step[known].min() > self.matrix.oldest or step[known].max() >= self.matrix.newest:
            return False
        last_s = self.matrix.began_s
        return last_s is not None and bool(began_s[known].min() > last_s + LAUNCH_SILENT_S)

    def _place(self, node: str, ranks: list[int], world_sizes: list[int], devices: list[str]) -> None:
        for who, world_size, device in zip(ranks, world_sizes, devices, strict=True):
            if 0 <= who < RANKS_MAX:
                self._name(who, node, device)
                self.world_sizes[who] = world_size

    def _name(self, rank: int, node: str, device: str) -> None:
        if self.nodes.get(rank) != node or self.devices.get(rank) != device:
            self.nodes[rank], self.devices[rank] = node, device
            self._forget_names(self._name_bytes.note(rank, size_of(node) + size_of(device)))

    def _forget_parts(self, tellers: Iterable[str]) -> None:
        for teller in tellers:
            del self.described[teller]

    def _forget_names(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            del self.nodes[rank], self.devices[rank]

    def _forget_windows(self, lengths: Iterable[float]) -> None:
        for length_s in lengths:
            del self.windows[length_s]

    def _forget_traffic(self, windows: Iterable[tuple[float, float]]) -> None:
        """Of a length the windows that came first go first."""
        for length_s, _ in windows:
            self.traffic[length_s].popleft()
            if not self.traffic[length_s]:
                del self.traffic[length_s]

    def _settled_from(self, step: npt.NDArray[np.int64]) -> int:
        """The first step after the warm-up of this attempt, which may go on from a checkpoint at any step."""
        numbers = step[step >= 0]
        if numbers.size:
            first = int(numbers.min())
            self.first_step = first if self.first_step is None else min(first, self.first_step)
        return (self.first_step or 0) + events.WARM_UP_STEPS


def _half(size: int) -> int:
    return max(size // 2, KEPT_BYTES)


def _whole(column: events.Column) -> npt.NDArray[np.int64]:
    if column.type.startswith("f"):
        raise ValueError(f"a column of whole numbers has the type {column.type}")
    return np.frombuffer(column.data, "<" + column.type).astype(np.int64)


def _floats(column: events.Column) -> npt.NDArray[np.float64]:
    return np.frombuffer(column.data, "<" + column.type).astype(np.float64)
