"""Forward and backward of the same micro-batch, kept until their step is whole."""

import numpy as np
import pytest

from streams.ingest.microbatches import MOST_MICROBATCHES, OpenMicrobatches
from streams.ingest.step_rows import MicrobatchRows


@pytest.fixture
def open_microbatches():
    """None heard yet."""
    return OpenMicrobatches()


def tell(kept, *passes):
    """Each pass: (step, rank, micro-batch, "forward" or "backward", seconds)."""
    step, rank, microbatch, name, seconds = zip(*passes, strict=True) if passes else ((),) * 5
    columns = [np.array(column, dtype=np.int64) for column in (rank, step, microbatch)]
    back, took = np.array([word == "backward" for word in name], dtype=bool), np.array(seconds, dtype=float)
    kept.update(MicrobatchRows(*columns, np.where(back, np.nan, took), np.where(back, took, np.nan)))
    return kept


def told(kept, step=0):
    """(rank, forward, backward) of each micro-batch."""
    return [tuple(pair) for pair in zip(*(column.tolist() for column in kept.pop(step)), strict=True)]


PASSES = (
    (0, 0, 0, "forward", 0.1),
    (0, 0, 1, "forward", 0.2),
    (0, 1, 0, "forward", 0.3),
    (0, 0, 0, "backward", 0.4),
    (0, 0, 1, "backward", 0.5),
    (0, 1, 0, "backward", 0.6),
)
PAIRS = [(0, 0.1, 0.4), (0, 0.2, 0.5), (1, 0.3, 0.6)]


def test_passes_of_one_micro_batch_are_a_pair(open_microbatches):
    """Rank by rank and micro-batch by micro-batch; a step is handed out once."""
    tell(open_microbatches, *PASSES)
    assert told(open_microbatches) == PAIRS
    assert open_microbatches.pop(0) is None


def test_the_order_and_the_batching_change_nothing(open_microbatches):
    """Backwards, one at a time."""
    for one in reversed(PASSES):
        tell(open_microbatches, one)
    assert told(open_microbatches) == PAIRS


def test_a_pass_in_parts_is_summed(open_microbatches):
    """Several modules make up one forward pass."""
    tell(open_microbatches, *PASSES, (0, 1, 0, "forward", 0.5))
    assert told(open_microbatches)[2] == (1, 0.8, 0.6)


def test_one_pass_alone_is_no_pair(open_microbatches):
    """A micro-batch whose backward was never heard is left out, and one that took no time as well."""
    tell(open_microbatches, *PASSES[:3], *PASSES[3:4], (0, 1, 0, "backward", 0.0))
    assert told(open_microbatches) == PAIRS[:1]


@pytest.mark.parametrize("number", [-1, MOST_MICROBATCHES, 2**62])
def test_rows_of_no_micro_batch_are_left_out(open_microbatches, number):
    """-1 is none, and an absurd number is taken for no other rank's."""
    tell(open_microbatches, (0, 0, number, "forward", 0.1), (0, 0, number, "backward", 0.1))
    assert open_microbatches.pop(0) is None


def test_no_rows_are_no_step(open_microbatches):
    """An empty batch."""
    assert tell(open_microbatches).rows == {}


def test_steps_are_kept_apart_and_forgotten_when_they_are_done(open_microbatches):
    """What belongs to steps that are judged is dropped."""
    tell(open_microbatches, *((step, *one[1:]) for step in (3, 1, 2) for one in PASSES))
    open_microbatches.forget(2)
    assert [open_microbatches.pop(step) for step in (1, 2)] == [None, None]
    assert told(open_microbatches, 3) == PAIRS


def test_restored_in_a_step_its_pairs_are_whole(open_microbatches):
    """State is data."""
    again = OpenMicrobatches()
    again.load(tell(open_microbatches, *PASSES[:3]).state())
    assert told(tell(again, *PASSES[3:])) == PAIRS
