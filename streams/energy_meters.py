"""What ``/metrics`` tells of energy: joules a node, by job, as counters.

Rule of this file: pure and bounded; time is an argument. Each node has accounts of its own, for it belongs to one
worker, and a series that ends with its node never makes another fall. A job is told of on a node while it is there, and
for as long afterwards as it takes to read its last word.
"""

from collections import OrderedDict

from paceline.energy.energy_book import EnergyBook
from paceline.events import MEDIUM_WINDOW_S, DeviceWindow, HostWindow
from paceline.events.silence import SERIES_SILENT_S

#: Windows that are counted.
COUNTED_S = MEDIUM_WINDOW_S
#: Nodes at a time (the newest heard), and jobs of each.
MOST_NODES, MOST_JOBS = 10_000, 64
Labels = tuple[str, ...]
Key = tuple[str, str]


class EnergyMeters:
    """Hears windows of devices and hosts; ``values`` has the joules by job, node and part."""

    def __init__(self) -> None:
        self._nodes: OrderedDict[Key, tuple[EnergyBook, float]] = OrderedDict()

    def hear(self, window: DeviceWindow | HostWindow, now_s: float) -> None:
        """Count a window in."""
        if window.length_s != COUNTED_S:
            return
        key = (window.cluster, window.node)
        book = self._nodes.pop(key, (None, 0.0))[0] or EnergyBook(COUNTED_S, most_jobs=MOST_JOBS)
        self._nodes[key] = (book, now_s)
        book.update(window)
        if len(self._nodes) > MOST_NODES:
            self._nodes.popitem(last=False)

    def clear(self) -> None:
        """The nodes are somebody else's now."""
        self._nodes.clear()

    def values(self, now_s: float) -> dict[Labels, float]:
        """Joules by (job, node, part), of no job under an empty name; of nodes that are there."""
        for key in [key for key, (_, heard_s) in self._nodes.items() if now_s >= heard_s + SERIES_SILENT_S]:
            del self._nodes[key]
        told: dict[Labels, float] = {}
        for (_, name), (book, _) in self._nodes.items():
            for labels, joules in _told(name, book).items():
                told[labels] = told.get(labels, 0.0) + joules
        return told


def _told(name: str, book: EnergyBook) -> dict[Labels, float]:
    """The accounts of one node that has measured anything."""
    told: dict[Labels, float] = {}
    for node in book.nodes.values():
        newest_s = max(node.newest_device_s, node.newest_host_s)
        nobodys = {"gpu": node.idle_gpu_j, "host": node.idle_host_j, "unsampled": node.gap_j}
        told |= {("", name, part): joules for part, joules in nobodys.items() if joules > 0}
        for (_, job), account in book.jobs.items():
            if (account.until_s or 0.0) + SERIES_SILENT_S < newest_s:
                continue
            host = [one for one in (account.cpu_j, account.dram_j) if one is not None]
            if account.gpu_j is not None:
                told[job, name, "gpu"] = account.gpu_j
            if host:
                told[job, name, "host"] = sum(host)
    return told
