"""A stretch of time of all GPUs that a Prometheus tells of, in steps of five minutes, and the rows that fill gaps.

Rule of this file: pure. It expects series with a node's and a GPU's label, a value a step at most, at the steps that
were asked for, in the metric's unit; what is otherwise is left out and counted. Several series of one GPU (pods that
share it, two exporters) are one: the mean of their means, the highest of their maxima.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.gpu.exporter import behind as renamed
from paceline.gpu.exporter import label, of_an_exporter, owner_of_labels, place_of_labels
from paceline.gpu.limits import possible
from paceline.prometheus import Metric, Row

from .gpu_metrics import FREE, WINDOW_S

#: GPUs of a stretch, beyond which no more are taken in; the longest name.
MOST_GPUS, LONGEST = 50_000, 200
Cells = NDArray[np.float64]


class Gpu(NamedTuple):
    """A GPU as the archive calls it."""

    cluster: str
    node: str
    device: str


class Grid:
    """``steps`` windows from ``begin_s`` on. ``names``: by UUID, how the archive calls a GPU that it knows."""

    def __init__(self, begin_s: float, steps: int, cluster: str, names: Mapping[str, Gpu]) -> None:
        self.begin_s, self.steps, self._cluster, self._names = begin_s, steps, cluster, names
        self.left_out: Counter[str] = Counter()
        self.gpus: dict[Gpu, int] = {}
        self._nodes: dict[str, str] = {}
        self.owners: dict[tuple[int, int], set[str]] = {}
        #: By column, GPUs x steps; NaN where nothing was measured.
        self.means: dict[str, Cells] = {}
        self.maxima: dict[str, Cells] = {}

    def take(self, metric: Metric, rows: Iterable[Row], highest: bool = False) -> None:
        """Take in all that is told of ``metric``: means, or the ``highest`` values."""
        rows = list(rows)
        behind = any(renamed(labels) for labels, _, _ in rows)
        place: dict[int, Cells] = {}
        for labels, times_s, values in sorted(rows, key=lambda row: (of_an_exporter(row[0]), sorted(row[0].items()))):
            at = self._gpu(labels)
            if at is None:
                continue
            told = self._steps(metric, times_s, values)
            before = place.get(at)
            place[at] = told if before is None else _both(before, told, highest)
            owner = _owner(labels, behind)
            if owner and not highest:
                for step in np.flatnonzero(~np.isnan(told)).tolist():
                    self.owners.setdefault((at, step), set()).add(owner)
        self._keep(self.maxima if highest else self.means, metric.field, place)

    def _gpu(self, labels: Mapping[str, str]) -> int | None:
        # An instance of a GPU under MIG tells of itself alone.
        if label(labels, "GPU_I_ID"):
            self.left_out["series of MIG instances"] += 1
            return None
        node, device = place_of_labels(labels, self._nodes)
        gpu = self._names.get(device) or Gpu(labels.get("cluster", self._cluster), node, device)
        if not gpu.node or not device or max(map(len, gpu)) > LONGEST:
            self.left_out["series that name no node or no GPU"] += 1
            return None
        if gpu not in self.gpus and len(self.gpus) >= MOST_GPUS:
            self.left_out[f"series of GPUs beyond {MOST_GPUS:,}"] += 1
            return None
        return self.gpus.setdefault(gpu, len(self.gpus))

    def _steps(self, metric: Metric, times_s: list[float], values: list[float]) -> Cells:
        """The values at their steps."""
        told = np.full(self.steps, np.nan)
        for at_s, value in zip(times_s, values, strict=True):
            step = (at_s - self.begin_s) / WINDOW_S
            if step != int(step) or not 0 <= step < self.steps:
                self.left_out["values at times that were not asked for"] += 1
            elif not possible(metric.field, value):
                self.left_out["ratios above 1"] += 1
            else:
                told[int(step)] = min(value, 1.0) if metric.field.endswith("_ratio") else value
        return told

    def _keep(self, cells: dict[str, Cells], column: str, told: Mapping[int, Cells]) -> None:
        held = self._grown(cells.get(column))
        for at, values in told.items():
            held[at] = np.where(np.isnan(held[at]), values, held[at])
        cells[column] = held

    def _grown(self, cells: Cells | None) -> Cells:
        grown = np.full((len(self.gpus), self.steps), np.nan)
        if cells is not None:
            grown[: len(cells)] = cells
        return grown

    def there(self) -> NDArray[np.bool_]:
        """GPUs x steps: where anything was told of it."""
        there = np.zeros((len(self.gpus), self.steps), bool)
        for cells in self.means.values():
            there |= ~np.isnan(self._grown(cells))
        return there

    def columns(self) -> tuple[dict[str, Cells], dict[str, Cells]]:
        """Means and maxima by column, of all GPUs; of a maximum that was not told the mean is the least that it was."""
        means = {name: self._grown(cells) for name, cells in self.means.items()}
        maxima = {name: self._grown(cells) for name, cells in self.maxima.items()}
        for name, mean in means.items():
            maxima[name] = np.fmax(mean, maxima.get(name, mean))
            maxima[name][np.isnan(mean)] = np.nan
        free = means.pop(FREE, None)
        maxima.pop(FREE, None)
        used = means.get("fb_used_bytes")
        if free is not None and used is not None:
            total = means.get("fb_total_bytes", np.full_like(used, np.nan))
            means["fb_total_bytes"] = np.where(np.isnan(total), used + free, total)
            maxima["fb_total_bytes"] = means["fb_total_bytes"]
        return means, maxima

    def job(self, at: int, step: int) -> str | None:
        """Whose GPU it was; None where nobody's, or several's."""
        owners = self.owners.get((at, step), set())
        return next(iter(owners)) if len(owners) == 1 else None


def _both(one: Cells, other: Cells, highest: bool) -> Cells:
    if highest:
        return np.fmax(one, other)
    mean = (one + other) / 2.0
    return np.where(np.isnan(mean), np.fmax(one, other), mean)


def _owner(labels: Mapping[str, str], behind: bool) -> str:
    """The job that ``labels`` name, or ""; ``behind``: some series of the answer have renamed pods."""
    owner = owner_of_labels(labels, renamed=behind)
    return "" if owner is None else owner[0][:LONGEST]
