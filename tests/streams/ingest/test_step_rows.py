"""Rows as arrays: what every message tells of a rank and step, in order, made once for all who read them."""

import msgspec
import numpy as np
import pytest

from paceline import columns
from paceline.events import OP_INDEX, OPS, Microbatches, StepTimings
from streams.ingest.step_rows import TOTAL, step_rows
from tests.timings import changed, listed, speakers


@pytest.fixture
def messages(make_training):
    """Two nodes, one second each."""
    return make_training(ranks=2, seconds=1)


@pytest.fixture
def wide():
    """One rank's two steps, a row a step; of the second it tells no data."""
    return StepTimings(
        cluster="c",
        producer="p",
        sequence=0,
        job="job",
        attempt=0,
        node="node-0",
        t0_s=100.0,
        speakers=speakers([3], 4),
        rank=columns.whole([3, 3]),
        step=columns.whole([7, 8]),
        start_s=columns.offsets([0.25, 0.5]),
        step_s=columns.durations([0.25, 0.25]),
        phases={"data": columns.durations([0.0, np.nan]), "forward": columns.durations([0.125, 0.25])},
    )


def told(rows):
    """What is told of each rank and step, by op."""
    return {
        (rank, step): {op: seconds for op, seconds in zip(OPS, row, strict=True) if not np.isnan(seconds)}
        for rank, step, row in zip(rows.rank.tolist(), rows.step.tolist(), rows.seconds.T.tolist(), strict=True)
    }


def test_a_row_is_a_rank_and_a_step(messages):
    """Every phase of it in its place; the steps in the order in which they came."""
    rows, first = step_rows(messages), messages[0]
    cells = [cell for one in messages for cell in zip(listed(one.rank), listed(one.step), strict=True)]
    assert list(zip(rows.rank.tolist(), rows.step.tolist(), strict=True)) == cells
    phases = {word: listed(column)[0] for word, column in first.phases.items()}
    assert told(rows)[0, 0] == phases | {"step": listed(first.step_s)[0]}


def test_wide_rows_are_told_as_they_are(wide):
    """0.0 is a value and NaN is not told; starts are absolute."""
    rows = step_rows([wide])
    assert told(rows) == {
        (3, 7): {"data": 0.0, "forward": 0.125, "step": 0.25},
        (3, 8): {"forward": 0.25, "step": 0.25},
    }
    assert rows.start_s.tolist() == [100.25, 100.5]


def test_a_phase_that_one_message_tells_is_unknown_in_the_others(wide):
    """Columns that a message has not are not zero."""
    other = msgspec.structs.replace(wide, phases={"gc": columns.durations([0.5, 0.5])}, step=columns.whole([9, 10]))
    cells = told(step_rows([wide, other]))
    assert set(cells[3, 9]) == {"gc", "step"}
    assert "gc" not in cells[3, 7]


def test_words_that_nobody_knows_are_counted(wide):
    """Each row of theirs."""
    assert step_rows([msgspec.structs.replace(wide, phases={"tea": columns.durations([1.0, 1.0])})]).unknown == 2


def test_starts_are_absolute_on_each_nodes_clock(messages):
    """A clock that was set back is told as it is."""
    back = msgspec.structs.replace(messages[1], t0_s=3600.0)
    starts = step_rows([messages[0], back]).start_s.tolist()
    assert starts[0] == messages[0].t0_s + listed(messages[0].start_s)[0]
    assert starts[-1] == 3600.0 + listed(back.start_s)[-1]


def test_micro_batches_stand_beside_the_steps(wide):
    """In columns of their own."""
    part = Microbatches(
        rank=columns.whole([3]),
        step=columns.whole([7]),
        microbatch=columns.whole([1]),
        forward_s=columns.durations([0.5]),
        backward_s=columns.durations([np.nan]),
    )
    rows = step_rows([wide, msgspec.structs.replace(wide, microbatches=part)]).microbatches
    assert [column.tolist() for column in rows[:4]] == [[3], [7], [1], [0.5]]
    assert np.isnan(rows.backward_s).all()


def test_a_message_without_rows_adds_none(messages):
    """Alone and between others."""
    names = ("rank", "step", "start_s", "step_s")
    empty = changed(messages[0], phases={key: [] for key in messages[0].phases}, **{name: [] for name in names})
    assert step_rows([empty]).rank.size == 0
    assert told(step_rows([messages[0], empty])) == told(step_rows([messages[0]]))


def test_rows_cannot_be_written_to(messages, wide):
    """Several read them."""
    for some in (messages, [wide]):
        with pytest.raises(ValueError, match="read-only"):
            step_rows(some).rank[0] = 7


def test_what_lies_inside_a_step_is_never_longer_than_it(wide):
    """A rank that says it waited an hour for a processor in a step of 0.25 s waited the step; unknown stays unknown."""
    phases = wide.phases | {"cpu_wait": columns.durations([3600.0, 0.125]), "gc": columns.durations([np.nan, 0.5])}
    rows = told(step_rows([msgspec.structs.replace(wide, phases=phases)]))
    assert [rows[3, step].get("cpu_wait") for step in (7, 8)] == [0.25, 0.125]
    assert [rows[3, step].get("gc") for step in (7, 8)] == [None, 0.25]


def test_columns_of_several_types_are_the_same_numbers(wide):
    """Also where a message tells in double precision, or in whole seconds, what another tells in single."""
    odd = {"data": columns.encoded("f8", [0.1, np.nan]), "forward": columns.whole([0, 3])}
    messages = [wide, msgspec.structs.replace(wide, phases=odd, step_s=columns.encoded("f8", [0.1, 3.5]))]
    seconds = step_rows(messages).seconds
    for name, numbers in (("data", [0.0, np.nan, 0.1, np.nan]), ("forward", [0.125, 0.25, 0.0, 3.0])):
        np.testing.assert_array_equal(seconds[OP_INDEX[name]], numbers)
    assert seconds[TOTAL].tolist() == [0.25, 0.25, 0.1, 3.5]


def test_a_message_that_tells_of_no_phase_has_steps(wide):
    """Its rows say how long they were."""
    rows = step_rows([msgspec.structs.replace(wide, phases={})])
    assert rows.seconds[TOTAL].tolist() == [0.25, 0.25]
    assert np.isnan(rows.seconds).sum() == (len(OPS) - 1) * 2
