"""Steps to ticks: runs of whole steps long enough for one look.

Rule of this file: pure sums. A tick's borders depend on the steps alone, so any batching makes the same ticks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import OP_INDEX, OPS, OVERLAYS, PHASES

from ..ingest.step_rows import TOTAL
from ..ingest.steps import Step
from ..robust import Array, known_or_zero, nanmedian, peers_median
from ..stored import Kept, Stored
from .cohorts import Cohorts

#: What an excess can consist of: every phase in which a rank works, and the overlays.
WORK = tuple(name for name in PHASES if name != "communication")
PARTS = (*WORK, *OVERLAYS)
_WORK_ROWS = [OP_INDEX[name] for name in WORK]
_PART_ROWS = [OP_INDEX[name] for name in PARTS]
_OVERLAY_ROWS = [OP_INDEX[name] for name in OVERLAYS]
_WAIT, _HOST_BOUND = OP_INDEX["communication"], OP_INDEX["host_bound"]
_CPU_WAIT = OP_INDEX["cpu_wait"]
_STARVED = PARTS.index("cpu_wait")
#: A step whose rows leave more than this share of it open tells of work and transfers, not of the waiting before them.
_OPEN = 0.02
#: Ticks of this length and more are steps of their own, in which a hiccup of the machine weighs little.
LONG_TICK_S = 1.0


class Tick(NamedTuple):
    """One look at all ranks: mean seconds a step. Arrays have shape (ranks,), ``parts`` (len(PARTS), ranks).

    ``own`` is time at work, ``peers`` what the others took, ``wait`` time stood still for others, ``waited`` how much
    longer the peers stood still than this rank, ``base`` the step as it would be without this rank's excess.
    ``parts`` are excesses over the peers, one row a part.
    """

    first_step: int
    last_step: int
    steps: int
    span_s: float
    own: Array
    peers: Array
    base: Array
    wait: Array
    waited: Array
    parts: Array
    #: The excess as a share of ``base`` that the rank does not share with the others of its pipeline; 0 without one.
    unshared: Array = np.empty(0)
    #: The excess, in seconds, of the time at work in which the rank had its processor; empty where only lateness is
    #: known.
    served: Array = np.empty(0)
    #: The whole step, and its mean seconds by op, shape (len(OPS), ranks); empty where only lateness is known.
    total: Array = np.empty(0)
    seconds: Array = np.empty((len(OPS), 0))
    #: So many steps of the job stand behind each that was told: others were left out on purpose.
    each: float = 1.0
    #: Whether all waiting for other ranks is measured: where there is none, ranks do not wait for each other.
    waits_measured: bool = False

    @property
    def lasted_s(self) -> float:
        """The time that it stands for, with the steps that were left out."""
        return self.span_s * self.each

    @property
    def excess(self) -> Array:
        """How many times the step was lengthened by each rank, as a share of the step without it."""
        return (self.own - self.peers) / self.base

    def excess_of(self, rank: int) -> float:
        """``excess`` of one rank."""
        return float((self.own[rank] - self.peers[rank]) / self.base[rank])

    def part_ratio(self, part: str) -> Array:
        """The share of ``base`` that one part's excess takes."""
        return np.asarray(self.parts[PARTS.index(part)] / self.base)

    def host_bound_ratio(self) -> Array:
        """The share of each rank's own time in which its device waited for its host; 0 where that is not told."""
        if not self.seconds.shape[1]:
            return np.zeros_like(self.own)
        return np.asarray(self.seconds[_HOST_BOUND] / np.maximum(self.own, 1e-9))


class _Ended(NamedTuple):
    """The sums of a tick that step number ``at`` of a run ends."""

    at: int
    first_step: int
    steps: int
    left_out: int
    span_s: float
    sums: Array
    counts: Array


#: What a tick says of each rank, with its last axis theirs.
ARRAYS = ("own", "peers", "base", "wait", "waited", "parts", "unshared", "served", "total", "seconds")


class Ticks(Stored):
    """Sums steps until they span ``tick_s``, on the median rank."""

    first_step: Kept[int]
    steps: Kept[int]
    left_out: Kept[int]
    span_s: Kept[float]
    sums: Kept[Array]
    counts: Kept[Array]
    waits_measured: Kept[bool]

    def __init__(self, tick_s: float, cohorts: Cohorts) -> None:
        self.tick_s = tick_s
        self.cohorts = cohorts
        self.first_step = -1
        self.steps = self.left_out = 0
        self.span_s = 0.0
        self.sums = np.zeros((len(OPS), 0))
        self.counts = np.zeros(0)
        self.waits_measured = False

    def update(self, step: Step) -> Tick | None:
        """Add one step; the tick, if this step ends one."""
        return self.run([step])[0]

    def run(self, steps: Sequence[Step]) -> list[Tick | None]:
        """Add steps of equally many ranks; for each the tick, if it ends one."""
        ranks = steps[0].seconds.shape[1]
        if ranks > self.counts.size:
            more = ranks - self.counts.size
            self.sums = np.pad(self.sums, ((0, 0), (0, more)))
            self.counts = np.pad(self.counts, (0, more))
        seconds = np.array([step.seconds for step in steps])
        told = ~np.isnan(seconds[:, TOTAL])
        spans = known_or_zero(nanmedian(seconds[:, TOTAL], axis=1)).tolist()
        seconds = known_or_zero(seconds)
        ended: list[_Ended] = []
        made: list[Tick | None] = [None for _ in steps]
        for at, step in enumerate(steps):
            if self.steps == 0:
                self.first_step = step.step
            self.sums[:, :ranks] += seconds[at]
            self.counts[:ranks] += told[at]
            self.steps += 1
            self.left_out += step.left_out
            self.span_s += spans[at]
            if self.span_s < self.tick_s:
                continue
            ended.append(_Ended(at, self.first_step, self.steps, self.left_out, self.span_s, self.sums, self.counts))
            self.steps, self.left_out, self.span_s = 0, 0, 0.0
            self.sums, self.counts = np.zeros_like(self.sums), np.zeros_like(self.counts)
        for one, tick in zip(ended, self._ticks(ended, steps) if ended else (), strict=True):
            made[one.at] = tick
        return made

    def _ticks(self, ended: list[_Ended], steps: Sequence[Step]) -> list[Tick]:
        # A rank heard in less than half of the steps is not compared: its mean is of other steps than its peers'.
        counts, of = np.array([one.counts for one in ended]), np.array([one.steps for one in ended])[:, None]
        mean = np.array([one.sums for one in ended]) / np.where(counts * 2 >= of, counts, np.nan)[:, None]
        own = mean[:, _WORK_ROWS].sum(axis=1)
        mean[:, _OVERLAY_ROWS] = np.minimum(mean[:, _OVERLAY_ROWS], own[:, None])  # They are inside the work.
        seen = ~np.bool_(self.waits_measured) | (np.nansum(mean[:, _WAIT], axis=1) > 0.0)
        wait = _stood_still(mean, own, seen)
        served = np.maximum(own - mean[:, _CPU_WAIT], 0.0)
        rows = np.concatenate([own[:, None], wait[:, None], served[:, None], mean[:, _PART_ROWS]], axis=1)
        past = self.cohorts.expect(rows)
        usual = self._peers(rows)
        usual = np.where(np.isnan(usual), past, usual)
        peers = usual[:, 0]
        parts = mean[:, _PART_ROWS] - usual[:, 3:]
        parts[:, _STARVED] = self._starvation(own, mean[:, _CPU_WAIT])
        total = mean[:, TOTAL]
        base = np.maximum(total - np.maximum(own - peers, 0.0), 1e-9)
        waited, unshared = self._waited(wait, past[:, 1]), self._unshared(own, peers, base)
        lonely = served - usual[:, 2]
        return [
            Tick(
                first_step=one.first_step,
                last_step=steps[one.at].step,
                steps=one.steps,
                span_s=one.span_s,
                own=own[at],
                peers=peers[at],
                base=base[at],
                wait=wait[at],
                waited=waited[at],
                parts=parts[at],
                unshared=unshared[at],
                served=lonely[at],
                total=total[at],
                seconds=mean[at],
                each=1.0 + one.left_out / one.steps,
                waits_measured=self.waits_measured,
            )
            for at, one in enumerate(ended)
        ]

    def _peers(self, rows: Array) -> Array:
        """For each row of each tick, and each rank, the median of the others of its cohort."""
        return self.cohorts.peers(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape)

    def _unshared(self, own: Array, peers: Array, base: Array) -> Array:
        """The excess without what the same micro-batches cost the other stages more, each in proportion to its work."""
        shared = self.cohorts.shared(own / np.maximum(peers, 1e-9) - 1)
        return known_or_zero((own - peers - shared * peers) / base)

    def _waited(self, wait: Array, past: Array) -> Array:
        """How much longer each rank's peers stood still than it did: for a lone rank, than both used to."""
        lone = ~np.isnan(past)
        if not lone.any():
            return self._peers(wait) - wait
        more = wait - past
        return np.where(lone, peers_median(more) - more, self._peers(wait) - wait)

    def _starvation(self, own: Array, cpu_wait: Array) -> Array:
        """Seconds a step that each rank waited for a processor and that its neighbours, not its own work, caused.

        On shared cores every second of work costs some waiting, and long stretches of work cost more than short ones: a
        rank with more to compute waits more as well, and would stop waiting if it had less to do. So only waiting at a
        worse rate than the peers' counts, and of that only the part that the peers' amount of work would have met. The
        rate of a peer that hardly ever had its processor has no bound: no rank waited less than not at all, and none
        is spared more than its peers' waiting.
        """
        served = np.maximum(own - cpu_wait, 1e-9)
        rate, others_served, others_wait = self._peers(np.stack([cpu_wait / served, served, cpu_wait]))
        met = (cpu_wait - rate * served) * np.minimum(others_served / served, 1.0)
        return known_or_zero(np.clip(met, -others_wait, cpu_wait))


def _stood_still(mean: Array, own: Array, seen: NDArray[np.bool_]) -> Array:
    """Seconds a step that each rank stood still for others: in communication, and, in a table of ops whose transfers
    begin when everybody is there, in what its rows leave open of the step.

    So it is where none of PyTorch's collectives is ``seen`` although they are measured: ranks that exchange by another
    library stand still in what their phases leave open, and ranks that work apart leave open alike.

    Args:
        mean: seconds a step by op, shape (ticks, len(OPS), ranks).
        own: seconds at work, shape (ticks, ranks).
        seen: of each tick.
    """
    wait, rest = mean[:, _WAIT], mean[:, TOTAL] - own
    open_ = np.where((wait > 0) & (rest - wait > _OPEN * mean[:, TOTAL]), rest, wait)
    return np.where(seen[:, None], open_, np.maximum(rest, 0.0))
