"""Samplers of several ranks in one process, for tests."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from paceline.balance.plan import Plan
from paceline.balance.sampler import BalancedSampler, place

__all__ = ["BalancedSampler", "DataLoader", "Stream", "install", "place", "sampler_of", "samplers"]


class Stream(IterableDataset[int]):
    """A dataset without indices."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


def sampler_of(rank: int, world: int, dataset: Any, batch: int, **more: Any) -> BalancedSampler:
    """The sampler that ``rank`` of ``world`` would make."""
    made = type("Placed", (BalancedSampler,), {"_place": staticmethod(lambda: (rank, world))})
    return made(dataset, batch, **more)


def samplers(world: int, size: int, batch: int, **more: Any) -> list[BalancedSampler]:
    """Those of all ranks, over ``size`` samples."""
    return [sampler_of(rank, world, range(size), batch, **more) for rank in range(world)]


def install(all_of: Sequence[BalancedSampler], shares: Sequence[int]) -> int:
    """As ranks do it in band: a plan from the first batch that none has handed out, which is answered."""
    first = max(sampler.handout.highest for sampler in all_of) + 1
    for sampler in all_of:
        sampler.handout.install(Plan(sampler.handout.plan.version + 1, first, tuple(shares)))
    return first
