"""The order of a pipeline's work: one forward, one backward (1F1B), as PipeDream-Flush and Megatron-LM run it.

Rule of this file: pure lists.
"""

from typing import NamedTuple


class Slot(NamedTuple):
    """One micro-batch's forward or backward on one stage."""

    stage: int
    forward: bool
    microbatch: int


def stage_order(stage: int, stages: int, microbatches: int) -> list[Slot]:
    """What one stage does, in order: enough forwards to fill the pipeline, then one of each, then the backwards left.

    >>> [("F" if slot.forward else "B") + str(slot.microbatch) for slot in stage_order(0, 2, 3)]
    ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
    """
    ahead = min(stages - 1 - stage, microbatches)
    order = [Slot(stage, True, index) for index in range(ahead)]
    for index in range(microbatches - ahead):
        order += [Slot(stage, True, ahead + index), Slot(stage, False, index)]
    return order + [Slot(stage, False, index) for index in range(microbatches - ahead, microbatches)]


def one_forward_one_backward(stages: int, microbatches: int) -> list[Slot]:
    """All stages' slots, each after those it depends on: its stage's one before, and its neighbour's result."""
    waiting = [stage_order(stage, stages, microbatches)[::-1] for stage in range(stages)]
    done: set[Slot] = set()
    out: list[Slot] = []
    while any(waiting):
        for order in waiting:
            while order and _ready(order[-1], stages, done):
                out.append(order.pop())
                done.add(out[-1])
    return out


def _ready(slot: Slot, stages: int, done: set[Slot]) -> bool:
    if slot.forward:
        return slot.stage == 0 or Slot(slot.stage - 1, True, slot.microbatch) in done
    return slot.stage == stages - 1 or Slot(slot.stage + 1, False, slot.microbatch) in done
