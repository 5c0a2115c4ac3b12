"""Is a rank late, and has it been for long enough: the statistics of the straggler verdict.

Rule of this file: pure arithmetic over a history of ticks; no names, no causes, no states.

A rank is late over n ticks when the median of its excess over the peers is at least ``least`` and stands
``sigmas + sqrt(2 ln ranks)`` spreads out of what its peers and its own jitter explain, when it was late in nearly all
of the ticks (one slow step is noise), and when its peers really waited for it (a rank that nobody waits for holds
nobody back).

The excess is judged as a whole and in its quieter parts (input, garbage collection, time outside any phase): a stall of
the input shows far more clearly in time spent on input than in the whole, where the noise of the computing drowns it.
Time without a processor is judged apart, by a larger bar, because on shared cores neighbours come and go; and so is
the work without it, in which a rank that computes longer shows where waiting for processors makes the whole a lottery.
Of a pipeline also what a rank does not share with the other stages of its pipeline is judged: long sequences slow all
of them.

A rank whose device or node is known to be in trouble, and those of its peers are not, needs no such bar: what is
known of it speaks for itself, and the times only have to agree.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import OP_INDEX

from ..robust import MAD_SIGMA, Array, known_or_zero, nanmedian, newest_run, peers_median, peers_spread
from .straggler_config import StragglerConfig
from .ticks import Tick

Flags = NDArray[np.bool_]

#: Ticks of history that every look has at hand.
KEPT_TICKS = 40
#: A median's standard error over a mean's, and allowance for ticks that are not independent of each other.
_MEDIAN_ERROR = 1.2533
_DEPENDENCE = 1.5
#: Weight of the newest tick in how contended the processors are.
_NEWEST = 0.2
_CPU_WAIT = OP_INDEX["cpu_wait"]
#: Quiet parts differ less between healthy ranks than whole steps do: no device is faster at them than another.
_QUIET_FLOOR = 0.5
#: The ninth decile of normal noise, in standard deviations.
_NORMAL_90 = 1.2816


class LateRanks(NamedTuple):
    """What one look over n ticks says: which ranks are late, by how many times the bar, and by what share of the step.

    ``part`` is the row of ``JUDGED`` in which a rank's lateness shows: 0 where the whole work does, the quiet part that
    stands out where it does not, and ``EXPLAINED`` where only what is known of its device or node speaks.
    """

    late: Flags
    margin: Array
    part: NDArray[np.int64]
    excess: Array

    def of(self, rank: int, config: StragglerConfig, explained: Callable[[int], bool]) -> tuple[float, int]:
        """Margin and part of one rank, whether it is ``explained`` asked again."""
        margin, part = float(self.margin[rank]), int(self.part[rank])
        by_bar = float(np.nan_to_num(self.excess[rank] / config.least_excess))
        if by_bar >= 1.0 and margin < by_bar and explained(rank):
            return by_bar, part if margin >= 1.0 else EXPLAINED
        return margin, part


#: In place of a row of ``JUDGED``.
EXPLAINED = -1


#: Parts of the excess that are judged on their own, and the parts of a tick that they sum.
QUIET: dict[str, tuple[str, ...]] = {"input": ("data", "prepare"), "gc": ("gc",), "outside": ("other",)}
#: What is judged, and what is only remembered.
JUDGED = ("work", *QUIET, "starved", "unshared", "served")
COLUMNS = (*JUDGED, "waited", "own", "peers", "host_bound")
_AT = {name: index for index, name in enumerate(COLUMNS)}
#: Those that hold all phases, the noisy ones with them.
_WHOLE = ("work", "unshared", "served")


class TickHistory:
    """The last ticks of every rank: shares of the step, shape (len(COLUMNS), ticks, ranks), newest last.

    Single precision: shares of a step need no more, and snapshots of ten thousand ranks stay small.
    """

    def __init__(self) -> None:
        self.table = np.empty((len(COLUMNS), 0, 0), dtype=np.float32)
        self.first_steps: list[int] = []
        self.last_steps: list[int] = []
        #: Seconds of each that were told, and that it stands for.
        self.spans: list[float] = []
        self.lasted: list[float] = []
        #: Whether ranks wait for each other, as far as is known: who is late must have been waited for. Where all
        #: waiting is measured that is asked from the start, and of ranks that never wait nobody is late.
        self.communicates = False
        #: The typical rank's share of time without a processor, of late.
        self.contended = 0.0
        #: The typical step without an excess, of late: what is steady is measured by no single tick.
        self.base_s = 0.0
        #: What was worked out of the ticks as they are: asked for rank by rank it is the same.
        self._steadiness: dict[int, float] = {}
        self._medians: dict[tuple[str, int], Array] = {}
        self._over: Flags | None = None

    def push(self, tick: Tick) -> None:
        """Append a tick; the oldest falls out."""
        self._forget()
        base_s = float(known_or_zero(nanmedian(tick.base)))
        self.base_s += (_NEWEST if self.base_s else 1.0) * (base_s - self.base_s)
        starved = np.maximum(tick.part_ratio("cpu_wait"), 0.0)
        rows = {
            "work": tick.excess - starved,
            "starved": starved,
            **{name: np.sum([tick.part_ratio(part) for part in parts], axis=0) for name, parts in QUIET.items()},
            "unshared": tick.unshared if tick.unshared.size else np.zeros_like(starved),
            "served": tick.served / max(self.base_s, 1e-9) if tick.served.size else np.zeros_like(starved),
            "waited": tick.waited / tick.base,
            "own": tick.own,
            "peers": tick.peers,
            "host_bound": tick.host_bound_ratio(),
        }
        newest = np.array([rows[name] for name in COLUMNS], dtype=np.float32)[:, None, :]
        more = newest.shape[2] - self.table.shape[2]
        if more > 0:
            self.table = np.pad(self.table, ((0, 0), (0, 0), (0, more)), constant_values=np.nan)
        self.table = np.concatenate([self.table, newest], axis=1)[:, -KEPT_TICKS:]
        self.first_steps = [*self.first_steps, tick.first_step][-KEPT_TICKS:]
        self.last_steps = [*self.last_steps, tick.last_step][-KEPT_TICKS:]
        self.spans = [*self.spans, tick.span_s][-KEPT_TICKS:]
        self.lasted = [*self.lasted, tick.lasted_s][-KEPT_TICKS:]
        self.communicates = self.communicates or tick.waits_measured or bool(np.nansum(tick.wait) > 0.0)
        if tick.seconds.shape[1]:
            share = float(known_or_zero(nanmedian(tick.seconds[_CPU_WAIT] / tick.total)))
            self.contended += _NEWEST * (share - self.contended)

    def median(self, name: str, ticks: int) -> Array:
        """Each rank's median of a column over the newest ``ticks`` ticks."""
        if (name, ticks) not in self._medians:
            self._medians[name, ticks] = nanmedian(self.table[_AT[name], -ticks:], axis=0)
        return self._medians[name, ticks]

    def _forget(self) -> None:
        self._steadiness.clear()
        self._medians.clear()
        self._over = None

    def near(self, ticks: int, config: StragglerConfig) -> Flags:
        """Which ranks may be at a bar over the newest ``ticks`` ticks: shape (len(JUDGED) + 1, ranks), the last row by
        the whole excess. A median is at the bar only if half of what is known is; cheaper than the median.
        """
        if self._over is None:
            whole = self.table[_AT["work"]] + self.table[_AT["starved"]]
            bars = np.append(_least(config, self.contended), config.least_excess)
            self._over = ~(np.concatenate([self.table[: len(JUDGED)], whole[None]]) < bars[:, None, None])
        over = self._over[:, -ticks:]
        return np.asarray(2 * over.sum(axis=1, dtype=np.uint8) >= over.shape[1])

    def steadiness(self, at: int) -> float:
        """How much the typical rank varies from tick to tick over the whole history, in row ``at`` of ``JUDGED``."""
        if at not in self._steadiness:
            column = self.table[at]
            self._steadiness[at] = max(float(nanmedian(_jitter(column))), _tail(column))
        return self._steadiness[at]

    def onset(self, rank: int, ticks: int) -> int:
        """First step of the lateness that reaches to now, where it most likely began: over half of today's excess."""
        excess = np.array([self.excess(rank, back) for back in range(1, len(self.first_steps) + 1)])
        return self.first_steps[-newest_run(excess, float(nanmedian(excess[:ticks])) / 2)]

    def excess(self, rank: int, back: int) -> float:
        """The whole excess of ``rank`` as a share of the step, ``back`` ticks ago (1 is the newest)."""
        return float(self.table[_AT["work"], -back, rank] + self.table[_AT["starved"], -back, rank])

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "table": self.table,
            "first_steps": self.first_steps,
            "last_steps": self.last_steps,
            "spans": self.spans,
            "lasted": self.lasted,
            "communicates": self.communicates,
            "contended": self.contended,
            "base_s": self.base_s,
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self._forget()
        self.table, self.spans, self.lasted = data["table"], data["spans"], data["lasted"]
        self.first_steps, self.last_steps = data["first_steps"], data["last_steps"]
        self.communicates, self.contended = data["communicates"], data["contended"]
        self.base_s = data["base_s"]


def late_ranks(
    history: TickHistory, ticks: int, config: StragglerConfig, explained: Callable[[int], bool] | None = None
) -> LateRanks:
    """Judge every rank over the last ``ticks`` ticks.

    Args:
        explained: whether the device or the node of a rank is in trouble that its peers do not have.
    """
    judged = history.table[: len(JUDGED), -ticks:]
    ranks = judged.shape[2]
    nobody = LateRanks(np.zeros(ranks, dtype=bool), np.zeros(ranks), np.zeros(ranks, dtype=np.int64), np.zeros(ranks))
    if len(history.first_steps) < ticks:
        return nobody
    near = history.near(ticks, config)[:-1].any(axis=1)
    if not near.any():
        return nobody
    least = _least(config, history.contended)
    median = np.full((len(JUDGED), ranks), np.nan, dtype=judged.dtype)
    median[near] = nanmedian(judged[near], axis=1)
    if not (median >= least[:, None]).any():
        return nobody  # nobody is near any bar: the common case, and a cheap one
    excess = nanmedian(judged[_AT["work"]] + judged[_AT["starved"]], axis=0)
    margins = _margins(history, judged, median, excess, config)
    margin, part = margins.max(axis=0), np.where(margins[0] >= 1.0, 0, margins.argmax(axis=0))
    if explained is not None:
        by_bar = np.nan_to_num(excess / config.least_excess)
        for rank in np.flatnonzero((by_bar >= 1.0) & (margin < by_bar)).tolist():
            if explained(rank):
                part[rank] = part[rank] if margin[rank] >= 1.0 else EXPLAINED
                margin[rank] = by_bar[rank]
    late = margin >= 1.0
    if history.communicates:
        late &= history.median("waited", ticks) >= config.waited_share * excess
    if 2 * int(late.sum()) > max(2, int((~np.isnan(excess)).sum())):
        return nobody  # most of the job cannot be late behind itself: there is no healthy cohort to compare with
    return LateRanks(late, margin, part, excess)


def _margins(history: TickHistory, judged: Array, median: Array, excess: Array, config: StragglerConfig) -> Array:
    """How many times over its bar each rank is, for each of ``JUDGED``: shape (len(JUDGED), ranks)."""
    least = _least(config, history.contended)
    margins = np.zeros(median.shape)
    for at in np.flatnonzero((median >= least[:, None]).any(axis=1)).tolist():
        bar = _bar(judged[at], median[at], history.steadiness(at), (least[at], _floor(JUDGED[at], config)), config)
        margins[at] = _margin(judged[at], median[at], bar, config)
        if at:
            # A part counts only where it lengthens the whole: a rank that is slower here and faster there is not late.
            margins[at] *= excess >= config.borne_share * median[at]
    return np.nan_to_num(margins)  # Times may differ by more than single precision holds.


def _floor(name: str, config: StragglerConfig) -> float:
    return config.floor if name in _WHOLE else _QUIET_FLOOR * config.floor


def calm(history: TickHistory, ticks: int, config: StragglerConfig, ranks: list[int]) -> list[bool]:
    """Which of ``ranks`` are back among their peers: under half of every bar, over the last ``ticks`` ticks."""
    median = nanmedian(history.table[: len(JUDGED), -ticks:, ranks], axis=1)
    quiet: Flags = np.asarray((median < _least(config, history.contended)[:, None] / 2).all(axis=0))
    return [bool(one) for one in quiet]


def _least(config: StragglerConfig, contended: float) -> Array:
    """The least excess worth a word, for each of ``JUDGED``."""
    starved = min(config.least_cpu_wait, config.least_excess + config.cpu_wait_slope * contended)
    return np.array([starved if name == "starved" else config.least_excess for name in JUDGED])


def _bar(excess: Array, median: Array, steadiness: float, least: tuple[float, float], config: StragglerConfig) -> Array:
    """What each rank's median excess has to reach.

    Args:
        excess: what is judged, shape (ticks, ranks), NaN where not heard.
        median: its median, shape (ranks,).
        steadiness: the typical rank's, over the whole history: a handful of ticks may look steady by chance, so a rank
            counts as no steadier than that.
        least: the least excess worth a word, and the least spread between healthy ranks.
    """
    # Ranks may be numbered with gaps.
    ticks, ranks = len(excess), int((~np.isnan(median)).sum())
    error = _DEPENDENCE * _MEDIAN_ERROR * np.fmax(_jitter(excess), steadiness) / np.sqrt(ticks)
    spread = np.sqrt(np.maximum(peers_spread(median), least[1]) ** 2 + error**2)
    return np.asarray(np.maximum(least[0], (config.sigmas + np.sqrt(2 * np.log(max(ranks, 2)))) * spread))


def _margin(excess: Array, median: Array, bar: Array, config: StragglerConfig) -> Array:
    """How many times over its bar each rank's median excess is; 0 where it was not late in nearly all ticks."""
    share = config.late_share if len(excess) <= config.confirm_ticks else config.late_share_longer
    often = (excess > bar / 2).mean(axis=0) >= share
    standing = median - np.fmax(peers_median(median), 0.0)
    return np.where(often, standing / bar, 0.0)


def _tail(history: Array) -> float:
    """The upper tail of the typical rank's excess, as the standard deviation that normal noise would have with it.

    Work that is cut unevenly falls hard on one rank and then on another: it is far more one-sided than its median
    deviation tells.
    """
    ticks = history.shape[0]
    ordered = np.sort(history, axis=0)  # NaN comes last
    at = min(int(0.9 * ticks), ticks - 1)
    upper = ordered[at] - ordered[ticks // 2]
    heard = upper[~np.isnan(upper)]
    return float(nanmedian(heard)) / _NORMAL_90 if heard.size else 0.0


def _jitter(excess: Array) -> Array:
    """Each rank's robust standard deviation from tick to tick."""
    return MAD_SIGMA * nanmedian(np.abs(excess - nanmedian(excess, axis=0)), axis=0)
