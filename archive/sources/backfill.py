"""Back-fill from a Prometheus: what its GPUs did at times of which the archive has nothing.

Rule of this file: a door. What is missing is what the archive does not hold, so that it may be ended at any time and
nothing is filled in twice. It asks for a stretch at a time, the newest first, and for less where that is too much.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from paceline.history.store import Store
from paceline.prometheus import Metric, PrometheusError, Row, highest, mean
from paceline.prometheus_server import RefusedError, TooLargeError, series

from ..addition import Addition, SourceError
from .filled_rows import filled
from .gpu_grid import Gpu, Grid
from .gpu_metrics import OTHERS, TELLING, WINDOW_S
from .known_gpus import Seen, names, seen
from .overtaken import overtaken

log = logging.getLogger("paceline.archive")
#: Windows of one stretch: two hours.
STEPS = 24
#: What is younger is left to the bus, which may be late.
SETTLED_S = 1800.0
DAY_S = 86_400.0


class Back(NamedTuple):
    """How often and how far back a Prometheus is asked."""

    every_s: float = 3600.0
    days: float = 7.0


class Backfill:
    """Fills the archive in ``store`` from the Prometheus at ``url``; ``cluster`` is whose what names none is."""

    name = "prometheus"

    def __init__(self, url: str, store: Store, cluster: str, back: Back) -> None:
        self._url, self._store, self._cluster = url, store, cluster
        self.every_s, self._days = back.every_s, back.days
        self._left_out: set[str] = set()

    def turns(self, now_s: float) -> Generator[Addition, None, None]:
        """What fills gaps, stretch by stretch.

        Raises:
            SourceError: Prometheus does not answer, or not as Prometheus does.
            StoreError, QueryError: the archive cannot be read.
        """
        until_s = math.floor((now_s - SETTLED_S) / WINDOW_S) * WINDOW_S
        first_s = max(0.0, until_s - math.ceil(self._days * DAY_S / WINDOW_S) * WINDOW_S)
        known = names(self._store, first_s, now_s)
        while until_s > first_s:
            begin_s = max(first_s, until_s - STEPS * WINDOW_S)
            have = seen(self._store, begin_s, until_s)
            yield from overtaken(self._store, have, begin_s, until_s)
            try:
                yield from self._stretch(begin_s, until_s, have, known)
            except PrometheusError as error:
                raise SourceError(str(error)) from error
            until_s = begin_s

    def _stretch(self, begin_s: float, until_s: float, have: Seen, known: dict[str, Gpu]) -> Iterator[Addition]:
        grid = Grid(begin_s, round((until_s - begin_s) / WINDOW_S), self._cluster, known)
        for metric in TELLING:
            grid.take(metric, self._rows(metric, begin_s, until_s, mean, grid.left_out))
        missing = have.missing(grid.gpus, begin_s, grid.steps)
        if (missing & grid.there()).any():
            self._complete(grid, begin_s, until_s)
            # GPUs that the other metrics alone tell of are filled in, too.
            yield from filled(grid, have.missing(grid.gpus, begin_s, grid.steps))
        for what in grid.left_out.keys() - self._left_out:
            log.warning("Prometheus at %s: left out: %s (%d, first seen)", self._url, what, grid.left_out[what])
        self._left_out |= grid.left_out.keys()

    def _complete(self, grid: Grid, begin_s: float, until_s: float) -> None:
        for metric in OTHERS:
            grid.take(metric, self._rows(metric, begin_s, until_s, mean, grid.left_out))
        told = {metric.field for metric in (*TELLING, *OTHERS)} & grid.means.keys()
        for metric in (*TELLING, *OTHERS):
            if metric.field in told:
                grid.take(metric, self._rows(metric, begin_s, until_s, highest, grid.left_out), highest=True)

    def _rows(
        self, metric: Metric, begin_s: float, until_s: float, question: Callable[[Metric], str], left_out: Counter[str]
    ) -> list[Row]:
        """The series of ``metric``; of a stretch that is too much for Prometheus, its halves."""
        try:
            return series(self._url, metric, begin_s, until_s, question, left_out)
        except (TooLargeError, RefusedError):
            steps = round((until_s - begin_s) / WINDOW_S)
            if steps < 2:
                raise
            middle_s = begin_s + steps // 2 * WINDOW_S
            first = self._rows(metric, begin_s, middle_s, question, left_out)
            return first + self._rows(metric, middle_s, until_s, question, left_out)
