"""Recordings without a date: their times count from 0, as a table's that says when each row began since the first.

Rule of this file: pure; time is an argument. What is a time says its type: an offset from one stays as it is.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from paceline import wire
from paceline.events import LATEST_S
from paceline.recording import Bad, Line, value_of
from paceline.topics import BY_NAME
from paceline.words import UNDATED_S


def is_undated(line: Line) -> bool:
    """Whether the times of a recording that begins with ``line`` count from 0."""
    return line.timestamp_ms < UNDATED_S * 1000.0


def dated(lines: Iterator[Line | Bad], now_s: float) -> Iterator[Line | Bad]:
    """``lines``, the first of them at ``now_s`` where they have no date."""
    by_s: float | None = None
    for line in lines:
        if isinstance(line, Line):
            if by_s is None:
                by_s = now_s - line.timestamp_ms / 1000.0 if is_undated(line) else 0.0
            line = moved(line, by_s) if by_s else line
        yield line


def moved(line: Line, by_s: float) -> Line:
    """``line`` so much later, and every time in its message; what cannot be read stays as it is."""
    found = value_of(line)
    if found is None:
        return line
    topic, value = found
    stamp, told = line.timestamp_ms + round(by_s * 1000.0), line.value
    if isinstance(value, dict) and _move(value, _fields(topic.name), by_s):
        told = wire.encode_untyped(topic, value)
    return msgspec.structs.replace(line, timestamp_ms=stamp, value=told)


@cache
def _fields(topic: str) -> dict[str, inspect.Type]:
    made = inspect.type_info(BY_NAME[topic].event)
    structs = made.types if isinstance(made, inspect.UnionType) else (made,)
    return {
        field.encode_name: field.type for one in structs if isinstance(one, inspect.StructType) for field in one.fields
    }


def _move(value: dict[str, Any], fields: dict[str, inspect.Type], by_s: float) -> bool:
    """Move the times in ``value``; whether there are any."""
    any_moved = False
    for name in fields.keys() & value.keys():
        before, value[name] = value[name], _moved(value[name], fields[name], by_s)
        any_moved |= before is not value[name]
    return any_moved


def _moved(value: Any, kind: inspect.Type, by_s: float) -> Any:
    match kind:
        case inspect.UnionType() if value is not None:
            for one in kind.types:
                value = _moved(value, one, by_s)
        case inspect.FloatType(ge=0.0, le=latest) if latest == LATEST_S and isinstance(value, int | float):
            return value + by_s
        case inspect.ListType() if isinstance(value, list):
            return [_moved(one, kind.item_type, by_s) for one in value]
        case inspect.StructType() if isinstance(value, dict):
            _move(value, {field.encode_name: field.type for field in kind.fields}, by_s)
    return value
