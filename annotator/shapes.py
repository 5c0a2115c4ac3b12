"""The shape of every annotation, from which its JSON Schema is made: docs/schemas/annotations.v1.json.

Rule of this file: data, and what follows from it; pure. ``documents`` makes what has these shapes, and the tests hold
each one that is written against them. Readers must take fields that they do not know.
"""

import json
from typing import Any

import msgspec

#: Every shape has these: the version of its schema, and when it was written last (it is written when it changes).
Moment = str


class Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """What all have. ``at``: when it was written, which is when something in it changed."""

    schema_version: int
    at: Moment


class GpuKind(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of one kind: ``memory_bytes`` of one of them."""

    kind: str
    count: int
    memory_bytes: int | None = None
    mig_profile: str | None = None


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processors of a node."""

    count: int
    model: str | None = None


class Inventory(Annotation, frozen=True, kw_only=True):
    """Of a node what it has, of an owner what its pods hold: then with ``pods`` and ``nodes``."""

    gpus: list[GpuKind]
    driver: str | None = None
    cuda: str | None = None
    cpu: Cpu | None = None
    memory_bytes: int | None = None
    pods: int | None = None
    nodes: int | None = None
    left_out: int | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU in its last minute: its number on the node, and what was measured."""

    uuid: str
    gpu: int | None = None
    utilization_mean_ratio: float | None = None
    utilization_max_ratio: float | None = None
    memory_mean_ratio: float | None = None
    memory_max_ratio: float | None = None
    memory_max_bytes: int | None = None
    power_mean_w: int | None = None
    power_max_w: int | None = None


class GpuUse(Annotation, frozen=True, kw_only=True):
    """Of a node or pod each GPU; of an owner all of them together: means of the means, highest of the highest."""

    span_s: int
    gpus: list[Gpu] | None = None
    left_out: int | None = None
    gpu_count: int | None = None
    utilization_mean_ratio: float | None = None
    utilization_max_ratio: float | None = None
    memory_mean_ratio: float | None = None
    memory_max_ratio: float | None = None
    power_mean_sum_w: int | None = None
    power_max_w: int | None = None


class Finding(Annotation, frozen=True, kw_only=True):
    """The worst finding that stands, and how many ``others`` do."""

    id: str
    kind: str
    severity: str
    cause: str
    confidence: float
    summary: str
    job: str | None = None
    ranks: str | None = None
    nodes: list[str] | None = None
    devices: list[str] | None = None
    others: int | None = None
    left_out: int | None = None


class RunningJob(Annotation, frozen=True, kw_only=True):
    """The job that runs there, as Paceline calls it; of a pod with its ranks."""

    cluster: str
    job: str
    attempt: int
    ranks: str | None = None


class KindOfJob(Annotation, frozen=True, kw_only=True):
    """What kind of job it is."""

    kind: str
    confidence: float | None = None


class Cycle(Annotation, frozen=True, kw_only=True):
    """How long its cycle is."""

    period_s: float
    confidence: float | None = None


class Most(msgspec.Struct, frozen=True, kw_only=True):
    """The highest value of any GPU of the owner, and when it was ``seen``."""

    value: float
    seen: Moment


class Highest(Annotation, frozen=True, kw_only=True):
    """What was the highest ever seen; it stays when the pods are gone."""

    utilization_ratio: Most | None = None
    memory_ratio: Most | None = None
    memory_bytes: Most | None = None
    power_w: Most | None = None


class Proposal(Annotation, frozen=True, kw_only=True):
    """A command that a person may run; nobody else does."""

    finding: str
    reason: str
    command: str


#: By key, without the prefix.
SHAPES: dict[str, type[Annotation]] = {
    "cycle": Cycle,
    "finding": Finding,
    "gpu-use": GpuUse,
    "inventory": Inventory,
    "job": RunningJob,
    "kind": KindOfJob,
    "maxima": Highest,
    "proposal": Proposal,
}


def schema() -> dict[str, Any]:
    """The JSON Schema of an object whose fields are the annotations, each read as JSON."""
    told, parts = msgspec.json.schema_components(list(SHAPES.values()), ref_template="#/$defs/{name}")
    properties = {f"paceline.dev/{key}": one for key, one in zip(SHAPES, told, strict=True)}
    title = "Annotations of paceline annotate, each read as JSON"
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": title, "type": "object", "properties": properties, "$defs": parts}


def page() -> str:
    """The text of docs/schemas/annotations.v1.json."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
