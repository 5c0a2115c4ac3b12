"""Hand-out: the batches that one rank has handed out and not trained on yet, by number, and the plans that cut them.

Rule of this file: a batch's number is the same on every rank, for what it counts is the batches trained on, and these
are the same everywhere. How far a rank has handed out is its own affair: loaders fetch ahead. So a new pass over the
data begins at the number after the batch trained on last, and forgets what an abandoned pass had handed out beyond it.
A plan counts from its first batch on; of several that do, the newest.
"""

from __future__ import annotations

from collections import deque
from threading import RLock
from typing import NamedTuple

from .errors import BalanceError
from .parts import Part
from .plan import MOST_RESUMED, Plan


class Handed(NamedTuple):
    """One batch as this rank was given it."""

    number: int
    epoch: int
    part: Part
    plan: Plan

    @property
    def samples(self) -> int:
        """Samples that this rank loads."""
        return max(self.part.counted, 1)


class Piece(NamedTuple):
    """What one loss is of: so many ``samples`` of a batch, which are its last ones where ``whole`` is set."""

    batch: Handed
    samples: int
    counted: int
    whole: bool


class Handout:
    """What stands between a sampler and who trains; a thread that hands out and one that switches plans may share it.

    ``followed``: somebody says what is trained on; else what is handed out counts as that.
    """

    def __init__(self, plan: Plan) -> None:
        self.lock = RLock()
        self.followed = False
        #: Whether a checkpoint's shares are taken over.
        self.resumes = True
        #: Number of the next batch to be trained on, and the highest number that is decided: handed out, or that of the
        #: batch that an epoch has no samples for.
        self.next = 0
        self.highest = -1
        #: The batch trained on last.
        self.trained: Handed | None = None
        self._plans = [plan]
        self._pending: deque[Handed] = deque()
        self._pass = 0
        self._used = 0

    @property
    def plan(self) -> Plan:
        """The newest plan, whether it counts yet or not."""
        return self._plans[-1]

    def begin(self) -> tuple[int, int]:
        """A new pass over the data: what it is called, and its first batch's number."""
        with self.lock:
            self._pass += 1
            self._pending.clear()
            self._used = 0
            self.highest = self.next - 1
            return self._pass, self.next

    def plan_at(self, number: int) -> Plan:
        """The plan that batch ``number`` is cut by."""
        return next(plan for plan in reversed(self._plans) if plan.first_batch <= number)

    def add(self, turn: int, batch: Handed) -> None:
        """``batch`` is handed out in the pass called ``turn``.

        Raises:
            BalanceError: another pass has begun since: two loops draw batches from one sampler.
        """
        if turn != self._pass:
            raise BalanceError(
                "a new pass over this BalancedSampler was begun while an earlier one was still drawn from. One sampler "
                "feeds one loop at a time: give the other loop a sampler of its own"
            )
        self._pending.append(batch)
        self.highest = batch.number
        if not self.followed:
            self._train(self._pending.popleft())

    def ended(self, turn: int, number: int) -> None:
        """The pass called ``turn`` has no batch ``number``: a plan that comes now must not give it one elsewhere."""
        if turn == self._pass:
            self.highest = max(self.highest, number)

    def take(self, samples: int | None = None) -> Piece:
        """What the next loss is of: the oldest batch handed out, or the next ``samples`` of it.

        Raises:
            BalanceError: there is none, or not so many samples are left of it.
        """
        with self.lock:
            if not self._pending:
                raise BalanceError(
                    "balancer.backward was called more often than batches were drawn from the BalancedSampler. Call it "
                    "once for each batch, in the order in which the loader gives them, or say of how many samples "
                    "each loss is: balancer.backward(loss, samples=len(x))"
                )
            batch = self._pending[0]
            left = batch.samples - self._used
            if samples is None:
                samples = left
            if not 1 <= samples <= left:
                raise BalanceError(
                    f"the loss was declared for {samples} samples, and {left} are left of the {batch.samples} of batch "
                    f"{batch.number} on this rank. Pass each sample of each batch to balancer.backward once"
                )
            self._used += samples
            whole = self._used == batch.samples
            if whole:
                self._train(self._pending.popleft())
            return Piece(batch, samples, 0 if batch.part.filler else samples, whole)

    def drop(self) -> Handed | None:
        """The rest of the oldest batch handed out is not trained on; None where there is none."""
        with self.lock:
            if not self._pending:
                return None
            batch = self._pending.popleft()
            self._train(batch)
            return batch

    def install(self, plan: Plan) -> None:
        """From its first batch on, batches are cut by ``plan``.

        Raises:
            BalanceError: it is no newer than the last one, or batches that it is for have been handed out.
        """
        with self.lock:
            if plan.version <= self.plan.version:
                raise BalanceError(f"plan {plan.version} is no newer than plan {self.plan.version}, which is in force")
            if plan.first_batch <= self.highest:
                raise BalanceError(
                    f"plan {plan.version} is for batch {plan.first_batch} on, and batch {self.highest} is handed out"
                )
            self._plans.append(plan)

    def resume(self, number: int, version: int, shares: tuple[int, ...] | None) -> None:
        """Batches are numbered from ``number`` on; what was handed out is forgotten.

        They are cut by a plan of its own, newer than ``version`` and all that were here, with ``shares``, or as before.
        A version so high that it would leave none for later plans is not gone on from: plans count from here on.
        """
        with self.lock:
            before = self.plan
            version = version if version <= MOST_RESUMED else 0
            taken = shares if shares is not None and self.resumes else before.shares
            self._plans = [Plan(max(version, before.version) + 1, number, taken)]
            self._pass += 1
            self._pending.clear()
            self._used, self.trained = 0, None
            self.next, self.highest = number, number - 1

    def _train(self, batch: Handed) -> None:
        self._used = 0
        self.trained, self.next = batch, batch.number + 1
        counts = self._plans.index(self.plan_at(self.next))
        del self._plans[:counts]
