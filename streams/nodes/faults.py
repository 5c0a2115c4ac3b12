"""From one row of a GPU to the signs of a fault in it: XIDs, memory errors, rows set aside, errors of links.

Rule of this file: a decision on rows. Counters are judged by how they rise; one that is lower than before was reset,
and one that is seen for the first time is where counting begins. Nothing that is not measured is a sign.
"""

from typing import NamedTuple

from paceline.gpu.dcgm import ECC_DBE_VOLATILE
from paceline.gpu.xids import SILENT, Part, xid
from paceline.words import many

from ..stored import Kept, Stored
from .detectors import MEND_LINKS
from .gpu_rows import Row
from .node_config import NodeConfig
from .node_episodes import Fact

#: A counter that leaps by more is damaged, not counting.
_MOST_RISE = 2**31
_RULE_XID = "NVIDIA's list of XID errors"
_RULE_UNCORRECTED = f"any error that could not be corrected is critical ({ECC_DBE_VOLATILE})"
_RULE_LINKS = "a single replay or recovery of an NVLink is one too many (DCGM's health check)"
_RULE_ASIDE = "counted by the driver; a reset makes it take effect (NVIDIA, memory error management)"


class Sign(NamedTuple):
    """A sign of a fault: of which part, whether it is proof by itself, and the fact."""

    part: Part
    proof: bool
    fact: Fact


class Faults(Stored):
    """What one GPU's counters were, and what its rows give away."""

    counters: Kept[dict[str, int]]
    totals: Kept[dict[str, int]]
    corrected_at: Kept[list[float]]
    last_xid: Kept[int]

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.counters = {}
        self.totals = {}
        self.corrected_at = []
        self.last_xid = 0

    def update(self, row: Row, lost: str | None) -> list[Sign]:
        """The signs in ``row``; ``lost`` is why the driver no longer reaches the GPU, if so."""
        signs = [*self._xid(row), *self._memory(row), *self._aside(row), *self._links(row)]
        if lost is not None and not row.answered:
            fact = Fact(
                name="lost",
                value=1.0,
                unit="",
                rule="every question to the driver is refused (NVML)",
                says=f"the driver says: {lost}",
                advice="drain the node and power-cycle it; where it comes again, reseat or replace the GPU",
                severity="critical",
            )
            signs.append(Sign("bus", True, fact))
        return signs

    def _xid(self, row: Row) -> list[Sign]:
        code = row.values.get("xid")
        if code is None:
            return []
        # A source that shows the last XID repeats it; one that shows each once does not.
        before, self.last_xid = self.last_xid, int(code)
        entry = xid(int(code))
        if entry is None or int(code) == before or int(code) in SILENT:
            return []
        fact = Fact(
            name=f"xid_{int(code)}",
            value=float(code),
            unit="XID",
            rule=_RULE_XID,
            says=f"XID {int(code)}, {entry.meaning}",
            advice=entry.advice,
            severity=entry.severity,
        )
        return [Sign(entry.part, entry.proof, fact)]

    def _memory(self, row: Row) -> list[Sign]:
        signs = []
        counted = "ecc_uncorrected" in self.counters
        rise, count = self._rise(row, "ecc_uncorrected"), row.values.get("ecc_uncorrected", 0.0)
        if rise or (not counted and count):
            since = "since it is watched" if rise else "since the driver was loaded, before it was watched"
            total = self.totals["ecc_uncorrected"] if rise else int(count)
            fact = Fact(
                name="ecc_uncorrected" if rise else "ecc_uncorrected_before",
                value=float(total),
                unit="errors",
                rule=_RULE_UNCORRECTED,
                peers=0.0,
                says=f"{many(total, 'memory error')} that could not be corrected, {since}",
                advice="drain the node and reset the GPU; replace it if this comes again",
                severity="critical",
            )
            signs.append(Sign("memory", bool(rise), fact))
        if self._rise(row, "ecc_corrected"):
            self.corrected_at = [at_s for at_s in self.corrected_at if row.at_s - at_s < self.config.corrected_within_s]
            self.corrected_at = [*self.corrected_at, row.at_s][-self.config.corrected_rises :]
            if len(self.corrected_at) >= self.config.corrected_rises:
                signs.append(Sign("memory", False, self._corrected()))
        return signs

    def _corrected(self) -> Fact:
        total = self.totals["ecc_corrected"]
        return Fact(
            name="ecc_corrected",
            value=float(total),
            unit="errors",
            rule=f"rose {self.config.corrected_rises} times within {self.config.corrected_within_s / 3600:g} h",
            peers=0.0,
            says=f"corrected memory errors go on rising, {total} since they are watched",
            advice="watch it; run dcgmi diag -r 3 when the GPU is free",
            severity="info",
        )

    def _aside(self, row: Row) -> list[Sign]:
        signs = []
        for name, what in (("retired_pages", "pages of memory retired"), ("remapped_rows", "rows of memory remapped")):
            if not self._rise(row, name):
                continue
            count = int(row.values[name])
            worn = name == "retired_pages" and count >= self.config.retired_most
            fact = Fact(
                name=name,
                value=float(count),
                unit="",
                rule=_RULE_ASIDE,
                peers=float(count - self.totals[name]),
                says=f"{what}: {count}, {self.totals[name]} of them since they are watched",
                advice="replace the GPU" if worn else "reset the GPU when it is idle; replace it if this goes on",
                severity="critical" if worn else "warning",
            )
            signs.append(Sign("memory", True, fact))
        return signs

    def _links(self, row: Row) -> list[Sign]:
        if not self._rise(row, "nvlink_errors"):
            return []
        total = self.totals["nvlink_errors"]
        fact = Fact(
            name="nvlink_errors",
            value=float(total),
            unit="errors",
            rule=_RULE_LINKS,
            peers=0.0,
            says=f"{many(total, 'error')} of its links to other GPUs since they are watched",
            advice=MEND_LINKS,
            severity="critical",
        )
        return [Sign("nvlink", True, fact)]

    def _rise(self, row: Row, name: str) -> int:
        """By how much a counter rose since it was last read; 0 at first, after a reset, and where it is not read."""
        if name not in row.values:
            return 0
        count = int(row.values[name])
        before = self.counters.get(name)
        self.counters[name] = count
        if before is None or not before < count <= before + _MOST_RISE:
            return 0
        self.totals[name] = self.totals.get(name, 0) + count - before
        return count - before
