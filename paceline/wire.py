"""Bytes to events and back: JSON by msgspec, one decoder a topic, strict about types, lenient about extra fields.

Rule of this file: pure. What does not decode raises ``WireError`` with a reason that fits on one line; the door that
read it decides what to do (the workers send it to the dead-letter topic).
"""

import math
from typing import Any

import msgspec

from paceline import events
from paceline.topics import TOPICS, Topic

#: What is no column of node samples: who tells them, and what holds for all of them.
_NOT_COLUMNS = {
    *events.Accounted.__struct_fields__,
    "node",
    "t0_s",
    "uuids",
    "processes",
    "network_errors",
    "not_measured",
}


def sample_columns(event: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a kind of node samples that have an entry a row."""
    return tuple(name for name in event.__struct_fields__ if name not in _NOT_COLUMNS)


#: Per batch type, the groups of lists that must be equally long.
_COLUMNS: dict[type, tuple[tuple[str, ...], ...]] = {
    events.OpTimings: (
        ("ranks", "world_sizes", "devices"),
        ("rank", "step", "op", "microbatch", "start_s", "duration_s"),
    ),
    events.CollectiveTimings: (
        ("ranks", "world_sizes"),
        ("groups", "group_sizes"),
        ("rank", "step", "seq", "group", "operation", "bytes", "start_s", "duration_s", "wait_s"),
    ),
    events.DeviceSamples: (sample_columns(events.DeviceSamples),),
    events.HostSamples: (sample_columns(events.HostSamples),),
}

#: Per batch type, the columns that index a vocabulary, and that vocabulary.
_INDICES: dict[type, tuple[tuple[str, str], ...]] = {
    events.OpTimings: (("op", "ops"),),
    events.CollectiveTimings: (("group", "groups"), ("operation", "operations")),
    events.DeviceSamples: (("device", "uuids"),),
}

#: Per batch type, columns that may be left out, and the one that they are as long as otherwise.
_OPTIONAL: dict[type, tuple[tuple[str, str], ...]] = {
    events.OpTimings: (("dp", "ranks"), ("tp", "ranks"), ("pp", "ranks")),
}

_encoder = msgspec.json.Encoder()
_decoders = {topic.name: msgspec.json.Decoder(topic.event) for topic in TOPICS}


class WireError(ValueError):
    """A message that is no event of its topic: why, on one line."""


def encode(event: msgspec.Struct) -> bytes:
    """``event`` as JSON. NaN and infinity, which JSON cannot say, become null: pass readings through ``finite``."""
    return _encoder.encode(event)


def decode(topic: Topic, data: bytes) -> Any:
    """The event in ``data``.

    Raises:
        WireError: not JSON, a wrong type, a future incompatible schema, columns of unequal length, or an index
            beyond its vocabulary.
    """
    try:
        event = _decoders[topic.name].decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(str(error).replace("\n", " ")[:300]) from error
    if event.schema_version > events.SCHEMA_VERSION or event.schema_version < 1:
        raise WireError(f"schema_version {event.schema_version}: this version reads 1 to {events.SCHEMA_VERSION}")
    for columns in _COLUMNS.get(type(event), ()):
        lengths = {name: len(getattr(event, name)) for name in columns}
        if len(set(lengths.values())) > 1:
            raise WireError(f"columns of unequal length: {lengths}")
    for column, other in _OPTIONAL.get(type(event), ()):
        if getattr(event, column) and len(getattr(event, column)) != len(getattr(event, other)):
            raise WireError(f"{column} has {len(getattr(event, column))} entries, {other} {len(getattr(event, other))}")
    for column, words in _INDICES.get(type(event), ()):
        if max(getattr(event, column), default=-1) >= len(getattr(event, words)):
            raise WireError(f"{column}: an index beyond {words}, which has {len(getattr(event, words))}")
    return event


def key_of(topic: Topic, event: Any) -> str | None:
    """The message key of ``event`` on ``topic``: its job, its node, its series, its target, or none."""
    if topic.key == "none":
        return None
    if topic.key == "job/node":
        return f"{event.job}/{event.node}"
    if topic.key == "series":
        return str(event.series)
    if topic.key == "target":
        return str(event.target)
    return str(getattr(event, "job", None) or getattr(event, "node", ""))


def finite(value: float | None) -> float | None:
    """``value``, or None where it is not a number: what collectors pass every reading through."""
    return value if value is not None and math.isfinite(value) else None
