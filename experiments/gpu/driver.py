"""Cases of the driver: NVML for real, and the collector's columns beside what nvidia-smi says at the same time."""

import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import NamedTuple

from experiments.gpu.bench import Bench
from experiments.gpu.case import Case, Reading
from experiments.gpu.nvidia import ask, asked_again, number
from paceline import recording, topics, wire
from paceline.events import DeviceSamples, Event, NodeDescribed

MIB = 2**20
#: How long the GPU is kept busy, how much of that is sampled, and how long it may take to become busy.
BUSY_S, SAMPLED_S, START_S = 16, 8, 25


class Field(NamedTuple):
    """A column of ours and nvidia-smi's name for it: its unit in ours, and how far the medians may be apart.

    Of ``bits`` all that were ever set count.
    """

    column: str
    asked: str
    unit: float = 1.0
    apart: float = 0.0
    share: float = 0.0
    bits: bool = False


FIELDS = (
    Field("utilization_ratio", "utilization.gpu", 0.01, apart=0.2),
    Field("memory_controller_ratio", "utilization.memory", 0.01, apart=0.2),
    Field("fb_used_bytes", "memory.used", MIB, share=0.02),
    Field("fb_total_bytes", "memory.total", MIB, share=0.01),
    Field("power_w", "power.draw", share=0.15),
    Field("power_limit_w", "enforced.power.limit", share=0.01),
    Field("temperature_celsius", "temperature.gpu", apart=3),
    Field("memory_temperature_celsius", "temperature.memory", apart=3),
    Field("sm_clock_mhz", "clocks.current.sm", share=0.1),
    Field("memory_clock_mhz", "clocks.current.memory", share=0.02),
    Field("throttle_reasons", "clocks_throttle_reasons.active", bits=True),
    Field("pcie_generation", "pcie.link.gen.current"),
    Field("pcie_width", "pcie.link.width.current"),
    Field("ecc_corrected", "ecc.errors.corrected.volatile.total"),
    Field("ecc_uncorrected", "ecc.errors.uncorrected.volatile.total"),
)


def collected(bench: Bench, *words: object) -> Iterator[Event]:
    """What the collector tells, message by message."""
    for text in bench.paceline("collect", "--stdout", *words).splitlines():
        line = recording.parse(0, text.encode() + b"\n")
        if isinstance(line, recording.Line):
            yield wire.decode(topics.resolve(line.topic), line.value)


def _nvml(bench: Bench) -> Reading:
    (node,) = (event for event in collected(bench, "--once") if isinstance(event, NodeDescribed))
    if not node.devices:
        return Reading(f"no device: {node.not_measured}", False)
    told, fields = node.devices[0], ("uuid", "name", "driver_version", "memory.total", "pcie.link.width.max")
    memory_mib = round((told.memory_total_bytes or 0) / MIB)
    ours = [told.uuid, told.name, str(node.driver), str(memory_mib), str(told.pcie_width_max)]
    differing = [
        f"{field}: {a}, nvidia-smi {b}" for field, a, b in zip(fields, ours, ask(*fields), strict=True) if a != b
    ]
    words = f"{told.name}, driver {node.driver}, CUDA {node.cuda}, {memory_mib} MiB"
    return Reading("; ".join([words, *differing]), not differing)


def _collector(bench: Bench) -> Reading:
    burning = threading.Thread(target=bench.plain, args=("burning", f"--seconds={BUSY_S}"))
    burning.start()
    end = time.monotonic() + START_S
    while (number(ask("utilization.gpu")[0]) or 0.0) < 50 and time.monotonic() < end:
        time.sleep(0.5)
    with asked_again(*(field.asked for field in FIELDS)) as answers:
        ours = [event for event in collected(bench, f"--seconds={SAMPLED_S}") if isinstance(event, DeviceSamples)]
    burning.join()
    columns = {field.column: [value for event in ours for value in getattr(event, field.column)] for field in FIELDS}
    differing, compared = compare(columns, answers)
    words = f"{compared} of {len(FIELDS)} columns compared"
    return Reading("; ".join([words, *differing]), compared >= 8 and not differing)


def compare(ours: Mapping[str, list[float | None]], answers: list[list[str]]) -> tuple[list[str], int]:
    """Our columns that are further from what was answered than they may be, and how many both tell."""
    differing, compared = [], 0
    for place, field in enumerate(FIELDS):
        column = [value for value in ours[field.column] if value is not None]
        theirs = [value for answer in answers if (value := number(answer[place])) is not None]
        if not column or not theirs:
            continue
        compared += 1
        own, other = _typical(column, field), _typical(theirs, field) * field.unit
        if abs(own - other) > field.apart + field.share * abs(other):
            differing.append(f"{field.column} {own:.4g}, nvidia-smi {other:.4g}")
    return differing, compared


def _typical(values: list[float], field: Field) -> float:
    return reduce(or_, map(int, values)) if field.bits else statistics.median(values)


CASES = (
    Case("nvml", 30, "identity, memory and driver as nvidia-smi says", "NVML is read for real", _nvml, False),
    Case("collector", 60, "every column that both tell agrees", "the collector's units and fields", _collector, False),
)
