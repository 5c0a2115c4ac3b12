"""One GPU: asks every question that is due and fills a row, whatever the card and the driver refuse.

Rule of this file: no answer is None with a reason, never 0 and never an error. Time is an argument.
"""

from typing import Any

from paceline.gpu.amd_queries import Throttling
from paceline.gpu.answers import Answers
from paceline.gpu.driver import Driver
from paceline.gpu.queries import QUERIES, Query
from paceline.gpu.sample_rows import DEVICE_COLUMNS as COLUMNS
from paceline.gpu.sample_rows import Row

from . import gpm
from .gpm import Gpm
from .pcie import Throughput
from .rates import Rate
from .xid_listener import XidListener

#: Seconds until a lost device is tried again.
LOST_RETRY_S = 30.0
BLANK = "the driver gives no value"
_XID_COLUMNS = ("xid",)
#: What is told of the time between two questions: the first has none, and that passes.
_INTERVALS = (gpm.COLUMNS, Throttling.COLUMNS)
#: Column -> what fills it, read off the questions that are asked; docs/gpu-rules.md says by it which rules are fed.
SOURCES: dict[str, str] = {
    **{column: "NVML collector" for query in QUERIES for column in query.columns},
    **dict.fromkeys(gpm.COLUMNS, "NVML collector, from Hopper on"),
    **dict.fromkeys(_XID_COLUMNS, "NVML collector"),
}


class Device:
    """A device and all that is remembered of it between rows."""

    #: The GPU that it is a part of: none.
    parent: str | None = None

    def __init__(self, driver: Driver, index: int, handle: Any, uuid: str, throughput: Throughput) -> None:
        self.index = index
        self.uuid = uuid
        self.handle = handle
        #: Whether MIG is on, as of the last look at its instances.
        self.mig = False
        self._answers = Answers(driver, handle)
        self._driver = driver
        self._throughput = throughput
        self._gpm = Gpm()
        self._xids = XidListener()
        self._xid_query = Query(_XID_COLUMNS, (self._xids.ask,))
        activity = Query(gpm.COLUMNS, (self._gpm.ask,))
        asked = (*driver.queries, *driver.remembering(), activity)
        self._queries = tuple(query for query in asked if query.question not in driver.untold)
        self._lost_until_s = 0.0
        self._rates: dict[str, Rate] = {}
        self._blank: set[str] = set()
        self._pcie_reason: str | None = None

    @property
    def lost(self) -> str | None:
        """Why the device is gone, or None."""
        return self._answers.lost

    def sample(self, now_s: float) -> Row:
        """One row at ``now_s``, seconds of a monotonic clock."""
        row: Row = dict.fromkeys(COLUMNS)
        # A lost device still has an XID to tell: why it is lost.
        if self._xid_query.question not in self._driver.untold:
            self._fill(row, self._xid_query, now_s)
        if self.lost is not None and now_s < self._lost_until_s:
            return row
        was_lost, self._answers.lost = self.lost is not None, None
        if self._ask_all(row, now_s):
            if was_lost:
                self._come_back()
            self._pcie(row)
            return row
        self._lost_until_s = now_s + LOST_RETRY_S
        return dict.fromkeys(COLUMNS) | {"xid": row["xid"]}

    def _ask_all(self, row: Row, now_s: float) -> bool:
        """Fill ``row``; return False, at the first question it does not answer, where the device is lost."""
        for query in self._queries:
            self._fill(row, query, now_s)
            if self.lost is not None:
                return False
        return True

    def _come_back(self) -> None:
        """Start again: what a device refused while it was lost, and what it was listening to, are of the past."""
        self.close()
        self._answers.restart()

    def _fill(self, row: Row, query: Query, now_s: float) -> None:
        values = self._answers.ask(query, now_s, even_lost=query is self._xid_query)
        if values is None:
            return
        for column, value in zip(query.columns, values, strict=True):
            if query.kind == "counter":
                rate = _rounded(self._rates.setdefault(column, Rate()).update(value, now_s))
                row[column] = self._answers.judged(column, rate)
            else:
                row[column] = value
            told = value is not None or query.columns in _INTERVALS
            (self._blank.discard if told else self._blank.add)(column)

    def _words(self, why: str | None) -> str | None:
        if why is None or not self.mig or not why.startswith("not supported"):
            return why
        return f"{why} while MIG is on"

    def _pcie(self, row: Row) -> None:
        """Where the counters are refused, take the throughput that the thread measures."""
        columns = ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")
        self._pcie_reason = None
        if self._answers.reason(columns[0]) is None:
            return
        values, self._pcie_reason = self._throughput.latest(self.index, self.handle)
        row.update((column, self._answers.judged(column, value)) for column, value in zip(columns, values, strict=True))

    def reasons(self) -> dict[str, str]:
        """Why columns are not measured, by column."""
        if self.lost is not None:
            return {column: self.lost for column in COLUMNS if column != "xid"}
        reasons = {column: BLANK for column in COLUMNS if column in self._blank} | dict(self._driver.untold)
        reasons |= self._answers.impossible
        for query in (self._xid_query, *self._queries):
            why = self._words(self._answers.reason(query.question))
            if query.question.startswith("pcie_rx") and why is not None:
                why = self._pcie_reason
            if why is not None:
                reasons |= dict.fromkeys(query.columns, why)
        return reasons

    def close(self) -> None:
        """Give back what the driver holds for it; a driver that is gone holds nothing."""
        for part in (self._gpm, self._xids):
            try:
                part.close(self._driver.library)
            except self._driver.errors():
                continue


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)
