"""What ranks' devices, nodes and links report beside their work: healthy readings, and those a fault shows on.

Rule of this file: readings follow from the faults and a seed of their own; timings are not looked at.
"""

from typing import NamedTuple

import numpy as np

from paceline.events import LinkSample, PeerLink, RankCondition

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
        self.warm = np.round(58 + 6 * self.random.standard_normal(spec.ranks)).tolist()
        self.faults = [fault for fault in spec.faults if fault.kind in ("throttle", "memory", "cpu")]

    def read(self, ranks: range, time_s: float, steps: range) -> list[RankCondition]:
        """The conditions of ``ranks`` over a second in which they ran ``steps``."""
        clocks = (CLOCK_MHZ - 15 * self.random.integers(0, 3, len(ranks))).tolist()
        return [
            self._one(rank, round(time_s, 3), clock, active(self.faults, rank, steps) if self.faults else [])
            for rank, clock in zip(ranks, clocks, strict=True)
        ]

    def _one(self, rank: int, time_s: float, clock: float, faults: list[Fault]) -> RankCondition:
        signs = signs_of(faults)
        return RankCondition(
            rank=rank,
            time_s=time_s,
            span_s=1.0,
            throttle_reasons=signs.throttle_reasons,
            sm_clock_mhz=round(clock / signs.slower) if signs.throttle_reasons else clock,
            sm_clock_max_mhz=CLOCK_MHZ,
            utilization_ratio=BUSY_RATIO,
            temperature_celsius=HOT_CELSIUS if signs.hot else self.warm[rank],
            fb_used_bytes=MEMORY_USED_BYTES,
            fb_total_bytes=MEMORY_BYTES,
            major_faults=int(self.random.poisson(4000)) if signs.swap_used_bytes else 0,
            swap_used_bytes=signs.swap_used_bytes,
            pressure_cpu_ratio=signs.pressure_cpu_ratio,
            pressure_memory_ratio=signs.pressure_memory_ratio,
            pressure_io_ratio=signs.pressure_io_ratio,
        )


class LinkReadings:
    """TCP connections to the neighbours in each rank's data-parallel ring, as its kernel would report them."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.random = np.random.default_rng([spec.seed, 2])
        self.faults = [fault for fault in spec.faults if fault.kind == "link"]
        self.retransmits: dict[int, int] = {}
        self.ends = {rank: _ends(spec, rank) for rank in range(spec.ranks)} if spec.dp > 1 else {}

    def read(self, ranks: range, steps: range) -> list[LinkSample]:
        """What ``ranks`` see after ``steps``; nothing where there are no neighbours."""
        if not self.ends:
            return []
        near = np.round(_RTT_S * np.exp(0.3 * self.random.standard_normal(len(ranks))), 6).tolist()
        return [self._one(rank, rtt_s, steps) for rank, rtt_s in zip(ranks, near, strict=True)]

    def _one(self, rank: int, rtt_s: float, steps: range) -> LinkSample:
        neighbour, ends = self.ends[rank]
        if self.faults:
            own = max((fault.size for fault in active(self.faults, rank, steps)), default=0.0)
            its = max((fault.size for fault in active(self.faults, neighbour, steps)), default=0.0)
            rtt_s *= 1 + _SLOW * max(own, its)
            self.retransmits[rank] = self.retransmits.get(rank, 0) + (int(self.random.poisson(20)) if own else 0)
        sends = PeerLink(local=ends[0], remote=ends[1], rtt_s=rtt_s)
        takes = PeerLink(local=ends[2], remote=ends[3])
        retransmits = self.retransmits.get(rank, 0)
        return LinkSample(
            rank=rank,
            connections=2,
            rtt_s=rtt_s,
            retransmits=retransmits,
            peers=[sends, takes],
            rated_bytes_per_s=BUS_BYTES_PER_S,
        )


def _ends(spec: Spec, rank: int) -> tuple[int, tuple[str, str, str, str]]:
    """Whom ``rank`` sends to, and the ends of that connection and of the one on which it is sent to."""
    dp, tp, pp = spec.place(rank)
    first = pp * spec.dp * spec.tp + tp
    ring = range(first, first + spec.dp * spec.tp, spec.tp)
    after, before = ring[(dp + 1) % spec.dp], ring[dp - 1]
    sends, takes = _end(rank, 20_000 + after % 8192), _end(after, 40_000 + rank % 8192)
    return after, (sends, takes, _end(rank, 40_000 + before % 8192), _end(before, 20_000 + rank % 8192))


def _end(rank: int, port: int) -> str:
    return f"10.{rank >> 16}.{rank >> 8 & 255}.{rank & 255}:{port}"
