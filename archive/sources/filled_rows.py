"""A grid's windows as rows of the archive's table of GPUs, where they are missing there.

Rule of this file: pure. ``samples`` of a row is its seconds: the collectors sample once a second, so that a mean over
rows of both kinds weighs time.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paceline.history.manifest import SEVERAL
from paceline.history.table import PROMETHEUS, SOURCE, Table
from paceline.history.tables import DEVICE_WINDOW

from ..addition import Addition
from ..buffers import MOST_CLUSTERS, Place, day
from ..column_buffers import schema
from .gpu_grid import Cells, Grid
from .gpu_metrics import WINDOW_S

#: Rows of one addition, so that a commit is short.
MOST_ROWS = 50_000
Numbers = NDArray[np.int64]


def filled(grid: Grid, missing: NDArray[np.bool_]) -> Iterator[Addition]:
    """The windows of ``grid`` that are ``missing`` (GPUs x steps), a few at a time."""
    gpus, steps = np.nonzero(missing & grid.there())
    means, maxima = grid.columns()
    for first in range(0, len(gpus), MOST_ROWS):
        rows = _rows(grid, gpus[first : first + MOST_ROWS], steps[first : first + MOST_ROWS], means, maxima)
        yield Addition(list(_by_file(rows)), filled=True)


def _rows(grid: Grid, gpus: Numbers, steps: Numbers, means: dict[str, Cells], maxima: dict[str, Cells]) -> pa.Table:
    every = list(grid.gpus)
    named = [every[at] for at in gpus.tolist()]
    told: dict[str, object] = {
        "cluster": [gpu.cluster for gpu in named],
        "node": [gpu.node for gpu in named],
        "device": [gpu.device for gpu in named],
        "job": [grid.job(at, step) for at, step in zip(gpus.tolist(), steps.tolist(), strict=True)],
        "start_s": grid.begin_s + steps * WINDOW_S,
        "length_s": np.full(len(steps), WINDOW_S),
        "samples": np.full(len(steps), int(WINDOW_S)),
        SOURCE: [PROMETHEUS] * len(steps),
    }
    told |= {f"mean_{name}": cells[gpus, steps] for name, cells in means.items()}
    told |= {f"max_{name}": cells[gpus, steps] for name, cells in maxima.items()}
    arrays = []
    for field in schema(DEVICE_WINDOW):
        values = told.get(field.name)
        empty = pa.nulls(len(steps), field.type)
        arrays.append(empty if values is None else pa.array(values, field.type, from_pandas=True))
    return pa.Table.from_arrays(arrays, schema=schema(DEVICE_WINDOW))


def _by_file(rows: pa.Table) -> Iterator[tuple[Place, Table, pa.Table]]:
    """Rows by day and cluster; those of clusters beyond the first many share a file."""
    clusters, times = rows.column("cluster").to_pylist(), rows.column("start_s").to_pylist()
    own = set(sorted(set(clusters))[:MOST_CLUSTERS]) - {SEVERAL}
    files: dict[Place, list[int]] = {}
    for at, (cluster, time_s) in enumerate(zip(clusters, times, strict=True)):
        where = Place(DEVICE_WINDOW.name, day(time_s), cluster if cluster in own else SEVERAL)
        files.setdefault(where, []).append(at)
    for where, numbers in files.items():
        yield where, DEVICE_WINDOW, rows.take(pa.array(numbers))
