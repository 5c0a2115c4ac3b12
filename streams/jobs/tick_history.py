"""What is remembered of the last ticks of every rank, and what each look over some of them works out.

Rule of this file: pure arithmetic, in one pass over many ticks at a time; who is late is said in ``lateness``.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from paceline.events import OP_INDEX

from ..robust import Array, known_or_zero, middle, nanmedian, newest_run
from ..stored import Kept, Stored
from . import lateness_bar as bars
from .lateness_bar import JUDGED, QUIET
from .straggler_config import StragglerConfig
from .ticks import PARTS, Tick

Flags = NDArray[np.bool_]

#: Ticks of history that every look has at hand.
KEPT_TICKS = 40
#: Ticks that are judged in one pass, and ticks times ranks: so many that calling costs little, and memory as little.
_MOST_IN_A_PASS, _MOST_CELLS = 64, 4096
#: Weight of the newest tick in how contended the processors are.
_NEWEST = 0.2
_CPU_WAIT = OP_INDEX["cpu_wait"]
#: What is remembered of each tick: what is judged, and what is only looked up.
COLUMNS = (*JUDGED, "waited", "own", "peers", "host_bound")
_AT = {name: index for index, name in enumerate(COLUMNS)}


class _Taken(NamedTuple):
    """What is known of a tick that is not judged yet, beside its columns."""

    tick: Tick
    communicates: bool
    contended: float
    base_s: float


class _Pass(NamedTuple):
    """Consecutive ticks judged in one pass, each with those before it: shape (ticks, ranks) each.

    ``first`` is the number of the first of them; ``reached`` of each whether any rank is at a bar; ``by_bar`` the
    excess by the least that is worth a word. ``waited_for`` says whom the others waited for, as far as that is asked,
    ``asked`` whom what is known of its device or node would make later; half of ``most`` ranks may be late.
    """

    first: int
    reached: Flags
    margin: Array
    part: NDArray[np.int64]
    excess: Array
    by_bar: Array
    waited_for: Flags
    asked: list[list[int]]
    most: list[int]


class TickHistory(Stored):
    """The last ticks of every rank: shares of the step, shape (len(COLUMNS), ticks, ranks), newest last.

    Single precision: shares of a step need no more, and snapshots of ten thousand ranks stay small. Ticks that are
    known together are taken together (``take``) and judged one after the other (``push``): what looks at them share is
    worked out for all of them in one pass, for a pass over eight ranks costs no more than calling it.
    """

    first_steps: Kept[list[int]]
    last_steps: Kept[list[int]]
    spans: Kept[list[float]]
    lasted: Kept[list[float]]
    communicates: Kept[bool]
    contended: Kept[float]
    base_s: Kept[float]

    def __init__(self) -> None:
        #: The columns of all ticks, those that are only taken at the end; and how many are pushed.
        self._columns = np.empty((len(COLUMNS), 0, 0), dtype=np.float32)
        self._pushed = 0
        self._taken: list[_Taken] = []
        self.first_steps = []
        self.last_steps = []
        #: Seconds of each that were told, and that it stands for.
        self.spans = []
        self.lasted = []
        #: Whether ranks wait for each other, as far as is known: who is late must have been waited for. Where all
        #: waiting is measured that is asked from the start, and of ranks that never wait nobody is late.
        self.communicates = False
        #: The typical rank's share of time without a processor, of late.
        self.contended = 0.0
        #: The typical step without an excess, of late: what is steady is measured by no single tick.
        self.base_s = 0.0
        #: What was worked out of the ticks as they are, by how many are looked at: asked for rank by rank it is the
        #: same.
        self._over: NDArray[np.uint8] | None = None
        self._near: dict[int, tuple[int, list[set[int]]]] = {}
        self._passes: dict[int, _Pass] = {}
        self._medians: dict[tuple[str, int], Array] = {}

    @property
    def table(self) -> NDArray[np.float32]:
        """The columns of the ticks that were pushed."""
        return self._columns[:, max(0, self._pushed - KEPT_TICKS) : self._pushed]

    def take(self, ticks: Sequence[Tick]) -> None:
        """Take in ticks of equally many ranks, to be pushed next, one by one."""
        self._columns = self.table
        self._pushed = self._columns.shape[1]
        self._forget()
        base = np.array([tick.base for tick in ticks])
        base_s, contended, communicates = self.base_s, self.contended, self.communicates
        self._taken = []
        for tick, typical, starved in zip(ticks, _known(nanmedian(base, axis=1)), _starved(ticks), strict=True):
            base_s += (_NEWEST if base_s else 1.0) * (typical - base_s)
            contended += _NEWEST * (starved - contended)
            communicates = communicates or tick.waits_measured or bool(np.nansum(tick.wait) > 0.0)
            self._taken.append(_Taken(tick, communicates, contended, base_s))
        newest = _columns(ticks, base, np.array([max(one.base_s, 1e-9) for one in self._taken]))
        more = newest.shape[2] - self._columns.shape[2]
        if more > 0:
            self._columns = np.pad(self._columns, ((0, 0), (0, 0), (0, more)), constant_values=np.nan)
        self._columns = np.concatenate([self._columns, newest], axis=1)
        self._columns.flags.writeable = False  # A snapshot need not copy it: it is most of what a large job holds.

    def push(self, tick: Tick) -> None:
        """Append a tick, the next of those that were taken if there are any; the oldest falls out."""
        if not self._taken:
            self.take([tick])
        _, self.communicates, self.contended, self.base_s = self._taken.pop(0)
        self._pushed += 1
        self.first_steps = [*self.first_steps, tick.first_step][-KEPT_TICKS:]
        self.last_steps = [*self.last_steps, tick.last_step][-KEPT_TICKS:]
        self.spans = [*self.spans, tick.span_s][-KEPT_TICKS:]
        self.lasted = [*self.lasted, tick.lasted_s][-KEPT_TICKS:]
        self._medians.clear()

    def median(self, name: str, ticks: int) -> Array:
        """Each rank's median of a column over the newest ``ticks`` ticks."""
        if (name, ticks) not in self._medians:
            self._medians[name, ticks] = nanmedian(self.table[_AT[name], -ticks:], axis=0)
        return self._medians[name, ticks]

    def _forget(self) -> None:
        self._over = None
        self._near.clear()
        self._passes.clear()
        self._medians.clear()

    def near(self, ticks: int, config: StragglerConfig) -> set[int]:
        """The ranks that may be late over the newest ``ticks`` ticks, by any of ``JUDGED`` or by the whole excess.

        A median is at its bar only if half of what is known is, and counting is cheaper than the median: a healthy job
        goes no further.
        """
        if len(self.first_steps) < ticks:
            return set()
        if ticks not in self._near:
            self._near[ticks] = (self._pushed, self._near_each(ticks, config))
        first, near = self._near[ticks]
        return near[self._pushed - first]

    def _near_each(self, ticks: int, config: StragglerConfig) -> list[set[int]]:
        """The same for the newest tick and each that is only taken."""
        over = self._counted(config)
        counts = over[:, self._pushed :] - over[:, self._pushed - ticks : over.shape[1] - ticks]
        near: list[set[int]] = [set() for _ in range(counts.shape[1])]
        for at, rank in np.argwhere((2 * counts >= ticks).any(axis=0)).tolist():
            near[at].add(rank)
        return near

    def _counted(self, config: StragglerConfig) -> NDArray[np.uint8]:
        """In how many ticks, before each and in all, a rank is at a bar, or unknown: shape (len(JUDGED) + 1, ticks + 1,
        ranks), the last row by the whole excess. The bar is the lowest that any tick has. A byte is enough for what two
        of these differ by, as no look is at more than ``KEPT_TICKS``."""
        if self._over is None:
            least = bars.least(config, min(self._contended()))
            whole = self._columns[_AT["work"]] + self._columns[_AT["starved"]]
            under = np.empty((len(JUDGED) + 1, *whole.shape), dtype=bool)
            np.less(self._columns[: len(JUDGED)], least[:, None, None], out=under[:-1])
            np.less(whole, config.least_excess, out=under[-1])
            self._over = np.zeros((len(under), len(whole) + 1, whole.shape[1]), dtype=np.uint8)
            np.cumsum(~under, axis=1, dtype=np.uint8, out=self._over[:, 1:])
        return self._over

    def _contended(self) -> list[float]:
        """How contended the processors are at the newest tick and at each that is only taken."""
        return [self.contended, *(one.contended for one in self._taken)]

    def judged(self, ticks: int, config: StragglerConfig) -> tuple[_Pass, int]:
        """The pass over ``ticks`` ticks each that has the newest tick in it, and where."""
        made = self._passes.get(ticks)
        at = 0 if made is None else self._pushed - made.first
        if made is None or at >= len(made.reached):
            # Before there are as many ticks as are kept the history is another for each.
            more = max(1, min(_MOST_IN_A_PASS, _MOST_CELLS // self._columns.shape[2])) - 1
            last = min(self._columns.shape[1], self._pushed + (more if self._pushed >= KEPT_TICKS else 0))
            made, at = self._pass(ticks, last, config), 0
            self._passes[ticks] = made
        return made, at

    def _windows(self, ticks: int, last: int) -> Array:
        """For the newest and each later tick until ``last`` the ticks up to it: (len(COLUMNS), those, ranks, ticks)."""
        columns = self._columns[:, self._pushed - ticks : last]
        return sliding_window_view(columns, ticks, axis=1)

    def _pass(self, ticks: int, last: int, config: StragglerConfig) -> _Pass:
        windows = self._windows(ticks, last)
        judged = windows[: len(JUDGED)]
        contended = self._contended()[: judged.shape[1]]
        least = np.stack([bars.least(config, one) for one in contended], axis=1)  # (len(JUDGED), ticks)
        median = np.full(judged.shape[:3], np.nan, dtype=judged.dtype)
        over = self._counted(config)[:-1]
        near = (2 * (over[:, last] - over[:, self._pushed - ticks]) >= ticks).any(axis=1)
        median[near] = nanmedian(judged[near], axis=3)
        reached = np.asarray((median >= least[:, :, None]).any(axis=2))
        excess = nanmedian(judged[_AT["work"]] + judged[_AT["starved"]], axis=2)
        margins = np.zeros(median.shape)
        for at in np.flatnonzero(reached.any(axis=1)).tolist():
            steadiness = bars.steadiness(self._windows(min(self._pushed, KEPT_TICKS), last)[at])
            bar = bars.bar(judged[at], median[at], steadiness, (least[at], bars.floor(JUDGED[at], config)), config)
            margins[at] = bars.margin(judged[at], median[at], bar, config) * reached[at][:, None]
            if at:
                # A part counts only where it lengthens the whole: a rank that is slower here and faster there is not
                # late.
                margins[at] *= excess >= config.borne_share * median[at]
        if not np.isfinite(margins).all():
            margins = np.nan_to_num(margins)  # Times may differ by more than single precision holds.
        margin, by_bar = margins.max(axis=0), np.nan_to_num(excess / config.least_excess)
        waited_for = nanmedian(windows[_AT["waited"]], axis=2) >= config.waited_share * excess
        communicates = [self.communicates, *(one.communicates for one in self._taken)][: len(margin)]
        return _Pass(
            first=self._pushed,
            reached=np.asarray(reached.any(axis=0)),
            margin=margin,
            part=np.where(margins[0] >= 1.0, 0, margins.argmax(axis=0)),
            excess=excess,
            by_bar=by_bar,
            waited_for=waited_for | ~np.array(communicates)[:, None],
            asked=[row.nonzero()[0].tolist() for row in (by_bar >= 1.0) & (margin < by_bar)],
            most=np.maximum((~np.isnan(excess)).sum(axis=1), 2).tolist(),
        )

    def onset(self, rank: int, ticks: int, most: int) -> int:
        """First step of the lateness that reaches to now, where it most likely began: over half of today's excess.

        It is looked for in the newest ``most`` ticks.
        """
        excess = np.array([self.excess(rank, back) for back in range(1, min(len(self.first_steps), most) + 1)])
        return self.first_steps[-newest_run(excess, float(nanmedian(excess[:ticks])) / 2)]

    def typical_excess(self, rank: int, ticks: int) -> float:
        """The median of the whole excess of ``rank`` over the newest ``ticks`` ticks; 0 where nothing is known."""
        newest = self.table[:, -ticks:, rank]
        return middle((newest[_AT["work"]] + newest[_AT["starved"]]).tolist())

    def share_over(self, rank: int, least: float) -> float:
        """The share of the steps of all ticks in which the whole excess of ``rank`` is ``least`` or more."""
        steps = np.array(self.last_steps) - np.array(self.first_steps) + 1
        excess = self.table[_AT["work"], :, rank] + self.table[_AT["starved"], :, rank]
        return float(steps[excess >= least].sum() / max(int(steps.sum()), 1))

    def excess(self, rank: int, back: int) -> float:
        """The whole excess of ``rank`` as a share of the step, ``back`` ticks ago (1 is the newest)."""
        return float(self.table[_AT["work"], -back, rank] + self.table[_AT["starved"], -back, rank])

    def state(self) -> dict[str, Any]:
        """The state, with the ticks that were pushed."""
        return {**super().state(), "table": self.table}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``state`` described."""
        self._forget()
        self._columns = data["table"]
        self._columns.flags.writeable = False
        self._pushed, self._taken = self._columns.shape[1], []
        super().load(data)


def _known(values: Array) -> list[float]:
    return [float(one) for one in known_or_zero(values)]


def _starved(ticks: Sequence[Tick]) -> list[float]:
    """The typical rank's share of each tick without a processor; 0 where that is not told."""
    told = [tick.seconds.shape[1] > 0 for tick in ticks]
    if not all(told):
        return [one for tick in ticks for one in (_starved([tick]) if tick.seconds.shape[1] else [0.0])]
    waits = np.array([tick.seconds[_CPU_WAIT] for tick in ticks]) / np.array([tick.total for tick in ticks])
    return _known(nanmedian(waits, axis=1))


def _columns(ticks: Sequence[Tick], base: Array, base_s: Array) -> NDArray[np.float32]:
    """What is remembered of ticks: shape (len(COLUMNS), ticks, ranks)."""
    parts = np.array([tick.parts for tick in ticks]) / base[:, None]
    starved = np.maximum(parts[:, PARTS.index("cpu_wait")], 0.0)
    nothing = np.zeros(base.shape[1])

    def told(values: Iterable[Array]) -> Array:
        return np.array([one if one.size else nothing for one in values])

    own, peers = np.array([tick.own for tick in ticks]), np.array([tick.peers for tick in ticks])
    rows = {
        "work": (own - peers) / base - starved,
        "starved": starved,
        **{name: parts[:, [PARTS.index(part) for part in some]].sum(axis=1) for name, some in QUIET.items()},
        "unshared": told(tick.unshared for tick in ticks),
        "served": told(tick.served for tick in ticks) / base_s[:, None],
        "waited": np.array([tick.waited for tick in ticks]) / base,
        "own": own,
        "peers": peers,
        "host_bound": np.array([tick.host_bound_ratio() for tick in ticks]),
    }
    return np.array([rows[name] for name in COLUMNS], dtype=np.float32)
