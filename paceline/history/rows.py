"""An event as a row of its table, and back.

Rule of this file: pure. What has no column goes to one of JSON, so that ``event_of(table, row_of(table, event))`` is
``event`` again.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.decoders import convert, json_decoder
from paceline.events.base import Event

from .table import CLUSTER, Table, column_of

Row = dict[str, Any]

_json = msgspec.json.Encoder()


def row_of(table: Table, event: Event) -> Row:
    """The columns that ``event`` tells, by name; of what it leaves out there is none.

    Raises:
        TypeError: the table is not one of whole events.
    """
    if table.event is None or not isinstance(event, table.event):
        raise TypeError(f"{table.name}: no table of {type(event).__name__}")
    row: Row = {"event": _json.encode(event).decode()} if table.whole else {}
    for field in event.__struct_fields__:
        value = getattr(event, field)
        column = column_of(field)
        if value is msgspec.UNSET:
            continue
        if field in table.maps:
            _split(row, field, value, table)
        elif field in table.parts:
            row |= {f"{field}_{one}": getattr(value, one) for one in value.__struct_fields__}
        elif column in table.columns:
            row[column] = _json.encode(value).decode() if table.columns[column] == "json" else value
    return {name: value for name, value in row.items() if name in table.columns and value is not None}


def _split(row: Row, field: str, numbers: Mapping[str, float], table: Table) -> None:
    columns = table.maps[field].columns()
    others = {word: number for word, number in numbers.items() if word not in columns}
    row |= {columns[word]: number for word, number in numbers.items() if word in columns}
    if others:
        row[field + "_other"] = _json.encode(others).decode()


def event_of(table: Table, row: Mapping[str, Any]) -> Any:
    """The event that ``row`` is; columns that are null or not there are left out.

    Raises:
        msgspec.ValidationError: the row is none of this table, or of a later version.
        TypeError: the table is not one of whole events.
    """
    if table.event is None:
        raise TypeError(f"{table.name}: its rows are parts of events")
    if table.whole:
        return json_decoder(table.event).decode(row["event"])
    values = {name: value for name, value in row.items() if value is not None}
    told: Row = {CLUSTER: values.get(CLUSTER, "")}
    for field in msgspec.structs.fields(table.event):
        column = column_of(field.name)
        if field.name in table.maps:
            told[field.name] = _joined(values, field.name, table)
        elif column in values and column in table.columns:
            kind, value = table.columns[column], values[column]
            told[field.name] = msgspec.json.decode(value) if kind == "json" else value
        elif field.required and field.name != CLUSTER:
            told[field.name] = None
    tag = table.event.__struct_config__.tag_field
    if tag is not None:
        told[tag] = table.event.__struct_config__.tag
    return convert(told, table.event)


def _joined(values: Mapping[str, Any], field: str, table: Table) -> dict[str, float]:
    others = values.get(field + "_other")
    numbers: dict[str, float] = json_decoder(dict[str, float]).decode(others) if others else {}
    columns = table.maps[field].columns()
    return numbers | {
        word: values[column] for word, column in columns.items() if column in values and not math.isnan(values[column])
    }
