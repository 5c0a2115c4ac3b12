"""Windows that were filled in, and that the bus has told since: they are taken out again.

Rule of this file: it reads files that hold nothing but what was filled in, and leaves what nobody else told.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from paceline.history.manifest import DataFile
from paceline.history.store import Store
from paceline.history.tables import DEVICE_WINDOW

from .. import row_files
from ..addition import Addition
from ..buffers import Place
from .gpu_grid import Gpu
from .gpu_metrics import WINDOW_S
from .known_gpus import Seen, place


def overtaken(store: Store, seen: Seen, since_s: float, until_s: float) -> Iterator[Addition]:
    """What files of that time come to without the windows that ``seen`` has from the bus.

    Raises:
        StoreError: the archive cannot be read.
    """
    manifest = store.newest()
    if manifest is None or not seen.told & seen.filled:
        return
    for file in manifest.files:
        if file.filled and file.table == DEVICE_WINDOW.name and file.first_s < until_s and file.last_s >= since_s:
            yield from _without(store, file, seen)


def _without(store: Store, file: DataFile, seen: Seen) -> Iterator[Addition]:
    rows = row_files.unpacked(store.read(file.path))
    named = zip(*(rows.column(name).to_pylist() for name in ("cluster", "node", "device", "start_s")), strict=True)
    kept = np.array([place(Gpu(*gpu), int(start_s // WINDOW_S)) not in seen.told for *gpu, start_s in named])
    if not kept.all():
        left = rows.filter(pa.array(kept))
        where = Place(file.table, file.date, file.cluster)
        yield Addition([(where, DEVICE_WINDOW, left)] if left.num_rows else [], [file], filled=True)
