"""Is a rank late, and has it been for long enough: the statistics of the straggler verdict.

Rule of this file: pure arithmetic over a ring of ticks; no names, no causes, no states.

A rank is late over n ticks when the median of its excess over the peers is at least ``least`` and stands
``sigmas + sqrt(2 ln ranks)`` spreads out of what its peers and its own jitter explain, when it was late in nearly all
of the ticks (one slow step is noise), and when its peers really waited for it (a rank that nobody waits for holds
nobody back).

The excess is judged as a whole and in its quieter parts (input, garbage collection, time outside any phase): a stall of
the input shows far more clearly in time spent on input than in the whole, where the noise of the computing drowns it.
Time without a processor is judged apart, by a larger bar, because on shared cores neighbours come and go.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cohort import MAD_SIGMA, Array, nanmedian, peers_median, peers_spread
from .config import RING, Config
from .ticks import Tick

Flags = NDArray[np.bool_]

#: A median's standard error over a mean's, and allowance for ticks that are not independent of each other.
_MEDIAN_ERROR = 1.2533
_DEPENDENCE = 1.5


class Look(NamedTuple):
    """What one look over n ticks says: which ranks are late, and by how many times the bar."""

    late: Flags
    margin: Array


class Ring:
    """The last ticks of every rank: shares of the step, shape (RING, ranks), newest last."""

    COLUMNS = ("work", "input", "gc", "outside", "starved", "waited", "own", "peers")
    #: Parts of the excess that are judged on their own, and what they sum.
    QUIET: ClassVar[dict[str, tuple[str, ...]]] = {
        "input": ("data", "prepare"),
        "gc": ("gc",),
        "outside": ("other",),
    }

    def __init__(self) -> None:
        self.columns = {name: np.empty((0, 0), dtype=np.float32) for name in self.COLUMNS}
        self.first_steps: list[int] = []
        self.last_steps: list[int] = []
        self.spans: list[float] = []
        self.communicates = False

    def push(self, tick: Tick) -> None:
        """Append a tick; the oldest falls out."""
        starved = np.maximum(tick.part_ratio("cpu_wait"), 0.0)
        rows = {
            "work": tick.excess - starved,
            "starved": starved,
            **{name: np.sum([tick.part_ratio(part) for part in parts], axis=0) for name, parts in self.QUIET.items()},
            "waited": tick.waited / tick.base,
            "own": tick.own,
            "peers": tick.peers,
        }
        for name, row in rows.items():
            old = self.columns[name]
            if row.size > old.shape[1]:
                old = np.pad(old, ((0, 0), (0, row.size - old.shape[1])), constant_values=np.nan)
            # Single precision: shares of a step need no more, and snapshots of ten thousand ranks stay small.
            self.columns[name] = np.vstack([old, np.asarray(row, dtype=np.float32)])[-RING:]
        self.first_steps = [*self.first_steps, tick.first_step][-RING:]
        self.last_steps = [*self.last_steps, tick.last_step][-RING:]
        self.spans = [*self.spans, tick.span_s][-RING:]
        self.communicates = self.communicates or bool(np.nansum(tick.wait) > 0.0)

    def last(self, name: str, ticks: int) -> Array:
        """The newest ``ticks`` rows of a column."""
        return self.columns[name][-ticks:]

    def onset(self, rank: int, ticks: int) -> int:
        """First step of the run of ticks that reaches to now, at half of today's excess or more."""
        bar = float(np.nanmedian([self.excess(rank, back) for back in range(1, ticks + 1)])) / 2
        run = ticks
        while run > 1 and not self.excess(rank, run) > bar:
            run -= 1
        while run < len(self.first_steps) and self.excess(rank, run + 1) > bar:
            run += 1
        return self.first_steps[-run]

    def excess(self, rank: int, back: int) -> float:
        """The whole excess of ``rank`` as a share of the step, ``back`` ticks ago (1 is the newest)."""
        return float(self.columns["work"][-back, rank] + self.columns["starved"][-back, rank])

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        names = ("columns", "first_steps", "last_steps", "spans", "communicates")
        return {name: getattr(self, name) for name in names}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        for name, value in data.items():
            setattr(self, name, value)


def look(ring: Ring, ticks: int, config: Config) -> Look:
    """Judge every rank over the last ``ticks`` ticks."""
    ranks = ring.columns["work"].shape[1]
    if len(ring.first_steps) < ticks:
        return Look(np.zeros(ranks, dtype=bool), np.zeros(ranks))
    margin = _margin(ring.columns["work"], ticks, config.least_excess, config)
    excess = nanmedian(ring.last("work", ticks) + ring.last("starved", ticks), axis=0)
    for name in (*Ring.QUIET, "starved"):
        # A part counts only where it lengthens the whole: a rank that is slower here and faster there is not late.
        least = config.least_cpu_wait if name == "starved" else config.least_excess
        part = _margin(ring.columns[name], ticks, least, config)
        borne = excess >= config.borne_share * nanmedian(ring.last(name, ticks), axis=0)
        margin = np.fmax(margin, np.where(borne, part, 0.0))
    late = margin >= 1.0
    if ring.communicates:
        late &= nanmedian(ring.last("waited", ticks), axis=0) >= config.waited_share * excess
    if 2 * int(late.sum()) > max(2, int((~np.isnan(margin)).sum())):
        late[:] = False  # most of the job cannot be late behind itself: there is no healthy cohort to compare with
    return Look(late, np.nan_to_num(margin))


def calm(ring: Ring, ticks: int, config: Config) -> Flags:
    """Which ranks are back among their peers: under half the bar, over the last ``ticks`` ticks."""
    quiet = nanmedian(ring.last("starved", ticks), axis=0) < config.least_cpu_wait / 2
    for name in ("work", *Ring.QUIET):
        quiet &= nanmedian(ring.last(name, ticks), axis=0) < config.least_excess / 2
    return np.asarray(quiet)


def _margin(history: Array, ticks: int, least: float, config: Config) -> Array:
    """How many times over its bar each rank's median excess is; 0 where it was not late in nearly all ticks.

    Args:
        history: shape (looks, ranks), newest last, NaN where not heard; the last ``ticks`` rows are judged.
    """
    excess = history[-ticks:]
    ranks = excess.shape[1]
    median = nanmedian(excess, axis=0)
    # A handful of ticks may look steady by chance, so a rank counts as no steadier than the typical rank over the
    # whole history is.
    jitter = np.fmax(_jitter(excess), nanmedian(_jitter(history)))
    error = _DEPENDENCE * _MEDIAN_ERROR * jitter / np.sqrt(ticks)
    spread = np.sqrt(peers_spread(median) ** 2 + error**2 + config.floor**2)
    bar = np.maximum(least, (config.sigmas + np.sqrt(2 * np.log(max(ranks, 2)))) * spread)
    often = (np.nan_to_num(excess) > bar / 2).mean(axis=0) >= config.late_share
    standing = median - np.nan_to_num(peers_median(median)).clip(min=0.0)
    return np.where(often, standing / bar, 0.0)


def _jitter(excess: Array) -> Array:
    """Each rank's robust standard deviation from tick to tick."""
    return MAD_SIGMA * nanmedian(np.abs(excess - nanmedian(excess, axis=0)), axis=0)
