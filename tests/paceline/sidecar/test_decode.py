"""Decoding a rank's marks: marks in, rows out, whatever the marks say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.sidecar.decode import MarkDecoder, fault_in
from paceline.training import marks
from paceline.training.messages import Marks

MS = 1_000_000
ISSUED = ("world", 4, 7, "all_reduce", 4096, marks.PYTHON)
SPANS = [kind + side for kind in range(marks.OTHER + 1) for side in (0, marks.LEAVE)]
any_mark = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([*SPANS, *range(marks.READY, marks.BATCHED + 2)]),
    st.one_of(st.none(), st.integers(-5, 5), st.just(ISSUED)),
)


def message(*found: tuple[int, int, object]) -> Marks:
    return Marks(marks=list(found), offset_ns=0)  # type: ignore[arg-type]


@pytest.mark.long
@given(st.lists(any_mark, max_size=60))
def test_no_sequence_of_sound_marks_is_too_odd(found: list[tuple[int, int, object]]) -> None:
    """In any order, at any time, left open or closed twice: rows come out or none, with numbers in them."""
    decoder = MarkDecoder()
    said = message(*(mark for mark in found if fault_in(message(mark)) is None))
    for report in filter(None, [decoder.decode(said), decoder.end()]):
        times = [row.step_s for row in report.steps]
        times += [took for row in report.steps for took in row.seconds if took == took]
        times += [time for row in report.collectives for time in (row.duration_s, row.wait_s)]
        assert all(map(math.isfinite, times))


def test_a_pass_of_a_micro_batch_that_cannot_be_is_refused() -> None:
    """Each has a row of its own: a rank may number so many, on a forward and a backward alone."""
    for number, kind in ((0, marks.FORWARD), (marks.MOST_MICROBATCHES - 1, marks.BACKWARD)):
        assert fault_in(message((0, kind, number))) is None
    for number, kind in (
        (-1, marks.FORWARD),
        (marks.MOST_MICROBATCHES, marks.BACKWARD),
        (0, marks.LEAVE + marks.FORWARD),
        (0, marks.OPTIMIZER),
        (0, marks.BATCH),
    ):
        assert fault_in(message((0, kind, number))) is not None
    assert fault_in(message((0, marks.BATCHED, None), (0, marks.BATCHED, 7), (0, marks.BATCH, None))) is None
    assert fault_in(message((0, marks.BATCHED, ISSUED))) is not None


@pytest.mark.parametrize("payload", [None, 7, ISSUED, "later"])
def test_a_mark_of_a_later_version_is_passed_over(payload: object) -> None:
    """A rank that is newer than its node's sidecar is timed as before, whatever the mark says."""
    step = (marks.BACKWARD, marks.LEAVE + marks.BACKWARD, marks.OPTIMIZER, marks.LEAVE + marks.OPTIMIZER)
    step += (marks.STEP, marks.QUEUED)
    known = [(at * MS, kind, None) for at, kind in enumerate(step * 4)]
    mixed = [mark for known_one in known for mark in (known_one, (known_one[0], 200, payload))]
    assert fault_in(message(*mixed)) is None
    expected, found = MarkDecoder().decode(message(*known)), MarkDecoder().decode(message(*mixed))
    assert expected is not None
    assert found is not None
    assert len(expected.steps) > 1
    assert [(row.step, row.step_s) for row in found.steps] == [(row.step, row.step_s) for row in expected.steps]
    assert fault_in(message((0, marks.LEAVE - 1, None))) == f"a mark of unknown kind {marks.LEAVE - 1}"


@pytest.mark.parametrize("payload", [None, -1, 2**53 + 1, 2**63 - 1, ISSUED])
def test_a_device_that_waited_impossibly_long_is_refused(payload: object) -> None:
    """On one line, before it is used."""
    reason = fault_in(message((1 * MS, marks.HOST_BOUND, payload)))
    assert reason is not None
    assert "\n" not in reason
    assert fault_in(message((1 * MS, marks.HOST_BOUND, 2**53))) is None


def test_a_collective_that_nobody_finishes_is_open() -> None:
    """It is told with the time it was issued, and no more once its result is there."""
    decoder = MarkDecoder()
    issue = (2 * MS, marks.ISSUED, ISSUED)
    decoder.decode(message((0, marks.FORWARD, None), (1 * MS, marks.COMMUNICATION, None), issue))
    ((found, start_s),) = decoder.open(before_s=1.0)
    assert (found.group, found.seq, start_s) == ("world", 7, 0.002)
    assert decoder.open(before_s=0.001) == []
    decoder.decode(message((5 * MS, marks.LEAVE + marks.COMMUNICATION, None)))
    assert decoder.open(before_s=1.0) == []


def test_a_collective_before_1970_is_not_open() -> None:
    """A rank's offset may be wrong; no event may hold such a time, and one would cost the other ranks of the node."""
    decoder = MarkDecoder()
    decoder.decode(message((-5 * MS, marks.ISSUED, ISSUED)))
    assert decoder.open(before_s=1.0) == []


def test_spans_that_are_never_closed_do_not_pile_up() -> None:
    """A phase that is entered again and again is taken for lost."""
    decoder = MarkDecoder()
    for start in range(0, 10_000, 500):
        decoder.decode(message(*((t * MS, marks.OTHER, None) for t in range(start, start + 500))))
    assert len(decoder._timeline._stack) < 100


def test_steps_that_cannot_be_left_out_are_refused() -> None:
    """Fewer than one, more than the longest period has, or ended before they began."""
    for kind, steps in ((marks.SAMPLE_OFF, 0), (marks.SAMPLE_OFF, 64), (marks.SAMPLE_ON, -1), (marks.SAMPLE_ON, 2**41)):
        assert fault_in(message((0, kind, steps))) == f"a mark of kind {kind} with the number {steps}"
    assert fault_in(message((0, marks.SAMPLE_OFF, 63), (1, marks.SAMPLE_ON, 0))) is None
