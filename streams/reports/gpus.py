"""What a recording says of each GPU: the means of its numbers, and how the table of rules reads them.

Rule of this file: pure and bounded. It judges nothing beyond the table; findings come from the decisions.
"""

from typing import Any

import numpy as np

from paceline.events import DeviceSamples
from paceline.gpu.dcgm import ECC_DBE_AGGREGATE, ECC_SBE_AGGREGATE, ONLY_DCGM, measured
from paceline.visible import visible

from ..nodes.node_config import MOST_DEVICES
from ..nodes.rules import Reading, assess

#: Columns whose mean says something; of counts and of what the link is, the highest does.
MEANS = (
    *("utilization_ratio", "memory_controller_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"),
    *("fb_used_bytes", "fb_total_bytes", "power_w", "power_limit_w", "temperature_celsius"),
    *("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"),
)
HIGHEST = ("pcie_generation", "pcie_width", "ecc_corrected", "ecc_uncorrected")
#: The same of the columns that only DCGM has, by its names.
DCGM_HIGHEST = (ECC_SBE_AGGREGATE, ECC_DBE_AGGREGATE)
DCGM_MEANS = tuple(name for name in ONLY_DCGM if name not in DCGM_HIGHEST)


class GpuReport:
    """The GPUs of a recording, in order of appearance."""

    def __init__(self) -> None:
        self.samples: dict[tuple[str, str], int] = {}
        self.sums: dict[tuple[str, str], np.ndarray[Any, np.dtype[np.float64]]] = {}
        self.most: dict[tuple[str, str], dict[str, float]] = {}

    def update(self, event: DeviceSamples) -> None:
        """Count one batch in."""
        for row, device in enumerate(event.device):
            if not 0 <= device < len(event.uuids):
                continue
            key = (event.node, event.uuids[device])
            if key not in self.samples and len(self.samples) >= MOST_DEVICES:
                continue
            self.samples[key] = self.samples.get(key, 0) + 1
            sums = self.sums.setdefault(key, np.zeros((2, len(MEANS) + len(DCGM_MEANS))))
            for place, name in enumerate((*MEANS, *DCGM_MEANS)):
                value = _measured(event, name, row)
                if value is not None:
                    sums[:, place] += (value, 1.0)
            most = self.most.setdefault(key, {})
            for name in (*HIGHEST, *DCGM_HIGHEST):
                value = _measured(event, name, row)
                if value is not None:
                    most[name] = max(value, most.get(name, value))

    def readings(self) -> dict[tuple[str, str], list[Reading]]:
        """(node, GPU) -> what the table says of its means."""
        assessed = {}
        for key, (sums, counts) in self.sums.items():
            means = {name: sums[at] / counts[at] for at, name in enumerate((*MEANS, *DCGM_MEANS)) if counts[at]}
            assessed[key] = assess(means | self.most[key])
        return assessed

    def page(self) -> str:
        """The same for people."""
        if not self.samples:
            return "no GPU was sampled: paceline collect does that on a node"
        lines = []
        for (node, uuid), readings in self.readings().items():
            lines.append(f"{uuid} on {node}, {self.samples[node, uuid]} samples")
            lines += [_line(reading) for reading in readings] or ["  nothing measured that has a rule"]
        return "\n".join(map(visible, lines))


def _measured(event: DeviceSamples, name: str, row: int) -> float | None:
    column = event.dcgm.get(name) if name in ONLY_DCGM else getattr(event, name)
    return measured(column[row]) if column else None


def _line(reading: Reading) -> str:
    value = f"{reading.value:.0%}" if reading.unit == "ratio" else f"{reading.value:g} {reading.unit}"
    advice = f"; {reading.advice}" if reading.advice else ""
    return f"  {reading.name:<26} {value:>12}  {reading.word} ({reading.rule}){advice}"
