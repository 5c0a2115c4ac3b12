"""Which placement runs next, and which of them are out: successive halving on samples a second.

Rule of this file: pure. Its state is the runs that were told, in order; told the same runs it decides the same, so a
journal of runs is its snapshot.

Successive halving (Jamieson and Talwalkar, 2016; the inner loop of Hyperband): all placements run for a short time,
the best part of them for longer, and so on. Two changes, because times of steps are noisy: nobody is dropped whose
interval reaches that of the last one who stays, and every rung's runs are shuffled, repeat by repeat, so that a drift
of the machine meets all alike.

It assumes of its input: every run bears a place that was asked for, once; another is refused. Estimates are positive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import Random
from typing import Literal

from .estimate import LEAST_BLOCKS, Interval, level, margin, rate, widened

Outcome = Literal["measured", "crashed", "hung", "out_of_memory", "gone"]
#: Runs of one place that may fail.
MOST_TRIES = 2


@dataclass(frozen=True, order=True)
class Place:
    """Where a run belongs: rung, repeat, placement, and the how-manieth try it is."""

    rung: int
    repeat: int
    placement: int
    attempt: int = 0

    @property
    def job(self) -> str:
        """The id of its job."""
        return f"r{self.rung}-n{self.repeat}-p{self.placement}-t{self.attempt}"


@dataclass(frozen=True)
class Run:
    """A run that ended: its blocks' seconds a step, and the samples a step, where it was measured."""

    place: Place
    outcome: Outcome
    blocks_s: tuple[float, ...] = ()
    samples: float | None = None


@dataclass(frozen=True)
class Config:
    """How halving goes; ``costs`` are the placements and what each occupies."""

    costs: Mapping[int, tuple[int, ...]]
    rungs: int
    eta: float
    keep: int
    repeats: int
    seed: int


@dataclass
class _Standing:
    runs: list[tuple[float, ...]] = field(default_factory=list)
    levels: list[float] = field(default_factory=list)
    samples: list[float | None] = field(default_factory=list)
    failed: list[Run] = field(default_factory=list)
    out: str = ""
    rung: int = 0


class Halving:
    """The decision. ``next`` says what to run, ``update`` takes what came of it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._rung = 0
        self._standing = {number: _Standing() for number in config.costs}
        self._told: set[Place] = set()
        self._runs: list[Run] = []
        self._queue = self._order()
        self.done = not config.costs

    @property
    def rung(self) -> int:
        """The rung that runs now, or was the last."""
        return self._rung

    @property
    def alive(self) -> list[int]:
        """Placements that are not out, in their order."""
        return [number for number, standing in self._standing.items() if not standing.out]

    def next(self, running: Sequence[Place] = ()) -> Place | None:
        """What to run next beside those ``running``; None: wait for these, or all is done."""
        if self.done:
            return None
        for place in self._queue:
            if place not in running:
                return place
        return None

    def asks(self, place: Place) -> bool:
        """Whether a run is still wanted; not so where its placement went out while it ran."""
        return place in self._queue

    def update(self, run: Run) -> None:
        """Take in how a run ended.

        Raises:
            ValueError: it was not asked for, or has been told.
        """
        if run.place not in self._queue:
            raise ValueError(f"{run.place.job} was not asked for")
        self._runs.append(run)
        at = self._queue.index(run.place)
        self._queue.remove(run.place)
        standing = self._standing[run.place.placement]
        standing.rung = self._rung
        if run.outcome == "measured" and len(run.blocks_s) >= LEAST_BLOCKS:
            standing.runs.append(run.blocks_s)
            standing.levels.append(level(run.blocks_s))
            standing.samples.append(run.samples)
        else:
            standing.failed.append(run)
            self._failed(run, at)
        self._advance()

    def _failed(self, run: Run, at: int) -> None:
        """Once more; and then out."""
        place = run.place
        if place.attempt + 1 < MOST_TRIES:
            self._queue.insert(at, Place(place.rung, place.repeat, place.placement, place.attempt + 1))
            return
        self._standing[place.placement].out = run.outcome if run.outcome != "measured" else "crashed"
        self._queue = [one for one in self._queue if one.placement != place.placement]

    def _advance(self) -> None:
        """Go on to the next rung, or end, once this one is complete."""
        while not self._queue and not self.done:
            self._cut()
            if self._rung + 1 >= self._config.rungs or len(self.alive) <= self._config.keep:
                self.done = True
                return
            self._rung += 1
            self._queue = self._order()

    def _order(self) -> list[Place]:
        """The runs of this rung: repeat by repeat, each in an order of its own."""
        out = []
        for repeat in range(self._config.repeats):
            order = self.alive
            Random(f"{self._config.seed} {self._rung} {repeat}").shuffle(order)
            out += [Place(self._rung, repeat, number) for number in order]
        return out

    def _cut(self) -> None:
        """Drop whose interval lies all below that of the last one who stays."""
        ranking = self.ranking()
        stay = max(self._config.keep, ceil(len(ranking) / self._config.eta))
        if stay >= len(ranking):
            return
        bar = ranking[stay - 1][1]
        for number, interval in ranking[stay:]:
            if interval.high < bar.low:
                self._standing[number].out = "slower"

    def ranking(self) -> list[tuple[int, Interval]]:
        """Placements that are not out, fastest first; of equals the one that occupies less."""
        told = [(number, self.estimate(number)) for number in self.alive]
        known = [(number, interval) for number, interval in told if interval is not None]
        return sorted(known, key=lambda one: (-one[1].value, self._config.costs[one[0]], one[0]))

    def estimate(self, number: int) -> Interval | None:
        """Samples a second of a placement by all of its runs; steps a second where samples are not known of all."""
        standing = self._standing[number]
        samples = [one for one in standing.samples if one is not None]
        each = samples[-1] if samples and self.counts_samples else 1.0
        interval = rate(standing.runs, each, self._config.seed)
        if interval is None:
            return None
        return widened(interval, margin([one.levels for one in self._standing.values()], len(standing.runs)))

    @property
    def counts_samples(self) -> bool:
        """Whether every measured run told its samples a step."""
        return all(one is not None for standing in self._standing.values() for one in standing.samples)

    def out(self, number: int) -> str:
        """Why a placement is out: ``slower``, or how its last run ended; "" where it is not."""
        return self._standing[number].out

    def failures(self, number: int) -> list[Run]:
        """The runs of a placement that were not measured."""
        return list(self._standing[number].failed)

    def reached(self, number: int) -> int:
        """The last rung on which a placement ran."""
        return self._standing[number].rung

    def winners(self) -> list[int]:
        """The fastest, with all that cannot be told from it; the one that occupies least comes first."""
        ranking = self.ranking()
        ties = [number for number, interval in ranking if interval.overlaps(ranking[0][1])]
        return sorted(ties, key=lambda number: (self._config.costs[number], ties.index(number)))

    def snapshot(self) -> list[Run]:
        """All that was told, in order."""
        return list(self._runs)

    @classmethod
    def restore(cls, config: Config, runs: Sequence[Run]) -> "Halving":
        """The decision as it was after ``runs``.

        Raises:
            ValueError: they are not of this config.
        """
        made = cls(config)
        for run in runs:
            made.update(run)
        return made
