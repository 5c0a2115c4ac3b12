"""Switching: ranks tell one another how long they took, decide by the same rule, and change to a plan at one batch.

Rule of this file: all ranks make the same calls in the same rounds, and decide by what was exchanged alone. A plan is
for batches that no rank has handed out yet: while they agree on the first, none hands out another.

A plan from outside is checked by ``plan.refusal`` when ranks tell one another that they hold it, and again when they
take it, for its exchange may have changed what holds. All ranks of a job must come to the same collectives whatever
outside sent to which of them: so they go by the rows of an exchange, never by a plan that one of them holds.

An exchange that is waited for lets all ranks skip the step in which one ran out of memory. Where it would cost too much
in every round, the rounds between tell in the background: what they tell is known at the end of the next.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

from paceline.training.balance_messages import ProposedPlan

from .cadence import Cadence
from .caps import lowered
from .controller import Controller
from .errors import BalanceError
from .exchange import Exchange, Gathering
from .handout import Handed, Handout
from .link import Link
from .plan import Plan, refusal
from .ready_time import Ready
from .replan import Replan
from .tiles import for_micro_batches, whole_tiles
from .worker import SplitError

#: What is told beside a time: out of memory in this round, or in one since the last exchange, and a plan's digest.
_FAILED, _HAD_FAILED, _DIGESTS = 1, 2, 4
#: Plans from outside that are refused in words; a flood of them is refused without.
_MOST_WARNED = 8
#: In how many numbers ranks tell one another which plan they mean.
_NUMBERS = 4


class Outcome(NamedTuple):
    """What a round came to: ranks that ran out of memory in it, where all know, and those told of since the last."""

    failed: list[int]
    capped: list[int]


class UnderWay(NamedTuple):
    """What ranks are telling one another about ``batch``; ``proposed`` is the plan from outside that was held then.

    ``spent_s`` is what telling took of this rank's time.
    """

    batch: Handed
    proposed: ProposedPlan | None
    gathering: Gathering
    spent_s: float


class Switching:
    """One rank's side of it; ``link`` carries plans and times from and to outside, where there is one."""

    def __init__(
        self,
        exchange: Exchange,
        handout: Handout,
        controller: Controller,
        most: Sequence[int | None],
        link: Link | None = None,
    ) -> None:
        self.controller = controller
        #: Samples that fit into each rank's memory, as far as that is known.
        self.most = list(most)
        #: How often each rank has run out of memory.
        self.ran_out = [0 for _ in most]
        self._exchange, self._handout, self._link = exchange, handout, link
        #: Samples of a micro-batch, where this rank's script takes a batch in several; else 0.
        self.micro_batch = 0
        #: The plan from outside that was refused last and the version in force then, with which it stays refused.
        self._refused: tuple[ProposedPlan, int] | None = None
        self._warned = 0
        self._cadence, self._background = Cadence(), Cadence()
        self._under_way: UnderWay | None = None
        self._heard: list[Ready] = []
        self._had_failed = False
        self._ended_s: float | None = None

    def round(self, batch: Handed, heard: Sequence[Ready], *, failed: bool) -> Outcome:
        """A round with an exchange of gradients is over; ``batch`` is its last one.

        Raises:
            BalanceError: a rank has no memory for its least share.
            SplitError: the global batch does not fit into what all ranks' memory can hold.
        """
        self._heard += heard
        self._resumed()
        began = perf_counter()
        if self._ended_s is not None:
            self._cadence.step(began - self._ended_s)
        known = self._arrived()
        outcome = (self._exchanged if self._cadence.due() else self._later)(batch, failed=failed)
        self._ended_s = perf_counter()
        return Outcome(outcome.failed, known + outcome.capped)

    def _resumed(self) -> None:
        """A checkpoint that was loaded has brought a plan of its own; one that cannot be kept is replaced."""
        plan = self._handout.plan
        if plan.version <= self.controller.version:
            return
        if refusal(self.controller.standing, plan.version, plan.shares) is None:
            self.controller.adopt(plan)
            return
        replan = Replan(self.controller.shares, "the checkpoint's shares do not fit this run", math.nan, math.nan)
        self._switch(replan.shares, plan.version + 1, replan)

    def _arrived(self) -> list[int]:
        """Take in what was told in the background; the ranks that ran out of memory then."""
        if self._under_way is None:
            return []
        under_way, self._under_way = self._under_way, None
        began = perf_counter()
        capped = self._heard_of(under_way, under_way.gathering.wait()).capped
        self._background.cost(under_way.spent_s + perf_counter() - began)
        return capped

    def _later(self, batch: Handed, *, failed: bool) -> Outcome:
        """A round that is not waited for."""
        self._had_failed |= failed
        if self._background.due():
            self._under_way = self._tell(batch, failed=False)
        return Outcome([], [])

    def _exchanged(self, batch: Handed, *, failed: bool) -> Outcome:
        under_way = self._tell(batch, failed=failed)
        began = perf_counter()
        rows = under_way.gathering.wait()
        self._cadence.cost(under_way.spent_s + perf_counter() - began)
        if self._cadence.settling():
            self._settle()
        return self._heard_of(under_way, rows)

    def _tell(self, batch: Handed, *, failed: bool) -> UnderWay:
        began = perf_counter()
        seconds, version = self._told()
        proposed = self._proposed()
        flags = _FAILED * failed + _HAD_FAILED * self._had_failed + _DIGESTS * (proposed.digest if proposed else 0)
        self._had_failed = False
        gathering = self._exchange.gather_later([seconds, version, flags])
        return UnderWay(batch, proposed, gathering, perf_counter() - began)

    def _heard_of(self, under_way: UnderWay, rows: Sequence[Sequence[float]]) -> Outcome:
        """What ranks told of a batch: memory, then times, then a plan from outside."""
        told = [int(row[2]) for row in rows]
        capped = [rank for rank, flag in enumerate(told) if flag & (_FAILED | _HAD_FAILED)]
        self._cap(under_way.batch, capped)
        self._observe(under_way.batch, rows)
        self._follow(under_way.proposed, [flag // _DIGESTS for flag in told])
        return Outcome([rank for rank, flag in enumerate(told) if flag & _FAILED], capped)

    def _told(self) -> tuple[float, int]:
        """The typical time since the last exchange under the newest plan that was measured, and that plan's version."""
        heard, self._heard = self._heard, []
        if not heard:
            return math.nan, -1
        version = max(ready.version for ready in heard)
        return statistics.median(ready.seconds for ready in heard if ready.version == version), version

    def _settle(self) -> None:
        cost_s, step_s = self._cadence.told()
        rows = self._exchange.gather([cost_s, self._background.told()[0], step_s, self.micro_batch])
        steps_s = [row[2] for row in rows]
        self._cadence.settle([row[0] for row in rows], steps_s)
        self._background.settle([row[1] for row in rows], steps_s)
        config = self.controller.config
        tile = for_micro_batches([row[3] for row in rows], config.total)
        if tile > config.tile:
            self._retile(tile)

    def _retile(self, tile: int) -> None:
        """From now on shares are whole micro-batches."""
        before = self.controller
        try:
            shares = whole_tiles(before.shares, self.most, tile)
        except SplitError:  # memory is too small for that: batches stay as they are
            return
        self.controller = Controller(replace(before.config, tile=tile), shares, self.most)
        replan = Replan(tuple(shares), f"batches are taken in micro-batches of {tile}", math.nan, math.nan)
        self._switch(shares, before.version + 1, replan)

    def _cap(self, batch: Handed, ranks: Sequence[int]) -> None:
        for rank in ranks:
            self.ran_out[rank] += 1
            share = batch.plan.shares[rank]
            most = lowered(share, self.controller.config.tile)
            if not most:
                raise BalanceError(
                    f"rank {rank} has no memory for even {share} samples. Take a smaller model or shorter samples, "
                    "activation checkpointing, or fully_shard"
                )
            held = self.most[rank]
            self.most[rank] = most if held is None else min(most, held)
            replan = self.controller.cap(rank, most)
            if replan is not None:
                self._switch(replan.shares, self.controller.version + 1, replan)

    def _observe(self, batch: Handed, rows: Sequence[Sequence[float]]) -> None:
        version = int(max(row[1] for row in rows))
        if version < 0:
            return
        times_s = [row[0] if row[1] == version and math.isfinite(row[0]) else None for row in rows]
        if self._link is not None and version == batch.plan.version:
            self._link.observed(batch.plan, batch.number, times_s, self.most, self.ran_out)
        if self._link is not None and self._link.decides:
            return
        replan = self.controller.observe(version, times_s)
        if replan is not None:
            self._switch(replan.shares, self.controller.version + 1, replan)

    def _proposed(self) -> ProposedPlan | None:
        """A plan from outside that this rank could follow; one that is for another run is told of and passed over."""
        found = self._link.proposed() if self._link is not None else None
        return found if found is not None and self._may_take(found) else None

    def _may_take(self, plan: ProposedPlan) -> bool:
        """Whether ``plan`` may be followed now; rank 0 prints why not, for the first ones."""
        if self._link is None or self._refused == (plan, self.controller.version):
            return False
        version = self.controller.version
        reason = refusal(self.controller.standing._replace(run=self._link.run, version=version), *plan)
        if reason is None:
            return True
        again = self._refused is not None and self._refused[0] == plan
        self._refused = (plan, version)
        # One that the ranks' own plan has overtaken is nobody's mistake.
        if plan.version > version and not again and self._warned < _MOST_WARNED:
            self._warned += 1
            self._link.warn(f"a plan from outside is not followed: {reason}")
        return False

    def _follow(self, proposed: ProposedPlan | None, digests: Sequence[int]) -> None:
        """Take the plan from outside, where every rank holds the very same one and it still may be taken."""
        if not digests[0] or any(digest != digests[0] for digest in digests):
            return
        with self._handout.lock:
            takes = proposed if proposed is not None and self._may_take(proposed) else None
            code = _code(takes.shares, takes.version) if takes is not None else [0.0] * _NUMBERS
            first_batch, agreed = self._agree(code)
            if takes is None or not agreed:
                return
            plan = Plan(takes.version, first_batch, takes.shares)
            self._handout.install(plan)
        self._took(plan, None)

    def _switch(self, shares: Sequence[int], version: int, replan: Replan) -> None:
        """All ranks take ``shares``, which they came to by themselves, from the first batch that none handed out."""
        with self._handout.lock:
            first_batch, agreed = self._agree(_code(shares, version))
            if not agreed:
                raise BalanceError(
                    f"ranks have come to different plans {version}. Their weights are still equal: start again from "
                    "the last checkpoint, and please tell us how this came about"
                )
            plan = Plan(version, first_batch, tuple(shares))
            self._handout.install(plan)
        self._took(plan, replan)

    def _agree(self, code: list[float]) -> tuple[int, bool]:
        """The first batch that no rank has handed out, and whether all ranks come with the same ``code``."""
        rows = self._exchange.gather([self._handout.highest, *code])
        return int(max(row[0] for row in rows)) + 1, all(row[1:] == rows[0][1:] for row in rows)

    def _took(self, plan: Plan, replan: Replan | None) -> None:
        self.controller.adopt(plan)
        if self._link is not None:
            self._link.followed(plan, replan)


def _code(shares: Sequence[int], version: int) -> list[float]:
    """What no other plan has, in numbers that a float holds exactly: a sender cannot make two plans with the same."""
    digest = hashlib.sha256(repr((version, tuple(shares))).encode()).digest()
    return [float(int.from_bytes(digest[at : at + 6], "big")) for at in range(0, 6 * _NUMBERS, 6)]
