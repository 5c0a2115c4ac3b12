"""Two runs compared: how much slower the second is, by phase, since when, and what else is different.

Rule of this file: pure and seeded; it judges by an interval, never by two means. The whole step decides; phases say
where. Runs of other sizes are compared by the sample where both tell their batch, else not at all.
"""

import math
from typing import NamedTuple

import numpy as np

from paceline.events import OVERLAYS, PHASES

from .block_bootstrap import LEAST_VALUES, Series, difference
from .change_points import changes
from .run import (
    Run,
    Stretch,
    clock_series,
    median_series,
    phase_series,
    steps_series,
    work_series,
)
from .run_facts import FactDifference, differences

LEAST_STEPS = 20
#: ``UNSURE``: slower by more than what is allowed is neither shown nor ruled out.
EQUAL, SLOWER, FASTER, UNSURE = "equal", "slower", "faster", "unsure"
MEDIAN, SLOWEST = "median", "slowest"
#: Changes within a run that are told, at least.
LEAST_CHANGE = 0.03
#: Parts of a step that are less than this of it are not compared.
_LEAST_PART = 0.002


class NotComparableError(Exception):
    """Two runs that cannot be compared, and why."""


class Row(NamedTuple):
    """One length of time in both runs: seconds, and the difference as a share of the first, with its interval.

    ``rank`` says whose time it is: the median rank's or the slowest's; "" where it is the job's. A phase of the median
    rank is not ``borne`` where the slowest rank, whose pace is the job's, shows something else.
    """

    name: str
    first_s: float
    second_s: float
    ratio: float
    low: float
    high: float
    rank: str = ""
    borne: bool = True

    @property
    def is_slower(self) -> bool:
        """Whether the interval says so."""
        return self.low > 0 and self.borne

    @property
    def is_faster(self) -> bool:
        """Whether the interval says so."""
        return self.high < 0 and self.borne


class WithinRun(NamedTuple):
    """From ``step`` on a run took ``ratio`` longer a step than before."""

    step: int
    ratio: float


class Side(NamedTuple):
    """One of the two runs, in numbers."""

    name: str
    ranks: int | None
    global_batch: int | None
    steps: int
    warm_up_steps: int
    windows: int
    changes: tuple[WithinRun, ...]
    findings: tuple[tuple[str, str, int, float], ...]


class Comparison(NamedTuple):
    """What came of it. ``samples`` is True where times are of a sample rather than of a step."""

    verdict: str
    fail_over: float
    step: Row
    rows: tuple[Row, ...]
    first: Side
    second: Side
    a_sample: bool
    facts: tuple[FactDifference, ...]
    notes: tuple[str, ...]


def compare(first: Run, second: Run, fail_over: float, seed: int = 0) -> Comparison:
    """The comparison of ``second`` with ``first``: slower means slower by more than ``fail_over``, surely.

    Raises:
        NotComparableError: they are too short, or of sizes that cannot be brought together.
    """
    stretches = _enough(first), _enough(second)
    samples, notes = _samples(first, second)
    step = _row("step", steps_series(stretches[0], samples[0]), steps_series(stretches[1], samples[1]), seed)
    close = EQUAL if step.high <= fail_over else UNSURE
    verdict = SLOWER if step.low > fail_over else FASTER if step.is_faster else close
    return Comparison(
        verdict,
        fail_over,
        step,
        tuple(_rows(stretches, samples, step, seed)),
        _side(first, stretches[0], seed),
        _side(second, stretches[1], seed),
        samples != (1, 1),
        tuple(differences(first.facts, second.facts)),
        tuple(notes),
    )


def _enough(run: Run) -> list[Stretch]:
    stretches = run.chosen()
    steps = sum(one.steps for one in stretches)
    if len(stretches) < LEAST_VALUES or steps < LEAST_STEPS:
        raise NotComparableError(
            f"job {run.job} is too short: {steps} steps in {len(stretches)} windows after {run.warm_up_steps} steps of "
            f"warm-up, and an interval takes {LEAST_STEPS} in {LEAST_VALUES}{_needed(run, stretches)}"
        )
    return stretches


def _needed(run: Run, stretches: list[Stretch]) -> str:
    """How many steps a run takes at this pace, in words: its windows hold so many, and the first and last fewer."""
    if not stretches:
        return ""
    each = sum(one.steps for one in stretches) / len(stretches)
    steps = math.ceil(max(LEAST_STEPS, (LEAST_VALUES + 2) * each)) + run.warm_up_steps
    return f": at this pace that is a run of about {steps:,} steps"


def _samples(first: Run, second: Run) -> tuple[tuple[int, int], list[str]]:
    """By how many samples each run's times are divided."""
    batches, ranks = (first.global_batch, second.global_batch), (first.ranks, second.ranks)
    if batches[0] is not None and batches[1] is not None:
        if batches[0] == batches[1]:
            return (1, 1), []
        note = f"a step has {batches[0]} samples in the first run and {batches[1]} in the second: times are of a sample"
        return (batches[0], batches[1]), [note]
    if None not in ranks and ranks[0] != ranks[1]:
        raise NotComparableError(
            f"the first run has {ranks[0]} ranks and the second {ranks[1]}, and not all tell their batch size: a step "
            "of one is not the work of the other's; PyTorch's DataLoader tells it by itself where it makes batches"
        )
    return (1, 1), ["not all ranks reported batch sizes: they are assumed equal"]


def _rows(stretches: tuple[list[Stretch], list[Stretch]], samples: tuple[int, int], step: Row, seed: int) -> list[Row]:
    rows = [_row("median step", median_series(stretches[0], samples[0]), median_series(stretches[1], samples[1]), seed)]
    work = [work_series(one, by) for one, by in zip(stretches, samples, strict=True)]
    if min(one.mean for one in work) >= _LEAST_PART * step.first_s:
        rows.append(_row("work", work[0], work[1], seed)._replace(rank=SLOWEST))
    for name in (*PHASES, *OVERLAYS):
        rows += _phase_rows(name, stretches, samples, step, seed)
    clocks = [clock_series(one, by) for one, by in zip(stretches, samples, strict=True)]
    if (
        clocks[0] is not None
        and clocks[1] is not None
        and min(len(one.values) for one in clocks if one) >= LEAST_VALUES
    ):
        rows.append(_row("by the clock", clocks[0], clocks[1], seed))
    return rows


def _phase_rows(
    name: str, stretches: tuple[list[Stretch], list[Stretch]], samples: tuple[int, int], step: Row, seed: int
) -> list[Row]:
    """One phase of the slowest rank and of the median rank, as far as both runs tell it."""
    rows = []
    for rank in (SLOWEST, MEDIAN):
        pairs = zip(stretches, samples, strict=True)
        first, second = (phase_series(one, name, by, slowest=rank == SLOWEST) for one, by in pairs)
        if first is None or second is None or min(len(first.values), len(second.values)) < LEAST_VALUES:
            continue
        if max(first.mean, second.mean) >= _LEAST_PART * step.first_s:
            rows.append(_row(name, first, second, seed)._replace(rank=rank))
    if len(rows) < len((SLOWEST, MEDIAN)):
        return rows
    slowest, median = rows
    agree = (slowest.is_slower, slowest.is_faster) == (median.is_slower, median.is_faster)
    return [slowest, median._replace(borne=agree)]


def _row(name: str, first: Series, second: Series, seed: int) -> Row:
    return Row(name, first.mean, second.mean, *difference(first, second, seed))


def _side(run: Run, stretches: list[Stretch], seed: int) -> Side:
    series = steps_series(stretches, 1)
    found = changes(np.asarray(series.values), LEAST_CHANGE, seed)
    findings = sorted(
        (one for one in run.findings.values() if one.state != "suspected" and one.first_step >= 0),
        key=lambda one: -one.cost.lost_s,
    )
    return Side(
        run.job,
        run.ranks,
        run.global_batch,
        sum(one.steps for one in stretches),
        run.warm_up_steps,
        len(stretches),
        tuple(WithinRun(stretches[one.at].first_step, one.ratio) for one in found),
        tuple((one.kind, one.cause, one.first_step, one.cost.lost_s) for one in findings[:8]),
    )
