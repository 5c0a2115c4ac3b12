"""A plan: from which batch on, who takes how many samples.

Rule of this file: pure; a plan that comes from elsewhere is checked before anything follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .worker import MOST_SAMPLES

#: Versions and batch numbers that a run can come to; up to here floats, in which ranks tell them, are exact.
MOST_NUMBER = 2**53


class PlanError(ValueError):
    """A plan that cannot be followed; the message says why, and what to do."""


@dataclass(frozen=True)
class Plan:
    """From batch ``first_batch`` on, rank r takes ``shares[r]`` samples of every global batch.

    Args:
        version: goes up by one with each plan; 0 is what a run starts with.
        first_batch: the number of a batch, over all epochs, from 0 on.
        shares: samples a rank, each at least 1.
    """

    version: int
    first_batch: int
    shares: tuple[int, ...]


def check(plan: Plan, world: int, *, total: int | None = None, flex: float = 0.0, tile: int = 1) -> None:
    """Refuses what a run of ``world`` ranks cannot follow.

    Args:
        plan: from another process, or from a checkpoint.
        world: number of ranks.
        total: samples of the global batch; None: whatever the shares come to.
        flex: the part of the total that a plan may leave out.
        tile: shares must be multiples of it.

    Raises:
        PlanError: it is for another run, or its numbers are none.

    >>> check(Plan(1, 8, (3, 5)), world=2, total=8)
    >>> check(Plan(1, 8, (3, 5)), world=3)
    Traceback (most recent call last):
    paceline.balance.plan.PlanError: plan 1 is for 2 ranks and this run has 3: it belongs to another run
    """
    for name, number in (("version", plan.version), ("first batch", plan.first_batch)):
        if not _whole(number) or not 0 <= number <= MOST_NUMBER:
            raise PlanError(f"a plan's {name} is {number!r}: it takes a whole number from 0 to {MOST_NUMBER}")
    if len(plan.shares) != world:
        raise PlanError(
            f"plan {plan.version} is for {len(plan.shares)} ranks and this run has {world}: it belongs to another run"
        )
    check_shares(plan.shares, f"plan {plan.version}", tile)
    if total is not None and not total - int(total * flex) <= sum(plan.shares) <= total:
        raise PlanError(
            f"plan {plan.version} shares out {sum(plan.shares)} samples and the global batch is {total}: "
            "it belongs to another run, or the run was started again with another global batch"
        )


def check_shares(shares: Sequence[int], name: str, tile: int = 1) -> None:
    """Refuses shares that are no numbers of samples.

    Raises:
        PlanError: a share is below one tile, no multiple of it, too large, or no whole number.
    """
    for rank, share in enumerate(shares):
        if not _whole(share) or not 1 <= share <= MOST_SAMPLES or share % tile:
            unit = f"multiple of {tile}" if tile > 1 else "whole number"
            raise PlanError(f"{name} gives rank {rank} {share!r} samples: a share is a {unit} from 1 to {MOST_SAMPLES}")


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
