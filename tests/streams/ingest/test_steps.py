"""Rows to whole steps: once, in order, whatever the batching, and never held up by what cannot be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.events import OP_INDEX, OPS
from streams.ingest import steps as module
from streams.ingest.coverage import CoverageTracker
from streams.ingest.step_rows import TOTAL, MicrobatchRows, StepRows
from streams.ingest.steps import FEW_STEPS, MESSAGE_STEPS, Steps, StepsConfig


@pytest.fixture
def steps():
    """The steps of a job of two ranks."""
    return made(2)


def made(world, **config):
    coverage = CoverageTracker()
    coverage.roster.hear(range(world), [world] * world)
    return Steps(StepsConfig(**config), coverage)


def whole(*cells, step_s=1.0):
    """The rows of whole steps: (rank, step) each."""
    return [
        row
        for rank, step in cells
        for row in ((rank, step, "forward", step * step_s, 0.4), (rank, step, "step", step * step_s, step_s))
    ]


def numbers(handed_on):
    return [step.step for step in handed_on]


def test_a_step_is_handed_on_when_every_rank_has_closed_it(steps, make_rows):
    """Not before, and with the seconds and the end of each rank."""
    assert steps.update(make_rows(*whole((0, 0)))) == []
    (step,) = steps.update(make_rows(*whole((1, 0))))
    assert step.seconds[OP_INDEX["forward"]].tolist() == [0.4, 0.4]
    assert step.ends_s.tolist() == [1.0, 1.0]
    assert step.pairs is None


def test_rows_out_of_order_make_steps_in_order(steps, make_rows):
    """Step 2 that comes before step 1 waits for it."""
    handed_on = steps.update(make_rows(*whole((0, 2), (0, 1), (0, 0), (1, 2), (1, 0), (1, 1))))
    assert numbers(handed_on) == [0, 1, 2]


def test_a_step_says_how_many_before_it_no_rank_has_told(steps, make_rows):
    """Those before the first are not asked for: a recording may begin in the middle of a run."""
    rows = make_rows(*whole((0, 5), (1, 5), (0, 6), (1, 6), (0, 9), (1, 9), (0, 10), (1, 10)))
    assert [(step.step, step.skipped) for step in steps.update(rows)] == [(5, 0), (6, 0), (9, 2), (10, 0)]


def test_one_row_at_a_time_makes_the_same_steps(steps, make_rows):
    """How rows are batched changes nothing, as long as a step's phases come before its end."""
    rows = whole((0, 0), (1, 0), (0, 1), (1, 1))
    singly = [step for row in rows for step in steps.update(make_rows(row))]
    at_once = made(2).update(make_rows(*rows))
    assert numbers(singly) == numbers(at_once) == [0, 1]
    assert all(np.array_equal(one.seconds, other.seconds) for one, other in zip(singly, at_once, strict=True))


def test_rows_of_a_step_that_was_judged_are_noted_and_dropped(steps, make_rows):
    """A repeated message makes no second step."""
    rows = make_rows(*whole((0, 0), (1, 0)))
    assert numbers(steps.update(rows)) == [0]
    assert steps.update(rows) == []
    assert steps.take_notes() == {"rows after their step was judged": 4}


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ((-1, 0, "forward", 0.0, 0.1), "rows with an impossible rank"),
        ((10**9, 0, "forward", 0.0, 0.1), "rows with an impossible rank"),
        ((5_000, 0, "forward", 0.0, 0.1), "rows with an impossible rank"),
        ((0, -3, "forward", 0.0, 0.1), "rows with an impossible step or duration"),
        ((0, 0, "nonsense", 0.0, 0.1), "rows of an unknown op"),
    ],
)
def test_what_cannot_be_is_noted_and_widens_no_table(steps, make_rows, row, what):
    """The rows beside it are judged as if it had not come."""
    (step,) = steps.update(make_rows(row, *whole((0, 0), (1, 0))))
    assert step.seconds.shape[1] == 2
    assert step.seconds[OP_INDEX["forward"]].tolist() == [0.4, 0.4]
    assert steps.take_notes() == {what: 1}


def test_an_absurd_step_of_one_rank_leads_nobody_astray(make_rows):
    """Three ranks at step 1 go on, whatever number the fourth tells."""
    steps = made(4)
    steps.update(make_rows(*whole(*((rank, 0) for rank in range(4)))))
    handed_on = steps.update(make_rows(*whole((0, 1), (1, 1), (2, 1), (3, 2**40))))
    assert numbers(handed_on) == [1]


def test_a_phase_of_no_time_is_a_value_and_a_rank_without_a_step_is_not(make_rows):
    """0.0 seconds of data stay 0.0; a rank that never closed the step is NaN."""
    steps = made(2)
    rows = [(0, 0, "data", 0.0, 0.0), *whole((0, 0), (1, 1), (0, 1))]
    first, second = steps.update(make_rows(*rows))
    assert first.seconds[OP_INDEX["data"], 0] == 0.0
    assert np.isnan(first.seconds[:, 1]).all()
    assert not np.isnan(second.seconds).any()


def test_a_single_rank_waits_for_nobody(make_rows):
    """In a world of one each step is handed on at once."""
    steps = made(1)
    assert [numbers(steps.update(make_rows(*whole((0, step))))) for step in range(3)] == [[0], [1], [2]]


def test_a_message_without_rows_hands_on_nothing(steps, make_rows):
    """An empty batch is no news, before the first row and after it."""
    empty = make_rows((0, 0, "nonsense", 0.0, 0.1))
    assert steps.update(empty) == []
    steps.update(make_rows(*whole((0, 0), (1, 0))))
    assert steps.update(empty) == []


def test_a_rank_that_falls_silent_is_waited_for_no_longer_than_patience(make_rows):
    """Rank 1 stops after the first step: a few steps and the patience later the others go on, and it is noted."""
    steps = made(3, patience_s=10.0)
    steps.update(make_rows(*whole((0, 0), (1, 0), (2, 0))))
    handed_on = [numbers(steps.update(make_rows(*whole((0, step), (2, step))))) for step in range(1, FEW_STEPS + 3)]
    assert handed_on[FEW_STEPS - 1] == []
    assert handed_on[FEW_STEPS] == list(range(1, FEW_STEPS + 2))
    assert steps.take_notes()["ranks that fell silent"] >= 1


@pytest.mark.parametrize(
    ("number", "waits"),
    [(lambda at: 100_000 + at, FEW_STEPS), (lambda at: 100 + 350 * at, MESSAGE_STEPS)],
    ids=["resumed", "sampled"],
)
def test_how_long_to_wait_does_not_depend_on_step_numbers(make_rows, number, waits):
    """In a run that goes on from a checkpoint, or whose steps are sampled, here each five minutes."""
    steps = made(3, patience_s=10.0)
    count = FEW_STEPS + 3
    told = [[(rank, number(at)) for rank in (0, 1, 2) if rank != 1 or at == 0] for at in range(count)]
    handed_on = [numbers(steps.update(make_rows(*whole(*cells)))) for cells in told]
    assert handed_on[waits] == []
    assert handed_on[waits + 1] == [number(at) for at in range(1, waits + 2)]


def test_a_rank_that_never_speaks_is_waited_for_once(make_rows):
    """Until the patience is over by the clock of those that speak; then each step goes on at once."""
    steps = made(3, patience_s=5.0)
    handed_on = [numbers(steps.update(make_rows(*whole((0, step), (1, step))))) for step in range(8)]
    assert handed_on == [[], [], [], [], [], [0, 1, 2, 3, 4, 5], [6], [7]]


def train_on(steps, make_rows, ranks, numbers_, set_ahead_at=None, step_s=0.5):
    """What is handed on while ``ranks`` close these steps, one after the other."""
    out = []
    for step in numbers_:
        rows = make_rows(*whole(*((rank, step) for rank in ranks), step_s=step_s))
        ahead = 3600.0 if set_ahead_at is not None and step >= set_ahead_at else 0.0
        out.append(numbers(steps.update(rows._replace(start_s=rows.start_s + ahead))))
    return out


def test_most_ranks_that_fall_silent_are_waited_for_minutes_and_then_no_longer(make_rows):
    """Their connection may come back; later each step is handed on as it comes, and with them once they report."""
    steps = made(5)
    train_on(steps, make_rows, range(5), range(10))
    handed_on = train_on(steps, make_rows, [0, 3], range(10, 1000))
    first = next(number for number, those in enumerate(handed_on) if those)
    assert 300.0 <= first * 0.5 <= 320.0
    assert handed_on[first] == list(range(10, first + 11))
    assert handed_on[first + 1 :] == [[number] for number in range(first + 11, 1000)]
    assert steps.take_notes() == {"ranks that fell silent": 3}
    assert train_on(steps, make_rows, range(5), range(1000, 1003)) == [[1000], [1001], [1002]]


def test_most_ranks_that_come_back_in_time_lose_nothing(make_rows):
    """What they could not send comes together, a message of each in turn."""
    steps = made(5)
    train_on(steps, make_rows, range(5), range(10))
    assert train_on(steps, make_rows, [0, 3], range(10, 500)) == [[]] * 490
    late = [
        train_on(steps, make_rows, [rank], range(first, first + 10))
        for first in range(10, 500, 10)
        for rank in (1, 2, 4)
    ]
    assert [number for each in late for those in each for number in those] == list(range(10, 500))
    assert steps.take_notes() == {}


def test_most_ranks_that_are_slow_are_no_silent_ones(make_rows):
    """Ranks that share no gradients drift apart: who reports is waited for, however far behind it is."""
    steps = made(5)
    for turn in range(120):
        train_on(steps, make_rows, [0, 3], range(10 * turn, 10 * turn + 10))
        train_on(steps, make_rows, [1, 2, 4], [turn])
    assert steps.done == 119
    assert steps.take_notes() == {}


def test_a_clock_set_ahead_makes_nobody_silent(make_rows):
    """The first message after it may bring many steps before the others' come."""
    steps = made(5)
    train_on(steps, make_rows, range(5), range(10))
    assert train_on(steps, make_rows, [0], range(10, 60), set_ahead_at=30) == [[]] * 50
    train_on(steps, make_rows, range(1, 5), range(10, 60))
    assert steps.done == 59
    assert steps.take_notes() == {}


def test_steps_that_wait_are_bounded(make_rows):
    """With more of them than may be kept, the rank furthest ahead leads and the others are left behind."""
    steps = made(2, patience_s=1e9, pending_steps=4)
    for step in range(30):
        steps.update(make_rows(*whole((0, step))))
    assert len(steps.tables) <= 5


def test_clocks_set_back_hold_no_step_up(steps, make_rows):
    """A rank whose clock is an hour behind at step 1 closes it all the same."""
    steps.update(make_rows(*whole((0, 0), (1, 0))))
    rows = make_rows(*whole((0, 1), (1, 1)))
    set_back = rows._replace(start_s=rows.start_s - 3600.0 * (rows.rank == 1))
    assert numbers(steps.update(set_back)) == [1]


def test_micro_batches_come_with_their_step(steps, make_rows):
    """Passes of one micro-batch are summed apart from the others."""
    passes = [(0, 0, op, 0.0, seconds, 3) for op, seconds in (("forward", 0.1), ("backward", 0.2))]
    (step,) = steps.update(make_rows(*passes, *whole((0, 0), (1, 0))))
    assert (step.pairs.rank.tolist(), step.pairs.forward.tolist(), step.pairs.backward.tolist()) == ([0], [0.1], [0.2])


def test_restored_between_two_ranks_the_step_is_handed_on(steps, make_rows):
    """State is data."""
    steps.update(make_rows(*whole((0, 0))))
    again = made(2)
    again.load(steps.state())
    assert numbers(again.update(make_rows(*whole((1, 0))))) == [0]


def random_rows(rng, ranks, first):
    """Rows of a few steps in any order; some come twice, some are not whole, some say what cannot be."""
    count = int(rng.integers(1, 40))
    rank, step = rng.integers(-1, ranks, count), first + rng.integers(-1, 6, count)
    if rng.random() < 0.5:
        order = np.lexsort((rank, step))
        rank, step = rank[order], step[order]
    seconds = rng.choice([0.0, 0.1, 0.3, 1 / 3, np.nan, -1.0], (len(OPS), count), p=[0.1, 0.2, 0.2, 0.3, 0.19, 0.01])
    seconds[TOTAL] = rng.choice([0.5, 0.7, np.nan], count, p=[0.5, 0.4, 0.1])
    start_s = np.where(rng.random(count) < 0.05, np.nan, 100.0 + step)
    none = np.empty(0, dtype=np.int64)
    nothing = MicrobatchRows(none, none, none, np.empty(0), np.empty(0))
    return StepRows(rank, step, start_s, seconds, nothing, rng.choice([0, 0, 0, 2], count))


def plain(value):
    """``value`` with its arrays as bytes."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_tables_made_in_one_pass_are_those_made_one_by_one(seed, ranks):
    """To the last bit, in whatever order rows come, how often, and whichever of their steps are open already."""

    def run(most_cells):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_MOST_CELLS", most_cells)
            rng, steps = np.random.default_rng(seed), made(ranks)
            out = [steps.update(random_rows(rng, ranks, 4 * turn)) for turn in range(8)]
            return plain(out), plain(steps.state()), steps.take_notes()

    assert run(4096) == run(0)


def test_steps_that_begin_at_no_possible_time_hold_up_nothing(steps, make_rows):
    """A node's clock may be broken: its steps wait, and are judged once a rank says when it begins them."""
    rows = make_rows(*whole((0, 0), (1, 0)))
    assert steps.update(rows._replace(start_s=np.full(2, np.nan))) == []
    assert numbers(steps.update(make_rows(*whole((0, 1), (1, 1))))) == [0, 1]


# --- what windows ask for --------------------------------------------------------------------------------------------


def test_a_rank_with_long_steps_is_waited_for_a_minute_and_two_steps(make_rows):
    """Twenty steps of half a minute would be ten minutes without a word."""
    steps = made(3)
    steps.update(make_rows(*whole((0, 0), (1, 0), (2, 0), step_s=30.0)))
    handed_on = [numbers(steps.update(make_rows(*whole((0, step), (2, step), step_s=30.0)))) for step in range(1, 6)]
    assert handed_on == [[], [], [1, 2, 3], [4], [5]]


def test_a_rank_that_is_silent_is_waited_for_again_once_it_reports(make_rows):
    """Between the two each step is handed on as it comes."""
    steps = made(3)
    steps.update(make_rows(*whole((0, 0), (1, 0), (2, 0), step_s=30.0)))
    handed_on = [
        numbers(steps.update(make_rows(*whole(*((rank, step) for rank in ranks), step_s=30.0))))
        for step, ranks in ((1, [0, 2]), (2, [0, 2]), (3, [0, 2]), (4, [0, 2]), (5, [0, 1, 2]), (6, [0, 2]), (6, [1]))
    ]
    assert handed_on == [[], [], [1, 2, 3], [4], [5], [], [6]]
    assert steps.take_notes() == {"ranks that fell silent": 1}


def test_a_step_that_some_leave_out_is_handed_on_and_is_not_whole(make_rows):
    """Rank 0 reports each second step, rank 1 each: of the step between, the sums are of rank 1 alone."""
    steps, cells = made(2), [(rank, step) for step in range(5) for rank in (0, 1) if rank or not step % 2]
    rows = make_rows(*whole(*cells))
    handed_on = steps.update(rows._replace(left_out=np.where(rows.rank == 0, 1, 0)))
    assert [(step.step, step.whole, step.left_out, step.skipped) for step in handed_on] == [
        (0, True, 0, 0),
        (1, False, 0, 0),
        (2, True, 1, 0),
        (3, False, 0, 0),
        (4, True, 1, 0),
    ]


def test_steps_that_all_leave_out_are_before_the_next_and_after_the_last(make_rows):
    """So the second that ends between two steps knows of all that belong to it."""
    steps, rows = made(2), make_rows(*whole(*((rank, step) for step in (0, 4) for rank in (0, 1))))
    assert steps.left_out_next() == 0
    handed_on = steps.update(rows._replace(left_out=np.where(rows.rank == 0, 3, 5)))
    assert [(step.step, step.by_all) for step in handed_on] == [(0, 0), (4, 3)]
    assert steps.left_out_next() == 3


def test_at_the_end_all_open_steps_are_handed_on_as_they_are(make_rows):
    """Once: rank 1 has not closed the last two."""
    steps = made(2)
    assert numbers(steps.update(make_rows(*whole((0, 0), (1, 0), (0, 1), (0, 2))))) == [0]
    last = steps.drain()
    assert numbers(last) == [1, 2]
    np.testing.assert_array_equal([step.starts_s for step in last], [[1.0, np.nan], [2.0, np.nan]])
    assert steps.drain() == []


def test_when_an_op_was_reported_first_is_known_by_rank(steps, make_rows):
    """In whatever order the rows come; what is refused reports nothing."""
    steps.update(make_rows(*whole((0, 3), (1, 0)), (0, 3, "data", 2.0, 0.0), (1, -1, "data", 2.0, 0.1)))
    assert steps.first_told[OP_INDEX["forward"]].tolist() == [3, 0]
    assert steps.first_told[OP_INDEX["data"]].tolist() == [3, module.NEVER]
    steps.update(make_rows((0, 2, "forward", 2.0, 0.1)))
    assert steps.first_told[OP_INDEX["forward"]].tolist() == [2, 0]
    again = made(2)
    again.load(steps.state())
    assert again.first_told.tolist() == steps.first_told.tolist()
