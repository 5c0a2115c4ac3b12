"""One clock for steps whose starts restart: what is inside a step stays, and steps follow each other on every rank."""

import numpy as np
import pytest

from importers.op_rows import Rows, cells
from importers.step_clock import astray, laid_out, one_after_another
from paceline.events import OP_INDEX

WORK = [("forward", 0.0, 1.0), ("communication", 1.0, 0.5), ("backward", 1.5, 2.0)]
LENGTH_S = 3.5


def table(origin, ranks=(0, 4, 8), steps=(100, 350, 420, 900), work=WORK):
    """Rows by cell; ``origin(rank, number of the step)`` is when a rank's step begins."""
    made = [
        (rank, step, OP_INDEX[op], -1, origin(rank, number) + start, took)
        for rank in ranks
        for number, step in enumerate(steps)
        for op, start, took in work
    ]
    columns = zip(*made, strict=True)
    return Rows(*(np.array(one, dtype=np.float64 if at > 3 else np.int64) for at, one in enumerate(columns))).by_cell()


def starts(rows):
    """When each rank began each step: a row a rank."""
    there = cells(rows)
    return rows.start[there.begin].reshape(np.unique(there.rank).size, -1)


@pytest.mark.parametrize(
    "origin",
    [
        lambda rank, step: 0.0,
        lambda rank, step: 17.25,
        lambda rank, step: 0.1 * rank,
        lambda rank, step: 1e8 * rank,
        lambda rank, step: [50.0, 20.0, 49.0, 3.0][step],
        lambda rank, step: 1.7e9 + 4.0 * (step % 2),
    ],
    ids=["from 0", "from anywhere", "a pipeline", "clocks years apart", "from somewhere else each time", "in epochs"],
)
def test_steps_follow_each_other(origin):
    """On every rank, with no step moved into the one before; within a step nothing changes, nor between ranks."""
    rows = table(origin)
    laid, restarts = one_after_another(rows)
    assert restarts
    assert (np.diff(starts(laid), axis=1) >= LENGTH_S - 1e-6).all()
    there = cells(rows)
    assert laid.start - laid.start[there.begin][there.of] == pytest.approx(
        rows.start - rows.start[there.begin][there.of]
    )
    moved = starts(laid) - starts(rows)
    assert moved == pytest.approx(np.tile(moved[0], (len(moved), 1)), abs=1e-6)
    for column in ("rank", "step", "op", "microbatch", "duration"):
        assert (getattr(laid, column) == getattr(rows, column)).all()


@pytest.mark.parametrize(
    ("origin", "work"),
    [
        (lambda rank, step: 1.7e9 + LENGTH_S * step, WORK),
        (lambda rank, step: 1.7e9 + 36_000.0 * step, WORK),
        (lambda rank, step: 1e8 * rank + 4.0 * step, WORK),
        # Data for the next step are read beside this one, a checkpoint is written beside the next two.
        (lambda rank, step: 1.7e9 + LENGTH_S * step, [*WORK, ("data", -3.0, 3.0)]),
        (lambda rank, step: 1.7e9 + LENGTH_S * step, [*WORK, ("checkpoint", 3.0, 7.0)]),
    ],
    ids=["back to back", "sampled", "clocks apart", "data ahead", "checkpoints behind"],
)
def test_steps_on_one_clock_stay_where_they_are(origin, work):
    """Also where they overlap: only starts that go back are put right."""
    rows = table(origin, work=work)
    assert one_after_another(rows) == (rows, 0)


def test_only_what_went_back_is_moved():
    """Gaps between steps stay; a clock that was set back once moves all that comes after, once."""
    rows = table(lambda rank, step: [100.0, 200.0, 120.0, 220.0][step])
    laid, restarts = one_after_another(rows)
    assert restarts == 1
    assert starts(laid)[0].tolist() == [100.0, 200.0, 203.5, 303.5]


def test_a_step_may_be_much_longer_than_the_one_before():
    """Where starts restart, a long step after a short one does not pass for one that goes on."""
    rows = table(lambda rank, step: 0.0, steps=(1, 2, 3))
    long = rows._replace(
        start=np.where(rows.step == 2, rows.start * 20, rows.start),
        duration=np.where(rows.step == 2, rows.duration * 20, rows.duration),
    )
    laid, _ = one_after_another(long)
    assert starts(laid)[0].tolist() == [0.0, LENGTH_S, 21 * LENGTH_S]


def test_ranks_may_miss_steps_and_join_late():
    """A rank's step comes after its last one, whichever that was."""
    rows = table(lambda rank, step: 0.0)
    some = rows.only(~((rows.rank == 4) & (rows.step == 350)) & ~((rows.rank == 8) & (rows.step < 420)))
    laid, _ = one_after_another(some)
    there = cells(laid)
    begin = laid.start[there.begin]
    same = there.rank[1:] == there.rank[:-1]
    assert (np.diff(begin)[same] >= LENGTH_S).all()


def test_a_row_far_from_its_step_is_astray():
    """A start that is missing and was written as 0, or of another year, is no part of the step."""
    rows = table(lambda rank, step: 1.7e9 + 10.0 * step)
    wrong = rows._replace(start=np.where(np.arange(rows.start.size) == 7, 0.0, rows.start)).by_cell()
    assert wrong.start[astray(wrong)].tolist() == [0.0]
    assert not astray(rows).any()


def test_without_starts_ranks_meet_at_each_step():
    """Rows follow each other in the order that they have; what overlays work takes no time of its own."""
    none = table(
        lambda rank, step: np.nan, ranks=(0, 1), steps=(5, 6), work=[*WORK, ("gc", 0.0, 9.0), ("data", 0.0, 1.0)]
    )
    laid = laid_out(
        none._replace(duration=np.where((none.rank == 1) & (none.op == OP_INDEX["data"]), 4.0, none.duration))
    )
    assert laid.start[:5].tolist() == [0.0, 1.0, 1.5, 3.5, 3.5]
    assert starts(laid).tolist() == [[0.0, 12.5], [0.0, 12.5]]
