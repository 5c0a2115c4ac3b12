"""Texts of a dcgm-exporter to DeviceSamples: each is one look at the GPUs of a node, and many make a series.

Rule of this file: a scrape has no time of its own; it is the timestamps in the text, else the file's. What the numbers
mean is said in ``paceline.gpu.exporter``, for the live collector as well.
"""

from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

from paceline.events import NodeDescribed
from paceline.gpu import exporter
from paceline.gpu.exporter_text import MOST_BYTES
from paceline.gpu.sample_rows import device_samples
from paceline.timed_event import TimedEvent
from paceline.topics import DEVICE, NODE
from paceline.utf8 import as_utf8

from .notes import Notes, SourceError

#: Two exporters of one GPU tell of it at times no further apart than this, in seconds; a card that moved does not.
_TOGETHER_S = 600.0
#: Scrapes held at a time: a week of one node, every six seconds.
MOST_SCRAPES = 100_000
_CLUSTER, _NODE = "imported", "imported"
_UNKNOWN = "an exporter does not tell"


class DcgmTexts:
    """Takes in texts, then gives ``messages``."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self._scrapes: dict[tuple[str, float], exporter.Scrape] = {}

    def read(self, stream: IO[bytes], name: str, modified_s: float) -> None:
        """Take in the text of the file ``name``, written at ``modified_s``.

        Raises:
            SourceError: it is too large, or says nothing of a GPU.
        """
        data = as_utf8(stream).read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise SourceError(f"{name}: more than {MOST_BYTES // 2**20} MiB, which no text of an exporter has")
        left_out: Counter[str] = Counter()
        scrapes = exporter.scrapes(data.decode("utf-8", "replace"), left_out)
        if not scrapes:
            why = "; ".join(left_out) or "no metric of DCGM that is read"
            if b"nccl_" in data:
                why = "NCCL Inspector's metrics, which are sums and not read; its JSON is (import nccl-inspector)"
            raise SourceError(f"{name}: no text of a dcgm-exporter: {why}")
        for reason, count in left_out.items():
            self.notes.drop(reason, count)
        for scrape in scrapes:
            self._add(scrape, modified_s)

    def _add(self, scrape: exporter.Scrape, modified_s: float) -> None:
        if scrape.time_s is None:
            self.notes.remark("no timestamps in the text: each file counts for when it was last modified")
        key = (scrape.node or _NODE, modified_s if scrape.time_s is None else scrape.time_s)
        if key in self._scrapes:
            self.notes.drop("GPUs of a node at a time that another text has already", len(scrape.gpus))
            return
        if len(self._scrapes) >= MOST_SCRAPES:
            raise SourceError(f"more than {MOST_SCRAPES:,} looks at nodes: import them in parts")
        self._scrapes[key] = scrape

    def messages(self) -> Iterator[TimedEvent]:
        """Everything, by time: first what a node has, then a message a look."""
        xids: dict[str, exporter.LastXids] = {}
        numbers: Counter[str] = Counter()
        not_exported: set[str] | None = None
        for (node, at_s), scrape in self._by_time():
            producer: dict[str, Any] = {"cluster": _CLUSTER, "producer": f"import-dcgm-{node}", "node": node}
            if node not in xids:
                xids[node] = exporter.LastXids()
                self._remark_old_xids(scrape)
                described = NodeDescribed(**producer, **_inventory(scrape, at_s), sequence=0)
                yield TimedEvent(at_s, NODE, described)
            rows = [(at_s, uuid, row) for uuid, row in xids[node].rows(scrape)]
            why = exporter.not_measured(scrape)
            not_exported = {column for column in (why if not_exported is None else not_exported) if column in why}
            about = (at_s, exporter.processes(scrape), exporter.uuids(scrape), why)
            yield TimedEvent(at_s, DEVICE, device_samples(rows, *about, **producer, sequence=numbers[node]))
            numbers[node] += 1
        if not_exported:
            self.notes.remark(f"not measured: {', '.join(sorted(not_exported))}; rules on them are not fed")

    def _by_time(self) -> list[tuple[tuple[str, float], exporter.Scrape]]:
        """The looks by time, each node under one name; of two at a time the one that attributes more of its GPUs."""
        names = self._names()
        looks: dict[tuple[str, float], exporter.Scrape] = {}
        for (node, at_s), scrape in sorted(self._scrapes.items(), key=lambda item: (item[0][1], item[0][0])):
            key = (names.get(node, node), at_s)
            other = looks.get(key)
            if other is not None:
                self.notes.drop("GPUs of a node at a time that another text has already", len(scrape.gpus))
            if other is None or _attributed(other) < _attributed(scrape):
                looks[key] = scrape
        return list(looks.items())

    def _names(self) -> dict[str, str]:
        """Other names of nodes -> the one that counts: two exporters of one GPU do not call its node alike."""
        spans: dict[str, dict[str, list[float]]] = {}
        for (node, at_s), scrape in self._scrapes.items():
            for uuid in filter(exporter.has_uuid, exporter.uuids(scrape)):
                span = spans.setdefault(uuid, {}).setdefault(node, [at_s, at_s])
                span[:] = min(span[0], at_s), max(span[1], at_s)
        names: dict[str, str] = {}
        for told in spans.values():
            first, *others = sorted(told, key=lambda node: (exporter.of_an_exporter({"node": node}), node))
            begin_s, end_s = told[first]
            for node in others:
                if told[node][0] - end_s <= _TOGETHER_S and begin_s - told[node][1] <= _TOGETHER_S:
                    names[node] = names.get(first, first)
                    self.notes.remark(f"nodes {names[node]} and {node} report the same GPUs: taken for {names[node]}")
        return names

    def _remark_old_xids(self, scrape: exporter.Scrape) -> None:
        for gpu in scrape.gpus:
            if gpu.row["xid"]:
                self.notes.remark(
                    f"{gpu.uuid} on {scrape.node or _NODE} had an XID {gpu.row['xid']} before the first text: "
                    "no time is given, so it is not used"
                )


def _attributed(scrape: exporter.Scrape) -> int:
    return sum(gpu.owners is not None for gpu in scrape.gpus)


def _inventory(scrape: exporter.Scrape, at_s: float) -> dict[str, Any]:
    """What the labels tell of the node: NodeDescribed's fields but the producer's."""
    return {
        "time_s": at_s,
        "cpu_model": None,
        "cpu_count": 0,
        "memory_total_bytes": 0,
        "kernel": "",
        "driver": scrape.driver or None,
        "devices": [gpu.described for gpu in scrape.gpus],
        "not_measured": dict.fromkeys(("cpu_model", "cpu_count", "memory_total_bytes", "kernel", "cuda"), _UNKNOWN),
    }
