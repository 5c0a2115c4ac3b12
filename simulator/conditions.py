"""What ranks' devices, nodes and links report beside their work: healthy readings, and those a fault shows on.

Rule of this file: readings follow from the faults and a seed of their own; timings are not looked at.
"""

from typing import NamedTuple

import numpy as np

from paceline.columns import end_of_link
from paceline.events import Column, ConditionColumns, LinkColumns

from . import raw_columns
from .fault import REASONS, Fault
from .spec import BUS_BYTES_PER_S, Spec

#: Clock of a card that is not held back, and its memory.
CLOCK_MHZ, MEMORY_BYTES = 1980.0, 80 * 2**30
#: Memory that a rank uses, how busy it keeps its device, and how warm a device is whose cooling fails.
MEMORY_USED_BYTES, BUSY_RATIO, HOT_CELSIUS = MEMORY_BYTES * 7 // 10, 0.96, 89.0
#: Round trip between two nodes, and how many times longer it is over a slow link of size 1.
_RTT_S, _SLOW = 100e-6, 300.0


def active(faults: list[Fault], rank: int, steps: range) -> list[Fault]:
    """The faults on ``rank`` that hit any of ``steps``."""
    return [one for one in faults if rank in one.ranks and one.first < steps.stop and steps.start <= one.last]


class Signs(NamedTuple):
    """What shows of faults on the device and the node of a rank; ``slower``: how many times slower the clock runs."""

    throttle_reasons: int
    slower: float
    hot: bool
    swap_used_bytes: int
    pressure_cpu_ratio: float
    pressure_memory_ratio: float
    pressure_io_ratio: float


def signs_of(faults: list[Fault]) -> Signs:
    """The signs of ``faults``, which hit one rank at one time."""
    throttle = next((fault for fault in faults if fault.kind == "throttle"), None)
    kinds = {fault.kind for fault in faults}
    swapping = "memory" in kinds
    return Signs(
        throttle_reasons=REASONS[throttle.reason] if throttle else 0,
        slower=1 + throttle.size if throttle else 1.0,
        hot=throttle is not None and throttle.reason == "thermal",
        swap_used_bytes=6 * 2**30 if swapping else 0,
        pressure_cpu_ratio=0.7 if "cpu" in kinds else 0.01,
        pressure_memory_ratio=0.4 if swapping else 0.0,
        pressure_io_ratio=0.3 if swapping else 0.0,
    )


class ConditionReadings:
    """Devices and nodes, a second at a time."""

    def __init__(self, spec: Spec) -> None:
        self.random = np.random.default_rng([spec.seed, 1])
        self.warm = np.round(58 + 6 * self.random.standard_normal(spec.ranks))
        self.faults = [fault for fault in spec.faults if fault.kind in ("throttle", "memory", "cpu")]
        #: By how many ranks a node has, the columns that are the same on every node where nothing is wrong.
        self.healthy: dict[int, dict[str, Column]] = {}

    def read(self, ranks: range, after_s: float, steps: range) -> ConditionColumns:
        """The conditions of ``ranks`` over a second in which they ran ``steps``, read at ``after_s``."""
        clock = CLOCK_MHZ - 15 * self.random.integers(0, 3, len(ranks))
        faults = [active(self.faults, rank, steps) for rank in ranks] if self.faults else []
        warm = self.warm[ranks.start : ranks.stop]
        if any(faults):
            signs = [signs_of(found) for found in faults]
            slower = np.array([one.slower for one in signs])
            clock = np.where(slower > 1, np.round(clock / slower), clock)
            warm = np.where([one.hot for one in signs], HOT_CELSIUS, warm)
            values = self._signs(signs)
        else:
            if len(ranks) not in self.healthy:
                self.healthy[len(ranks)] = self._signs([signs_of([])] * len(ranks))
            values = self.healthy[len(ranks)]
        return ConditionColumns(
            rank=raw_columns.whole(np.array(ranks)),
            time_s=raw_columns.offsets(np.full(len(ranks), after_s)),
            span_s=raw_columns.durations(np.ones(len(ranks))),
            values={
                "sm_clock_mhz": raw_columns.durations(clock),
                "temperature_celsius": raw_columns.durations(warm),
                **values,
            },
        )

    def _signs(self, signs: list[Signs]) -> dict[str, Column]:
        """All that ``signs`` say, one a rank, but for clock and temperature."""
        reasons, _, _, swapped, cpu, memory, io = (np.array(column) for column in zip(*signs, strict=True))
        pages = [int(self.random.poisson(4000)) if used else 0 for used in swapped.tolist()]
        same = np.ones(len(signs))
        whole, reading = raw_columns.whole, raw_columns.durations
        return {
            "throttle_reasons": whole(reasons),
            "sm_clock_max_mhz": reading(CLOCK_MHZ * same),
            "utilization_ratio": reading(BUSY_RATIO * same),
            "fb_used_bytes": whole(MEMORY_USED_BYTES * same),
            "fb_total_bytes": whole(MEMORY_BYTES * same),
            "major_faults": whole(np.array(pages)),
            "swap_used_bytes": whole(swapped),
            "pressure_cpu_ratio": reading(cpu),
            "pressure_memory_ratio": reading(memory),
            "pressure_io_ratio": reading(io),
        }


class LinkReadings:
    """TCP connections to the neighbours in each rank's data-parallel ring, as its kernel would report them."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.random = np.random.default_rng([spec.seed, 2])
        self.faults = [fault for fault in spec.faults if fault.kind == "link"]
        self.retransmits = np.zeros(spec.ranks, dtype=np.int64)
        found = [_ends(spec, rank) for rank in range(spec.ranks)] if spec.dp > 1 else []
        self.neighbours = [neighbour for neighbour, _ in found]
        #: (ranks, 4): the ends of the connection on which each rank sends, and of that on which it is sent to.
        self.ends = np.array([ends for _, ends in found], dtype=np.uint64)
        #: By a node's first rank, the columns of its ranks that do not change.
        self.same: dict[int, dict[str, Column]] = {}

    def read(self, ranks: range, steps: range) -> LinkColumns | None:
        """What ``ranks`` see after ``steps``; nothing where there are no neighbours."""
        if not self.neighbours:
            return None
        count, held = len(ranks), slice(ranks.start, ranks.stop)
        rtt_s = np.round(_RTT_S * np.exp(0.3 * self.random.standard_normal(count)), 6)
        if self.faults:
            rtt_s *= [self._longer(rank, steps) for rank in ranks]
        peer_rtt_s = np.full((count, 2), np.nan)
        peer_rtt_s[:, 0] = rtt_s
        if ranks.start not in self.same:
            ends = self.ends[held].reshape(-1, 2)
            self.same[ranks.start] = {
                "rank": raw_columns.whole(np.array(ranks)),
                "connections": raw_columns.whole(np.full(count, 2)),
                "rated_bytes_per_s": raw_columns.encoded("f8", np.full(count, BUS_BYTES_PER_S)),
                "of": raw_columns.whole(np.repeat(np.arange(count), 2)),
                "local": raw_columns.encoded("u8", ends[:, 0]),
                "remote": raw_columns.encoded("u8", ends[:, 1]),
            }
        return LinkColumns(
            **self.same[ranks.start],
            rtt_s=raw_columns.durations(rtt_s),
            retransmits=raw_columns.whole(self.retransmits[held]),
            peer_rtt_s=raw_columns.durations(peer_rtt_s),
        )

    def _longer(self, rank: int, steps: range) -> float:
        """How many times longer the faults make the round trip of ``rank``, which may send again what was lost."""
        own = max((fault.size for fault in active(self.faults, rank, steps)), default=0.0)
        its = max((fault.size for fault in active(self.faults, self.neighbours[rank], steps)), default=0.0)
        self.retransmits[rank] += int(self.random.poisson(20)) if own else 0
        return 1 + _SLOW * max(own, its)


def _ends(spec: Spec, rank: int) -> tuple[int, tuple[int, int, int, int]]:
    """Whom ``rank`` sends to, and the ends of that connection and of the one on which it is sent to."""
    dp, tp, pp = spec.place(rank)
    first = pp * spec.dp * spec.tp + tp
    ring = range(first, first + spec.dp * spec.tp, spec.tp)
    after, before = ring[(dp + 1) % spec.dp], ring[dp - 1]
    sends, takes = _end(rank, 20_000 + after % 8192), _end(after, 40_000 + rank % 8192)
    return after, (sends, takes, _end(rank, 40_000 + before % 8192), _end(before, 20_000 + rank % 8192))


def _end(rank: int, port: int) -> int:
    return end_of_link(f"10.{rank >> 16}.{rank >> 8 & 255}.{rank & 255}:{port}")
