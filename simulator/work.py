"""What every rank has to do in each step, before anybody waits for anybody.

Rule of this file: draws only; the draws do not depend on the faults, so that a job with and without them can be
compared step by step.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .spec import DATA, OPTIMIZER, Spec

Array = NDArray[np.floating[Any]]

#: How much of a node's drift is left a step later.
_MEMORY = 0.95
#: The first steps allocate, compile and connect.
_WARM_UP = (6.0, 2.0, 1.3)
#: A hiccup lengthens an op by at least this share, and at most that.
_HICCUP, _WORST_HICCUP = 0.1, 5.0


@dataclass
class Work:
    """Seconds of work; S steps, R ranks, M micro-batches, B blocks in which sharded ranks meet.

    ``forward``, ``backward``: (S, R, M, B); ``data``, ``optimizer``, ``evaluation``, ``checkpoint``, ``gc``,
    ``cpu_wait`` and ``host_bound``: (S, R), the last three inside the others; ``transfer``: (S,) gradients on the wire;
    ``link``: (S, R) by how much longer the rank's network needs in the step.
    """

    data: Array
    forward: Array
    backward: Array
    optimizer: Array
    evaluation: Array
    checkpoint: Array
    gc: Array
    cpu_wait: Array
    host_bound: Array
    transfer: Array
    link: Array


class Draws:
    """Healthy work, a run of steps at a time; each call goes on where the one before ended."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.random = np.random.default_rng(spec.seed)
        noise = spec.noise
        self.device = np.exp(noise.device * self.random.standard_normal(spec.ranks))
        self.device *= [spec.rank_skew.get(rank, 1.0) for rank in range(spec.ranks)]
        self.exits = np.random.default_rng([spec.seed, 4])
        self.drift = noise.node * self.random.standard_normal(spec.nodes)
        skew = np.array([spec.stage_skew.get(stage, 1.0) for stage in range(spec.pp)])
        self.skew = np.repeat(skew, spec.ranks // spec.pp)
        self.gc_share = 0.003

    def draw(self, first: int, steps: int) -> Work:
        """The work of ``steps`` steps from step ``first``."""
        spec, own = self.spec, self.spec.own_s
        shape = (steps, spec.ranks)
        pace = self._pace(first, steps)
        batch = (1 - DATA - OPTIMIZER) * own / spec.microbatches / spec.blocks
        inner = (*shape, spec.microbatches, spec.blocks)
        sequence = self._sequences(steps)[..., None]
        compute = pace * self.skew
        if spec.early_exits:
            compute = compute * np.where(self.exits.random(shape) < spec.early_exits, 0.5, 1.0)
        forward = batch / 3 * compute[..., None, None] * sequence * self._noise(inner)
        backward = batch * 2 / 3 * compute[..., None, None] * sequence * self._noise(inner)
        collects = self.random.random(shape) < 0.02
        gc = np.where(collects, self.gc_share * own * self._noise(shape), 0.0)
        backward[:, :, -1, -1] += gc
        return Work(
            data=DATA * own * pace * self._noise(shape, 5.0),
            forward=forward,
            backward=backward,
            optimizer=OPTIMIZER * own * pace * self._noise(shape),
            evaluation=self._pause(first, steps, spec.evaluate_every, spec.evaluate_s, range(spec.ranks)),
            checkpoint=self._pause(first, steps, spec.checkpoint_every, spec.checkpoint_s, self._writers()),
            gc=gc,
            cpu_wait=0.002 * own * self.random.gamma(2.0, 0.5, shape),
            host_bound=np.zeros(shape),
            transfer=spec.transfer_s * self._noise((steps,), 2.0),
            link=np.zeros(shape),
        )

    def _noise(self, shape: tuple[int, ...], times: float = 1.0) -> Array:
        """Log-normal around 1, with a heavy tail."""
        noise = self.spec.noise
        out = np.exp(noise.op * times * self.random.standard_normal(shape, dtype=np.float32)).astype(np.float64)
        hit = self.random.random(shape, dtype=np.float32) < noise.tail / (shape[2] if len(shape) > 2 else 1)
        count = int(hit.sum())
        out[hit] *= 1 + np.minimum(_HICCUP * (1 + self.random.pareto(1.5, count)), _WORST_HICCUP)
        return np.asarray(out)

    def _pace(self, first: int, steps: int) -> Array:
        """What slows all ops of a rank in a step alike: (steps, ranks)."""
        noise, random = self.spec.noise, self.random
        drift = np.empty((steps, self.spec.nodes))
        fresh = noise.node * np.sqrt(1 - _MEMORY**2) * random.standard_normal(drift.shape)
        for step in range(steps):
            self.drift = drift[step] = _MEMORY * self.drift + fresh[step]
        common = np.exp(noise.job * random.standard_normal(steps))
        for step in range(first, min(first + steps, len(_WARM_UP))):
            common[step - first] *= _WARM_UP[step]
        if trend := self.spec.trend:
            at, factors = zip(*trend, strict=True)
            common = common * np.interp(np.arange(first, first + steps), at, factors)
        ranks = np.repeat(np.exp(drift), self.spec.ranks_a_node, axis=1)[:, : self.spec.ranks]
        return np.asarray(common[:, None] * ranks * self.device)

    def _sequences(self, steps: int) -> Array:
        """Cost of each micro-batch against the mean, (steps, ranks, micro-batches); all stages have the same.

        Linear layers cost in proportion to the length and attention to its square (here in equal parts).
        """
        spec = self.spec
        if not spec.uneven:
            return np.ones((steps, spec.ranks, spec.microbatches))
        length = np.exp(spec.uneven * self.random.standard_normal((steps, spec.dp, spec.microbatches)))
        length /= np.exp(spec.uneven**2 / 2)
        cost = (length + length**2 / np.exp(spec.uneven**2)) / 2
        return np.asarray(np.tile(np.repeat(cost, spec.tp, axis=1), (1, spec.pp, 1)))

    def _writers(self) -> range:
        """Who writes a checkpoint: every rank its shard, or rank 0 the whole."""
        return range(self.spec.ranks) if self.spec.fsdp or self.spec.pp > 1 else range(1)

    def _pause(self, first: int, steps: int, every: int, seconds: float, ranks: range) -> Array:
        out = np.zeros((steps, self.spec.ranks))
        for step in range(first, first + steps):
            if every and step and step % every == 0:
                out[step - first, : len(ranks)] = seconds * self._noise((len(ranks),), 2.0)
        return out
