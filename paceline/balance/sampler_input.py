"""What a sampler is made of, checked: a dataset with indices, a batch for all ranks, speeds.

Rule of this file: each refusal says what to give instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized

from torch.utils.data import IterableDataset

from .errors import BalanceError


def size_of(dataset: Sized) -> int:
    """How many samples ``dataset`` has.

    Raises:
        BalanceError: it has no indices, or no length.
    """
    if isinstance(dataset, IterableDataset):
        raise BalanceError(
            "an IterableDataset has no indices to share out. Give BalancedSampler a dataset with __len__ and "
            "__getitem__; for a stream, let each rank read its own part and keep torch's DataLoader as it is"
        )
    try:
        return len(dataset)
    except TypeError as error:
        raise BalanceError(
            f"a {type(dataset).__name__} has no length. Give BalancedSampler a dataset with __len__ and __getitem__"
        ) from error


def whole(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """``value``, a whole number from ``least`` on, up to ``most``.

    Raises:
        BalanceError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BalanceError(f"{name} is {value!r}: it takes a whole number from {least} on")
    if most is not None and value > most:
        raise BalanceError(f"{name} is {value!r}: it takes a whole number up to {most}")
    return value


def refuse(size: int, batch: int, world: int, *, drop_last: bool) -> None:
    """Refuse what leaves a rank without a sample, or an epoch without a batch.

    Raises:
        BalanceError: it does.
    """
    if batch < world:
        raise BalanceError(
            f"global_batch {batch} is smaller than the number of ranks, {world}, and each needs a sample: take "
            f"{world} or more"
        )
    if size < world:
        raise BalanceError(
            f"the dataset has {size} samples for {world} ranks, and each needs one: take more data or fewer ranks"
        )
    if size < batch and drop_last:
        raise BalanceError(
            f"the dataset has {size} samples, fewer than one global_batch of {batch}, and drop_last=True leaves that "
            f"out: no batch is left. Take a global_batch up to {size}, or drop_last=False"
        )


def weights_of(weights: Sequence[float] | None, world: int) -> list[float]:
    """Speeds of ``world`` ranks, the fastest 1; None: all are alike.

    Raises:
        BalanceError: they are not so many speeds.
    """
    if weights is None:
        return [1.0] * world
    found = [float(weight) for weight in weights]
    if len(found) != world:
        raise BalanceError(f"{len(found)} weights for {world} ranks: give one for each, in order of rank")
    for rank, weight in enumerate(found):
        if not (math.isfinite(weight) and weight > 0):
            raise BalanceError(f"rank {rank}'s weight is {weight!r}: a weight is a speed, above 0")
    largest = max(found)
    return [max(weight / largest, 1e-6) for weight in found]
