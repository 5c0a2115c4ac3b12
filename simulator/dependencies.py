"""When everything happens: who waits for whom follows from the work alone.

Rule of this file: dependencies only, vectorised over steps and ranks. Every step ends in a collective that all ranks
leave together (the gradients' all-reduce, or that of their norm); times count from where the step before left it.
"""

from typing import NamedTuple

import numpy as np

from .pipeline_schedule import one_forward_one_backward
from .spec import Spec
from .work import Array, Work

#: What a message between stages takes, as a share of the step.
_HOP = 0.001


class StepTimes(NamedTuple):
    """Seconds since all left the step before. S steps, R ranks, C collectives.

    ``start``: (S, R); ``wait``: (S, R) time stood still; ``leave``: (S,); ``issued``, ``left``, ``stood``: (S, R, C)
    of the collectives.
    """

    start: Array
    wait: Array
    leave: Array
    issued: Array
    left: Array
    stood: Array


def run(work: Work, spec: Spec, optimizer_before: Array) -> StepTimes:
    """The timeline of ``work``; ``optimizer_before``, (ranks,), is what the step before the first still had to do."""
    start = np.concatenate([optimizer_before[None], work.optimizer[:-1]])
    before = start + work.evaluation + work.checkpoint + work.data
    if spec.pp > 1 or spec.tp > 1:
        return _pipeline(work, spec, start, before)
    if spec.fsdp:
        return _sharded(work, spec, start, before)
    return _replicated(work, spec, start, before)


def _replicated(work: Work, spec: Spec, start: Array, before: Array) -> StepTimes:
    """Plain data parallelism: buckets are reduced while the last backward runs, and only the last is waited for."""
    last = work.backward[:, :, -1].sum(axis=2)
    arrival = before + (work.forward + work.backward).sum(axis=(2, 3))
    transfer = work.transfer + work.link.max(axis=1)
    leave = arrival.max(axis=1) + transfer
    wait = leave[:, None] - arrival
    count = spec.collectives
    portion = np.arange(1, count + 1) / max(count, 1)
    issued = arrival[..., None] - last[..., None] * (1 - portion)
    left = np.broadcast_to(issued.max(axis=1)[:, None], issued.shape) + transfer[:, None, None] / 4
    if count:
        left[:, :, -1] = leave[:, None]
    # Without phases only the communication stream is seen: a transfer begins when the one before it is done.
    stream = np.maximum(issued, np.concatenate([issued[:, :, :1], left[:, :, :-1]], axis=2))
    stood = np.zeros_like(issued) if spec.phases else np.maximum(left - stream, 0.0)
    if count:
        stood[:, :, -1] = wait
    return StepTimes(start, wait, leave, issued, left, stood)


def _sharded(work: Work, spec: Spec, start: Array, before: Array) -> StepTimes:
    """Sharded parameters: ranks meet at every block, to gather in the forward and to scatter in the backward."""
    steps, ranks, _, blocks = work.forward.shape
    own = np.stack([work.forward, work.backward], axis=3).reshape(steps, ranks, -1)
    transfer = ((work.transfer + work.link.max(axis=1)) / own.shape[2])[:, None]
    own_first = own.copy()
    own_first[:, :, 0] += before
    meet = np.cumsum(own_first.max(axis=1) + transfer, axis=1)  # (steps, meetings)
    begin = np.concatenate([np.zeros((steps, 1)), meet[:, :-1]], axis=1)[:, None]
    issued = begin + own_first
    left = np.broadcast_to(meet[:, None], issued.shape)
    stood = left - issued
    count = 2 * blocks if spec.collectives else 0
    keep = slice(own.shape[2] - count, None)
    return StepTimes(start, stood.sum(axis=2), meet[:, -1], issued[:, :, keep], left[:, :, keep], stood[:, :, keep])


def _pipeline(work: Work, spec: Spec, start: Array, before: Array) -> StepTimes:
    """1F1B over stages; tensor-parallel ranks go in step; then gradients over the data dimension, and their norm."""
    steps = start.shape[0]
    grid = (steps, spec.pp, spec.dp, spec.tp)
    forward = work.forward.sum(axis=3).reshape(*grid, -1)
    backward = work.backward.sum(axis=3).reshape(*grid, -1)
    link = work.link.reshape(grid).max(axis=3)
    now = _done(forward.max(axis=3), backward.max(axis=3), link, before.reshape(grid).max(axis=3), spec)
    arrival = np.repeat(now[..., None], spec.tp, axis=3)
    reduced = arrival.max(axis=2, keepdims=True) + (work.transfer[:, None] + link.max(axis=2))[:, :, None, None]
    leave = reduced.max(axis=(1, 2, 3))
    flat = (steps, spec.ranks)
    own = (forward.sum(axis=4) + backward.sum(axis=4)).reshape(flat)
    issued = np.stack([arrival.reshape(flat), np.broadcast_to(reduced, grid).reshape(flat)], axis=2)
    left = np.stack([issued[:, :, 1], np.broadcast_to(leave[:, None], flat)], axis=2)
    count = 2 if spec.collectives else 0
    return StepTimes(
        start,
        leave[:, None] - before - own,
        leave,
        issued[:, :, :count],
        left[:, :, :count],
        (left - issued)[:, :, :count],
    )


def _done(forward: Array, backward: Array, link: Array, now: Array, spec: Spec) -> Array:
    """When each stage has done its last forward and backward, (S, P, D); ``now``: when it begins its first."""
    now = now.copy()
    forward_start, backward_start = np.empty_like(forward), np.empty_like(backward)
    hop = _HOP * spec.step_s + link / (2 * spec.microbatches)
    for stage, ahead, batch in one_forward_one_backward(spec.pp, spec.microbatches):
        starts, lengths = (forward_start, forward) if ahead else (backward_start, backward)
        source = stage - 1 if ahead else stage + 1
        begin = now[:, stage]
        if 0 <= source < spec.pp:
            sent = starts[:, source, :, batch] + lengths[:, source, :, batch]
            begin = np.maximum(begin, sent + np.maximum(hop[:, source], hop[:, stage]))
        starts[:, stage, :, batch] = begin
        now[:, stage] = begin + lengths[:, stage, :, batch]
    return now
