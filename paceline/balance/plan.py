"""A plan: from which batch on, who takes how many samples.

Rule of this file: pure. ``refusal`` is the one place that says whether a plan from outside (the bus, a sidecar, a file
or a checkpoint) may be taken now; it never raises, whatever the numbers. Plans that ranks make among themselves have
the same bounds, by ``check``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .worker import MOST_SAMPLES

#: Versions and batch numbers that a run can come to; up to here floats, in which ranks tell them, are exact.
MOST_NUMBER = 2**53
#: A plan from outside is at most so many versions ahead: however many are sent, versions for the ranks' own plans are
#: left, and a mistaken one is overtaken by the next.
MOST_AHEAD = 2**20
#: Versions and batch numbers that are taken over from a checkpoint: beyond, too few would be left.
MOST_RESUMED = 2**52


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


class Standing(NamedTuple):
    """What holds in a run now, as far as it is known where a plan arrives; what is not known refuses nothing.

    Args:
        world: number of ranks.
        run: the number that the ranks drew when they started; None: a plan of any run (a checkpoint's).
        version: of the plan in force; None: any version.
        total: samples of the global batch; None: any.
        flex: the part of the total that a plan may leave out.
        tile: shares are multiples of it.
        most: samples that each rank can hold; None: as many as there are. Empty: not known.
    """

    world: int
    run: int | None = None
    version: int | None = None
    total: int | None = None
    flex: float = 0.0
    tile: int = 1
    most: Sequence[int | None] = ()


def refusal(now: Standing, version: int, shares: Sequence[int], run: int = 0) -> str | None:
    """Why a plan that comes from outside cannot be taken now; None: it can.

    It has no first batch: on that the ranks agree when they take it, so it is never one that was handed out.

    >>> now = Standing(world=2, run=7, version=4, total=8, most=[6, None])
    >>> refusal(now, 5, (3, 5), run=7)
    >>> refusal(now, 4, (3, 5), run=7)
    'version 4 is not newer than version 4, which is in force'
    >>> refusal(now, 5, (7, 1), run=7)
    'plan 5 gives rank 0 7 samples, and 6 fit into its memory'
    """
    if now.run is not None and run != now.run:
        return f"plan {version} was made for another run of this job"
    try:
        check(Plan(version, 0, tuple(shares)), now.world, total=now.total, flex=now.flex, tile=now.tile)
    except PlanError as error:
        return str(error)
    if now.version is not None and version <= now.version:
        return f"version {version} is not newer than version {now.version}, which is in force"
    if now.version is not None and version > now.version + MOST_AHEAD:
        return f"version {version} is more than {MOST_AHEAD} ahead of version {now.version}, which is in force"
    for rank, (share, most) in enumerate(zip(shares, now.most)):
        if most is not None and share > most:
            return f"plan {version} gives rank {rank} {share} samples, and {most} fit into its memory"
    return None


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
