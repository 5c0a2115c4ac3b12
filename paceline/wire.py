"""Bytes to events and back by msgspec, one decoder a topic, strict about types, lenient about extra fields: JSON, but
for the topics of the highest rates, which are MessagePack with columns of raw numbers.

Rule of this file: pure. What does not decode raises ``WireError`` with a reason that fits on one line; the door that
read it decides what to do (the workers send it to the dead-letter topic). Numbers inside raw columns are not looked at
here: who reads them bounds them.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from paceline import columns, events
from paceline.decoders import json_decoder, msgpack_decoder
from paceline.events.columns import ColumnType
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
    "dcgm",
}


def sample_columns(event: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a kind of node samples that have an entry a row."""
    return tuple(name for name in event.__struct_fields__ if name not in _NOT_COLUMNS)


#: Columns of node samples that came later: empty from an older producer.
LATER_COLUMNS = (
    *("nvlink_crc_errors", "nvlink_errors", "nvlink_rated_bytes_per_s"),
    *("cpu_energy_j", "dram_energy_j", "cpu_quota_count", "cpu_throttled_ratio"),
)


def _from_the_first(event: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in sample_columns(event) if name not in LATER_COLUMNS)


def _later(event: type[msgspec.Struct], other: str) -> tuple[tuple[str, str], ...]:
    """The columns of ``event`` that may be left out, each with the one that it is as long as otherwise."""
    return tuple((name, other) for name in sample_columns(event) if name in LATER_COLUMNS)


#: Per batch type, the groups of lists that must be equally long.
_COLUMNS: dict[type, tuple[tuple[str, ...], ...]] = {
    events.DeviceSamples: (_from_the_first(events.DeviceSamples),),
    events.HostSamples: (_from_the_first(events.HostSamples),),
    events.BalanceObserved: (("shares", "ready_s"),),
}

#: Per batch type, the columns that index a vocabulary, and that vocabulary.
_INDICES: dict[type, tuple[tuple[str, str], ...]] = {
    events.DeviceSamples: (("device", "uuids"),),
}

#: Per batch type, columns that may be left out, and the one that they are as long as otherwise.
_OPTIONAL: dict[type, tuple[tuple[str, str], ...]] = {
    events.DeviceSamples: _later(events.DeviceSamples, "device"),
    events.HostSamples: _later(events.HostSamples, "time_s"),
    events.BalanceObserved: (("most", "shares"),),
}


class _Table(NamedTuple):
    """Columns of one part of a MessagePack event that must be equally long: those of whole numbers, and of any.

    A column that may be left out is None then; a map of columns stands for all of its own.
    """

    whole: tuple[str, ...]
    any: tuple[str, ...] = ()


_TABLES: dict[type, tuple[_Table, ...]] = {
    events.StepTimings: (_Table(("rank", "step", "left_out"), ("start_s", "step_s", "phases")),),
    events.Speakers: (_Table(("ranks", "world_sizes", "dp", "tp", "pp")),),
    events.Microbatches: (_Table(("rank", "step", "microbatch"), ("forward_s", "backward_s")),),
    events.ConditionColumns: (_Table(("rank",), ("time_s", "span_s", "values")),),
    events.CollectiveSums: (
        _Table(("step", "group", "operation", "count", "members", "bytes"), ("wait_s", "duration_s")),
        _Table(("reached_rank", "reached_group", "reached_seq")),
        _Table(("span_rank",), ("span_first_s", "span_last_s", "span_waited_s")),
    ),
    events.LinkColumns: (
        _Table(("rank", "connections", "retransmits"), ("rtt_s", "rated_bytes_per_s")),
        _Table(("of", "local", "remote"), ("peer_rtt_s",)),
    ),
    events.CollectiveCalls: (
        _Table(
            ("rank", "step", "seq", "group", "operation", "bytes"),
            ("start_s", "duration_s", "wait_s"),
        ),
    ),
}
#: Parts of a MessagePack event that have columns of their own.
_PARTS = ("speakers", "microbatches", "conditions", "collectives", "links")
_WHOLE_SIZES = {name: size for name, size in columns.SIZES.items() if name[0] != "f"}

_json = msgspec.json.Encoder()
_msgpack = msgspec.msgpack.Encoder()
_BINARY = {topic.event for topic in TOPICS if topic.encoding == "msgpack"}
_decoders = {
    topic.name: (json_decoder if topic.encoding == "json" else msgpack_decoder)(topic.event) for topic in TOPICS
}


class WireError(ValueError):
    """A message that is no event of its topic: why, on one line."""


def encode(event: msgspec.Struct) -> bytes:
    """``event`` as its topic has it. NaN and infinity, which JSON cannot say, become null there: pass readings through
    ``finite``."""
    return (_msgpack if type(event) in _BINARY else _json).encode(event)


def decode(topic: Topic, data: bytes) -> Any:
    """The event in ``data``.

    Raises:
        WireError: not JSON (or MessagePack), a wrong type, a future incompatible schema, columns of unequal length,
            or an index beyond its vocabulary.
    """
    try:
        event = _decoders[topic.name].decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(str(error).replace("\n", " ")[:300]) from error
    if event.schema_version > events.SCHEMA_VERSION or event.schema_version < 1:
        raise WireError(f"schema_version {event.schema_version}: this version reads 1 to {events.SCHEMA_VERSION}")
    if topic.encoding == "msgpack":
        _check_raw(event)
        return event
    _check_lengths(event)
    for column, words in _INDICES.get(type(event), ()):
        if max(getattr(event, column), default=-1) >= len(getattr(event, words)):
            raise WireError(f"{column}: an index beyond {words}, which has {len(getattr(event, words))}")
    return event


def _check_lengths(event: Any) -> None:
    """Refuse an event whose columns are of unequal length."""
    for names in _COLUMNS.get(type(event), ()):
        rows = len(getattr(event, names[0]))
        for name in names:
            if len(getattr(event, name)) != rows:
                own = len(getattr(event, name))
                raise WireError(f"columns of unequal length: {name} has {own} entries, {names[0]} {rows}")
    for column, other in _OPTIONAL.get(type(event), ()):
        if getattr(event, column) and len(getattr(event, column)) != len(getattr(event, other)):
            raise WireError(f"{column} has {len(getattr(event, column))} entries, {other} {len(getattr(event, other))}")
    for name, entries in event.dcgm.items() if isinstance(event, events.DeviceSamples) else ():
        if len(entries) != len(event.device):
            raise WireError(f"dcgm: {name[:64]} has {len(entries)} entries, device {len(event.device)}")


def untyped(topic: Topic, data: bytes) -> Any:
    """What ``data`` says as plain data, whatever its fields: for who passes messages on.

    Raises:
        WireError: not JSON (or MessagePack).
    """
    try:
        return (msgspec.json if topic.encoding == "json" else msgspec.msgpack).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(str(error).replace("\n", " ")[:300]) from error


def encode_untyped(topic: Topic, value: Any) -> bytes:
    """What ``untyped`` read, as its topic has it."""
    return (_json if topic.encoding == "json" else _msgpack).encode(value)


def _check_raw(event: Any) -> None:
    """Refuse an event whose raw columns are torn, of unequal length, or of numbers of the wrong kind."""
    for name in _PARTS:
        part = getattr(event, name, None)
        if part is not None:
            _check_tables(part)
    _check_tables(event)
    who = event.speakers
    if len(who.devices) != columns.rows(who.ranks):
        raise WireError(f"{len(who.devices)} devices of {columns.rows(who.ranks)} ranks")
    facts = event.facts if isinstance(event, events.StepTimings) else None
    if facts is not None:
        for fact, said in facts.words.items():
            if len(said) != len(facts.ranks):
                raise WireError(f"facts: {len(said)} words of {fact[:64]}, {len(facts.ranks)} ranks")
    words = event if isinstance(event, events.CollectiveCalls) else event.collectives
    if words is not None:
        if words.group_sizes.type not in _WHOLE_SIZES:
            raise WireError(f"group_sizes: whole numbers, not {words.group_sizes.type}")
        if len(words.groups) * columns.SIZES[words.group_sizes.type] != len(words.group_sizes.data):
            raise WireError(f"{len(words.groups)} groups, {columns.rows(words.group_sizes)} sizes of groups")


def _check_tables(part: Any) -> None:
    for table in _TABLES[type(part)]:
        rows = columns.rows(getattr(part, table.whole[0]))
        for names, sizes in ((table.whole, _WHOLE_SIZES), (table.any, columns.SIZES)):
            for name in names:
                column = getattr(part, name)
                if type(column) is events.Column:
                    if len(column.data) != rows * sizes.get(column.type, -1):
                        raise WireError(_amiss(name, column, rows, sizes))
                elif column is not None:
                    for word, one in column.items():
                        if len(one.data) != rows * sizes[one.type]:
                            raise WireError(_amiss(word[:64], one, rows, sizes))


def _amiss(name: str, column: events.Column, rows: int, sizes: Mapping[ColumnType, int]) -> str:
    """What is wrong with a column that should have so many ``rows``."""
    if column.type not in sizes:
        return f"{name}: whole numbers, not {column.type}"
    if len(column.data) % sizes[column.type]:
        return f"{name}: {len(column.data)} bytes are no whole number of {column.type}"
    return f"columns of unequal length: {name} has {len(column.data) // sizes[column.type]} rows, others {rows}"


def readable(event: Any) -> Mapping[str, Any]:
    """``event`` as plain data for people and for JSON: raw columns as lists, NaN as None."""
    plain: dict[str, Any] = _plain(event)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, events.Column):
        return [None if one != one else one for one in columns.numbers(value)]
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: _plain(one) for name, one in fields.items() if one is not None and one is not msgspec.UNSET}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def key_of(topic: Topic, event: Any) -> str | None:
    """The message key of ``event`` on ``topic``: its job, node, series, target, id or name, or none."""
    if topic.key == "none":
        return None
    if topic.key == "job/node":
        return f"{event.job}/{event.teller}"
    if topic.key == "series":
        return str(event.series)
    if topic.key == "target":
        return str(event.target)
    if topic.key == "id":
        return str(event.id)
    if topic.key == "name":
        return str(event.name)
    return str(getattr(event, "job", None) or getattr(event, "node", ""))


def finite(value: float | None) -> float | None:
    """``value``, or None where it is not a number: what collectors pass every reading through."""
    return value if value is not None and math.isfinite(value) else None
