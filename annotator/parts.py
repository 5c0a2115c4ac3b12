"""The parts of one annotator, and whether they can work.

Rule of this file: it only looks.
"""

import time
from typing import NamedTuple

from .annotating import Annotating
from .book import Book
from .bus_reader import BusReader
from .kube_api import KubeApi
from .kube_objects import KubeObjects
from .watcher import Watcher


class Parts(NamedTuple):
    """What runs."""

    api: KubeApi
    bus: BusReader
    watchers: list[Watcher]
    annotating: Annotating
    objects: KubeObjects
    book: Book

    def waits(self) -> str | None:
        """Why nothing is written now; None while all is."""
        reasons = (self.bus.waits(), *(watcher.waits() for watcher in self.watchers))
        first = next(filter(None, reasons), None)
        paused_s = self.annotating.budget.paused_s(time.time())
        return first or (f"the API of Kubernetes is busy or away for {paused_s:.0f} s more" if paused_s else None)

    def read(self) -> bool:
        """Whether all that was there has been read once."""
        return self.bus.caught_up and all(watcher.listed or watcher.refused for watcher in self.watchers)
