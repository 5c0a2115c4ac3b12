"""What each annotation holds: small documents of JSON, one a key, each with its ``schema_version``.

Rule of this file: pure. Units end the names of numbers; numbers are rounded to what is worth telling. All text came
from outside and is made visible, on one line and bounded; a list that would be too long is cut and says so. ``at`` is
set where a document is written, and is no reason to write it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from paceline.events import DeviceDescribed, JobProfile, NodeDescribed
from paceline.ranges import ranges
from paceline.visible import visible

from .book import Job, Verdict
from .gpu_minute import SPAN_S, MeanMax, Use

SCHEMA_VERSION = 1
#: Bytes of an annotation, and of all of ours on an object. Kubernetes itself allows 256 KiB for all annotations.
MOST_BYTES, MOST_BYTES_OF_ALL = 4_096, 32_768
#: Letters of a name and of a sentence; kinds of GPU, devices, ranks' runs that are listed.
LONGEST_NAME, LONGEST_TEXT = 200, 400
MOST_KINDS, MOST_GPUS, MOST_NAMES, MOST_RUNS = 8, 16, 8, 16
#: Every key, without the prefix.
INVENTORY, USE, FINDING, JOB, KIND, CYCLE = "inventory", "gpu-use", "finding", "job", "kind", "cycle"
MAXIMA, PROPOSAL = "maxima", "proposal"
KEYS = (INVENTORY, USE, FINDING, JOB, KIND, CYCLE, MAXIMA, PROPOSAL)
Document = dict[str, Any]


def word(text: str, longest: int = LONGEST_NAME) -> str:
    """``text`` on one line, at most so long, with nothing in it that is not to be seen.

    >>> word("a" * 10, 4)
    'aaa…'
    """
    shown = visible(text[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def moment(time_s: float) -> str:
    """A time as Kubernetes writes it.

    >>> moment(0.0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(int(time_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def gpus(devices: Iterable[DeviceDescribed]) -> Document:
    """GPUs by kind: how many there are, and the memory of one; kinds that are ``left_out``."""
    counts = Counter((device.name, device.profile, device.memory_total_bytes) for device in devices)
    rows = [
        _told(kind=word(name), mig_profile=profile and word(profile, 40), count=count, memory_bytes=memory)
        for (name, profile, memory), count in sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))
    ]
    return _told(gpus=rows[:MOST_KINDS], left_out=max(0, len(rows) - MOST_KINDS) or None)


def node_inventory(described: NodeDescribed) -> Document:
    """What a node has."""
    return _told(
        schema_version=SCHEMA_VERSION,
        **gpus(described.devices),
        driver=described.driver and word(described.driver, 60),
        cuda=described.cuda and word(described.cuda, 60),
        cpu=_told(model=described.cpu_model and word(described.cpu_model, 100), count=described.cpu_count),
        memory_bytes=described.memory_total_bytes,
    )


def owner_inventory(devices: Sequence[DeviceDescribed], pods: int, nodes: int) -> Document:
    """What an owner's pods hold together."""
    return {"schema_version": SCHEMA_VERSION, **gpus(devices), "pods": pods, "nodes": nodes}


def gpu_use(uses: Mapping[str, Use], devices: Mapping[str, DeviceDescribed]) -> Document | None:
    """Each GPU in its last minute; None where nothing is heard of any."""
    order = sorted(uses, key=lambda uuid: (devices[uuid].index if uuid in devices else MOST_GPUS, uuid))
    rows = [
        _told(gpu=devices[uuid].index if uuid in devices else None, uuid=word(uuid, 80), **_use(uses[uuid]))
        for uuid in order[:MOST_GPUS]
    ]
    if not rows:
        return None
    return _told(
        schema_version=SCHEMA_VERSION, span_s=int(SPAN_S), gpus=rows, left_out=(len(order) - len(rows)) or None
    )


def owner_use(uses: Sequence[Use]) -> Document | None:
    """All GPUs of an owner together: means of the means, highest of the highest, power in sum."""
    if not uses:
        return None
    told: Document = {"schema_version": SCHEMA_VERSION, "span_s": int(SPAN_S), "gpu_count": len(uses)}
    for name in ("utilization_ratio", "memory_ratio"):
        column: list[MeanMax] = [value for use in uses if (value := getattr(use, name)) is not None]
        if column:
            stem = name.removesuffix("_ratio")
            told[f"{stem}_mean_ratio"] = _ratio(sum(value.mean for value in column) / len(column))
            told[f"{stem}_max_ratio"] = _ratio(max(value.max for value in column))
    power = [use.power_w for use in uses if use.power_w is not None]
    if power:
        told["power_mean_sum_w"] = round(sum(value.mean for value in power))
        told["power_max_w"] = round(max(value.max for value in power))
    return told


def job(told: Job, cluster: str, ranks: Sequence[int] = ()) -> Document:
    """Which job a pod or an owner runs; of a pod with its ranks."""
    return _told(
        schema_version=SCHEMA_VERSION,
        cluster=word(cluster),
        job=word(told.name),
        attempt=told.attempt,
        ranks=ranges(ranks, MOST_RUNS) if ranks else None,
    )


def kind(profile: JobProfile) -> Document | None:
    """What kind of job it is, and how sure that is."""
    if profile.kind is None:
        return None
    sure = None if profile.kind_probability is None else _ratio(profile.kind_probability)
    return _told(schema_version=SCHEMA_VERSION, kind=word(profile.kind, 60), confidence=sure)


def cycle(profile: JobProfile) -> Document | None:
    """How long its cycle is, and how sure that is."""
    if profile.cycle_period_s is None or profile.cycle_period_s <= 0:
        return None
    sure = None if profile.cycle_confidence is None else _ratio(profile.cycle_confidence)
    return _told(schema_version=SCHEMA_VERSION, period_s=_digits(profile.cycle_period_s), confidence=sure)


def finding(verdict: Verdict, others: int) -> Document:
    """The worst finding that stands, and how many others do."""
    alert = verdict.alert
    left_out = sum(max(0, len(names) - MOST_NAMES) for names in (alert.nodes, alert.devices))
    return _told(
        schema_version=SCHEMA_VERSION,
        id=word(alert.id.partition(":")[2]),
        kind=word(alert.kind, 60),
        severity=alert.severity,
        cause=word(verdict.cause, 60),
        confidence=_ratio(verdict.confidence),
        job=word(alert.job) or None,
        ranks=ranges(alert.ranks, MOST_RUNS) if alert.ranks else None,
        nodes=[word(name, 80) for name in alert.nodes[:MOST_NAMES]] or None,
        devices=[word(name, 80) for name in alert.devices[:MOST_NAMES]] or None,
        summary=word(alert.title, LONGEST_TEXT),
        others=others or None,
        left_out=left_out or None,
    )


def proposal(node: str, verdict: Verdict) -> Document:
    """A taint that a person may set: nobody else does."""
    alert = verdict.alert
    value = re.sub(r"[^a-z0-9]+", "-", alert.kind.lower()).strip("-")[:60] or "finding"
    return {
        "schema_version": SCHEMA_VERSION,
        "finding": word(alert.id.partition(":")[2]),
        "reason": word(alert.title, LONGEST_TEXT),
        "command": f"kubectl taint nodes {node} paceline.dev/suspect={value}:PreferNoSchedule",
    }


def _use(use: Use) -> Document:
    power, size = use.power_w, use.memory_bytes
    told: Document = {}
    for stem, column in (("utilization", use.utilization_ratio), ("memory", use.memory_ratio)):
        if column is not None:
            told |= {f"{stem}_mean_ratio": _ratio(column.mean), f"{stem}_max_ratio": _ratio(column.max)}
    if size is not None and use.memory_ratio is None:
        told |= {"memory_max_bytes": int(size.max)}
    if power is not None:
        told |= {"power_mean_w": round(power.mean), "power_max_w": round(power.max)}
    return told


def _told(**fields: Any) -> Document:
    """``fields`` without those that are not known."""
    return {name: value for name, value in fields.items() if value is not None}


def _ratio(value: float) -> float:
    return round(min(1.0, max(0.0, value)), 2)


def _digits(value: float) -> float:
    """Three significant digits."""
    return float(f"{value:.3g}")
