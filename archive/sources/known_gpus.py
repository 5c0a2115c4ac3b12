"""What an archive has of GPUs already: at which five minutes, told by whom, and how it calls each.

Rule of this file: it reads what is committed, which is the only state there is.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.history.query import History
from paceline.history.store import Store
from paceline.history.tables import DEVICE_WINDOW
from paceline.history.views import Scope

from .gpu_grid import Gpu
from .gpu_metrics import WINDOW_S

#: What begins the name of a GPU that no other has, wherever it is.
_UNIQUE = "GPU-"
_SEEN = """
SELECT DISTINCT cluster, node, device, CAST(floor(start_s / ?) AS BIGINT), source IS NOT NULL FROM device_window
"""
_NAMES = """
SELECT device, arg_max(cluster, start_s), arg_max(node, start_s) FROM device_window
WHERE starts_with(device, 'GPU-') AND source IS NULL GROUP BY device
"""
#: A GPU by its UUID, else by its whole name; and the number of its five minutes.
Place = tuple[str | Gpu, int]


class Seen(NamedTuple):
    """The windows that the bus has told, and those that were filled in."""

    told: frozenset[Place]
    filled: frozenset[Place]

    def missing(self, gpus: Iterable[Gpu], begin_s: float, steps: int) -> NDArray[np.bool_]:
        """GPUs x steps from ``begin_s`` on: where the archive has no row."""
        first = int(begin_s // WINDOW_S)
        every = [[place(gpu, first + step) for step in range(steps)] for gpu in gpus]
        missing = [[one not in self.told and one not in self.filled for one in row] for row in every]
        return np.array(missing, dtype=bool).reshape(-1, steps)


def place(gpu: Gpu, number: int) -> Place:
    """What a GPU's window of five minutes is known by."""
    return (gpu.device if gpu.device.startswith(_UNIQUE) else gpu), number


def _history(store: Store) -> History | None:
    manifest = store.newest()
    return None if manifest is None else History(store, manifest)


def seen(store: Store, since_s: float, until_s: float) -> Seen:
    """What is there between two times.

    Raises:
        StoreError, QueryError: the archive cannot be read.
    """
    told: set[Place] = set()
    filled: set[Place] = set()
    history = _history(store)
    if history is not None:
        with history.connect(Scope(since_s, until_s), (DEVICE_WINDOW.name,)) as connection:
            for cluster, node, device, number, is_filled in connection.each(_SEEN, (WINDOW_S,)):
                where = filled if is_filled else told
                where.add(place(Gpu(cluster or "", node or "", device or ""), number))
    return Seen(frozenset(told), frozenset(filled))


def names(store: Store, since_s: float, until_s: float) -> dict[str, Gpu]:
    """By UUID, what the bus called each GPU last.

    Raises:
        StoreError, QueryError: the archive cannot be read.
    """
    history = _history(store)
    if history is None:
        return {}
    with history.connect(Scope(since_s, until_s), (DEVICE_WINDOW.name,)) as connection:
        return {uuid: Gpu(cluster or "", node or "", uuid) for uuid, cluster, node in connection.each(_NAMES)}
