"""The 1F1B schedule."""

import pytest

from simulator.pipeline_schedule import one_forward_one_backward, stage_order


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (4, 8), (8, 3), (5, 5)])
def test_every_slot_comes_once_and_after_what_it_needs(stages, microbatches):
    """All forwards and backwards are there once; each follows its neighbour's."""
    order = one_forward_one_backward(stages, microbatches)
    place = {slot: index for index, slot in enumerate(order)}
    assert len(place) == len(order) == 2 * stages * microbatches
    for slot in order:
        source = slot.stage - 1 if slot.forward else slot.stage + 1
        if 0 <= source < stages:
            assert place[slot] > place[slot._replace(stage=source)]


def test_stage_holds_no_more_activations_than_stages_follow():
    """A stage never has more forwards ahead of its backwards than stages from it to the end."""
    for stage in range(4):
        ahead = worst = 0
        for slot in stage_order(stage, 4, 16):
            ahead += 1 if slot.forward else -1
            worst = max(worst, ahead)
        assert worst == 4 - stage
