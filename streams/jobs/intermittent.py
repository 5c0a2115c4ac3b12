"""Ranks that are slow now and then: stalls too far apart for single ticks to show, each of which all others wait for.

Rule of this file: it makes long ticks of many and hands them to the straggler verdict; what is late is decided there. A
rank that stalls in one step of eight is late in a third of the ticks, which is noise to a look over ten of them; of
ticks ten times as long it is late in every one. A long tick holds nothing of a rank for which the verdict on single
ticks, or one on its node, speaks: one trouble is one finding.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..robust import Array
from ..stored import Kept, Stored
from .cohorts import Cohorts
from .rank_conditions import RankConditions
from .straggler import Straggler
from .straggler_config import StragglerConfig, of_long_ticks
from .straggler_evidence import StragglerEpisode
from .ticks import ARRAYS, Tick

#: Ticks of a long one.
TOGETHER = 10


class LongTicks(Stored):
    """Means of ``TOGETHER`` ticks, each weighed by its steps."""

    ticks: Kept[int]
    first_step: Kept[int]
    steps: Kept[int]
    span_s: Kept[float]
    lasted_s: Kept[float]
    sums: Kept[dict[str, Array]]
    counts: Kept[Array]

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.ticks, self.first_step, self.steps = 0, -1, 0
        self.span_s = self.lasted_s = 0.0
        #: By what it is the sum of, steps times ranks; and of how many steps each rank was heard.
        self.sums = {}
        self.counts = np.zeros(0)

    def add(self, tick: Tick) -> Tick | None:
        """Add one; the long tick, if this ends one."""
        if not self.ticks:
            self.first_step = tick.first_step
        ranks = tick.own.size
        heard = ~np.isnan(tick.own)
        self.counts = np.pad(self.counts, (0, max(0, ranks - self.counts.size)))
        self.counts[:ranks] += heard * tick.steps
        for name in ARRAYS:
            more = getattr(tick, name)
            if more.shape[-1] != ranks:
                continue  # Not known of any rank.
            held = self.sums.get(name)
            if held is None:
                held = np.zeros((*more.shape[:-1], self.counts.size))
            elif held.shape[-1] < self.counts.size:
                held = np.pad(held, [*[(0, 0)] * (held.ndim - 1), (0, self.counts.size - held.shape[-1])])
            held[..., :ranks] += np.where(heard, more, 0.0) * tick.steps
            self.sums[name] = held
        self.ticks += 1
        self.steps += tick.steps
        self.span_s += tick.span_s
        self.lasted_s += tick.lasted_s
        return self._end(tick) if self.ticks >= TOGETHER else None

    def _end(self, newest: Tick) -> Tick:
        # As in a tick: the mean of a rank that was heard in less than half of the steps is of other steps.
        steps = np.where(2 * self.counts >= self.steps, np.maximum(self.counts, 1.0), np.nan)
        means: dict[str, Any] = {name: held / steps for name, held in self.sums.items()}
        long = newest._replace(
            first_step=self.first_step,
            steps=self.steps,
            span_s=self.span_s,
            each=self.lasted_s / self.span_s if self.span_s > 0.0 else 1.0,
            **means,
        )
        self._begin()
        return long


class SlowNowAndThen(NamedTuple):
    """An episode with something new to tell; ``replaced``: another verdict speaks for its rank from now on."""

    episode: StragglerEpisode
    replaced: bool = False


class Intermittent(Stored):
    """Episodes of ranks that are slow now and then."""

    long: Kept[LongTicks]
    straggler: Kept[Straggler]
    spoken_for: Kept[set[int]]

    def __init__(self, config: StragglerConfig, cohorts: Cohorts, conditions: RankConditions) -> None:
        self.long = LongTicks()
        self.straggler = Straggler(of_long_ticks(config), cohorts, conditions)
        #: Ranks for which another verdict spoke since the newest long tick began.
        self.spoken_for = set()

    def update(
        self, tick: Tick, spoken_for: Iterable[int], has_loader: bool, *, wary: bool = False
    ) -> Iterator[SlowNowAndThen]:
        """Take in a tick; the episodes that have something new to tell.

        Args:
            spoken_for: ranks that other verdicts speak for.
        """
        self.spoken_for.update(spoken_for)
        long = self.long.add(tick)
        if long is None:
            return
        others, self.spoken_for = self.spoken_for, set()
        yield from (SlowNowAndThen(one, replaced=True) for one in self.straggler.end(sorted(others)))
        self.straggler.push(long._replace(own=_without(long.own, others)))
        yield from map(SlowNowAndThen, self.straggler.judge(has_loader, wary=wary, passed_over=others.__contains__))

    def conclude(self) -> Iterator[SlowNowAndThen]:
        """What is new of the episodes that last, now that nothing follows."""
        yield from map(SlowNowAndThen, self.straggler.conclude())

    def accused(self) -> set[int]:
        """The ranks that are slow now and then, or were a short time ago."""
        return self.straggler.accused()


def _without(own: Array, ranks: Iterable[int]) -> Array:
    """``own``, not known of ``ranks``."""
    some = [rank for rank in ranks if rank < own.size]
    if not some:
        return own
    own = own.copy()
    own[some] = np.nan
    return own
