"""One GPU: asks every question that is due and fills a row, whatever the card and the driver refuse.

Rule of this file: no answer is None with a reason, never 0 and never an error. Time is an argument.
"""

from typing import Any

from . import gpm
from .columns import DEVICE_COLUMNS as COLUMNS
from .gpm import Gpm
from .nvml import errors, is_lost, is_passing, reason
from .pcie import Throughput
from .probes import PROBES, Ask, Probe
from .rates import Rate
from .readings import Value
from .refusals import Refusals
from .xid import Xids

#: Seconds until a lost device is tried again.
LOST_RETRY_S = 30.0
BLANK = "the driver gives no value"

Row = dict[str, Value]


class Device:
    """A device and all that is remembered of it between rows."""

    def __init__(
        self, nvml: Any, index: int, handle: Any, uuid: str, throughput: Throughput, mig: bool = False
    ) -> None:
        self.index = index
        self.uuid = uuid
        self.handle = handle
        self.lost: str | None = None
        self._nvml = nvml
        self._mig = mig
        self._throughput = throughput
        self._gpm = Gpm()
        self._xids = Xids()
        self._xid_probe = Probe(("xid",), (self._xids.ask,))
        self._probes = (*PROBES, Probe(gpm.COLUMNS, (self._gpm.ask,)))
        self._refusals = Refusals()
        self._lost_until_s = 0.0
        self._way: dict[str, Ask] = {}
        self._asked: dict[str, tuple[float, tuple[Value, ...]]] = {}
        self._rates: dict[str, Rate] = {}
        self._blank: set[str] = set()
        self._pcie_reason: str | None = None

    def sample(self, now_s: float) -> Row:
        """One row at ``now_s``, seconds of a monotonic clock."""
        row: Row = dict.fromkeys(COLUMNS)
        # A lost device still has an XID to tell: why it is lost.
        self._fill(row, self._xid_probe, now_s)
        if self.lost is not None and now_s < self._lost_until_s:
            return row
        was_lost, self.lost = self.lost is not None, None
        if self._ask_all(row, now_s):
            if was_lost:
                self._come_back()
            self._pcie(row)
            return row
        self._lost_until_s = now_s + LOST_RETRY_S
        return dict.fromkeys(COLUMNS) | {"xid": row["xid"]}

    def _ask_all(self, row: Row, now_s: float) -> bool:
        """Fill ``row``; return False, at the first question it does not answer, where the device is lost."""
        for probe in self._probes:
            self._fill(row, probe, now_s)
            if self.lost is not None:
                return False
        return True

    def _come_back(self) -> None:
        """Begin anew: what a device refused while it was lost, and what it was listening to, are of the past."""
        self.close()
        self._refusals = Refusals()

    def _fill(self, row: Row, probe: Probe, now_s: float) -> None:
        values = self._answer(probe, now_s)
        if values is None:
            return
        for column, value in zip(probe.columns, values, strict=True):
            if probe.kind == "counter":
                row[column] = _rounded(self._rates.setdefault(column, Rate()).update(value, now_s))
            else:
                row[column] = value
            known = value is not None or probe.columns == gpm.COLUMNS
            (self._blank.discard if known else self._blank.add)(column)

    def _answer(self, probe: Probe, now_s: float) -> tuple[Value, ...] | None:
        question = probe.question
        asked_s, values = self._asked.get(question, (float("-inf"), ()))
        if values and now_s - asked_s < probe.every_s:
            return values
        if not self._refusals.due(question, now_s):
            return None
        refused: Exception | None = None
        for way in self._ways(probe):
            try:
                values = way(self._nvml, self.handle)
            except errors(self._nvml) as error:
                refused = refused or error
                if is_lost(self._nvml, error) and probe is not self._xid_probe:
                    self.lost = reason(self._nvml, error)
                    return None
                continue
            self._way[question] = way
            self._asked[question] = (now_s, values)
            self._refusals.answered(question)
            return values
        # Next time every way is tried again.
        self._way.pop(question, None)
        self._asked.pop(question, None)
        if refused is not None:
            passing = is_passing(self._nvml, refused)
            self._refusals.refused(question, self._words(refused), now_s, passing=passing)
        return None

    def _ways(self, probe: Probe) -> tuple[Ask, ...]:
        known = self._way.get(probe.question)
        return probe.ways if known is None else (known,)

    def _words(self, error: Exception) -> str:
        words = reason(self._nvml, error)
        return f"{words} while MIG is on" if self._mig and words.startswith("not supported") else words

    def _pcie(self, row: Row) -> None:
        """Where the counters are refused, take the throughput that the thread measures."""
        columns = ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")
        self._pcie_reason = None
        if self._refusals.reason(columns[0]) is None:
            return
        values, self._pcie_reason = self._throughput.take(self.index, self.handle)
        row.update(zip(columns, values, strict=True))

    def reasons(self) -> dict[str, str]:
        """Why columns are not measured, by column."""
        if self.lost is not None:
            return {column: self.lost for column in COLUMNS if column != "xid"}
        found = {column: BLANK for column in COLUMNS if column in self._blank}
        for probe in (self._xid_probe, *self._probes):
            why = self._refusals.reason(probe.question)
            if probe.question.startswith("pcie_rx") and why is not None:
                why = self._pcie_reason
            if why is not None:
                found |= dict.fromkeys(probe.columns, why)
        return found

    def close(self) -> None:
        """Give back what NVML holds for it; a driver that is gone holds nothing."""
        for part in (self._gpm, self._xids):
            try:
                part.close(self._nvml)
            except self._nvml.NVMLError:
                continue


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)
