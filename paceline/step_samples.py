"""How many samples of the training data one step of a job takes, of all ranks together.

Rule of this file: pure. A loader's batch counts once for all ranks that share it: with tensor or pipeline parallelism
once for each place of the data dimension. What is not known is None: neither guessed from other nodes nor from ranks.
"""

from collections.abc import Collection
from typing import NamedTuple

from paceline.events import JobDescribed


class DataPart(NamedTuple):
    """What one node or pod reports: its loader's batch, the world size, its ranks, and their data-parallel places.

    None for ``places`` where there is more than data parallelism and they are not reported; empty where it is all
    that is known.
    """

    batch_size: int | None
    world_size: int
    ranks: int
    places: list[int] | None


def data_part(event: JobDescribed) -> DataPart:
    """The part that ``event`` describes."""
    split = any(place.tp or place.pp for place in event.places)
    known = all(place.dp is not None for place in event.places)
    places = sorted({place.dp for place in event.places if place.dp is not None}) if known else []
    ranks = len({place.rank for place in event.places})
    return DataPart(event.batch_size, max(event.world_size, 1), ranks, None if split and not known else places)


def samples_a_step(parts: Collection[DataPart]) -> int | None:
    """Samples of all ranks together, of the batches that their loaders make; None where it is not known.

    Places are counted once all ranks have reported theirs.

    >>> samples_a_step([DataPart(4, 8, 4, [])]), samples_a_step([DataPart(4, 8, 4, [0, 1]), DataPart(4, 8, 4, [1])])
    (32, 8)
    >>> samples_a_step([DataPart(4, 8, 8, None)]), samples_a_step([DataPart(4, 8, 4, [0, 1])])
    (None, None)
    """
    batches = {part.batch_size for part in parts if part.batch_size}
    if len(batches) != 1 or any(part.places is None for part in parts):
        return None
    world = max(part.world_size for part in parts)
    replicas = {place for part in parts for place in part.places or ()}
    if not replicas:
        return batches.pop() * world
    if sum(part.ranks for part in parts if part.places) < world:
        return None
    return batches.pop() * len(replicas)
