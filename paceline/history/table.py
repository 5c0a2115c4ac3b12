"""A table of an archive: what it holds of an event, and how events' fields become columns.

Rule of this file: pure. A number or a word is a column of its name, and so is a list of them; a map of numbers by known
words is a column a word, and all else is JSON. So a field that comes later has its column by itself.
"""

import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from paceline.topics import Topic

Kind = Literal["text", "json", "i64", "f64", "bool", "text[]", "i64[]", "f64[]"]
#: raw: what was measured, row by row. windows: summaries. documents: what was found, described and asked for.
Keep = Literal["raw", "windows", "documents"]

#: Columns of every table: whose it is, and which message of the bus told it.
CLUSTER, PARTITION, OFFSET = "cluster", "kafka_partition", "kafka_offset"
#: Of what has no time of its own, when it was published.
PUBLISHED = "time_s"
#: Of windows, who told them where it was not the bus.
SOURCE, PROMETHEUS = "source", "prometheus"


class Words(NamedTuple):
    """A map of numbers in an event: a column for each of ``words``, called as ``pattern`` says, and JSON for others."""

    pattern: str
    words: tuple[str, ...]

    def columns(self) -> dict[str, str]:
        """Word -> its column."""
        return {word: self.pattern.format(word) for word in self.words}


class Table(NamedTuple):
    """A table. ``order`` is how its rows are sorted in a file; rows that are equal in ``key`` are one, told twice.

    ``topic`` is None where no topic tells it.
    """

    name: str
    topic: Topic | None
    columns: Mapping[str, Kind]
    order: tuple[str, ...]
    time: str
    keep: Keep
    key: tuple[str, ...] = ()
    #: The event whose fields the columns are; None where a message is many rows.
    event: type[msgspec.Struct] | None = None
    maps: Mapping[str, Words] = {}
    #: Parts of an event whose own fields are columns, called ``part_field``.
    parts: tuple[str, ...] = ()
    #: Whether the event itself is kept beside, as JSON.
    whole: bool = False


#: Fields of every event that say nothing here.
_LEFT_OUT = {"schema_version", "producer", "sequence", "cluster", "account"}
#: Words that SQL has for itself.
_RENAMED = {"group": "group_name"}


_PLAIN: dict[Any, Kind] = {str: "text", int: "i64", float: "f64", bool: "bool"}
_LISTS: dict[Kind, Kind] = {"text": "text[]", "i64": "i64[]", "f64": "f64[]"}


def column_of(field: str) -> str:
    """What the column of an event's field is called."""
    return _RENAMED.get(field, field)


def kind_of(hint: Any) -> Kind:
    """The kind of column that a field's type takes."""
    origin = get_origin(hint)
    if origin is Annotated:
        return kind_of(get_args(hint)[0])
    if origin is Literal:
        return "text"
    if origin in (Union, types.UnionType):
        rest = [one for one in get_args(hint) if one not in (type(None), msgspec.UnsetType)]
        kinds = {kind_of(one) for one in rest}
        if kinds == {"i64", "f64"}:
            return "f64"
        return kinds.pop() if len(kinds) == 1 else "json"
    if origin is list:
        return _LISTS.get(kind_of(get_args(hint)[0]), "json")
    return _PLAIN.get(hint, "json")


def _fields(event: type[msgspec.Struct], maps: Mapping[str, Words], parts: Sequence[str]) -> dict[str, Kind]:
    columns: dict[str, Kind] = {}
    for field in msgspec.structs.fields(event):
        if field.name in _LEFT_OUT:
            continue
        if field.name in maps:
            columns |= dict.fromkeys(maps[field.name].columns().values(), "f64")
            columns[field.name + "_other"] = "json"
        elif field.name in parts:
            own = msgspec.structs.fields(field.type)
            columns |= {f"{field.name}_{one.name}": kind_of(one.type) for one in own}
        else:
            columns[column_of(field.name)] = kind_of(field.type)
    return columns


def of_event(
    name: str,
    topic: Topic,
    event: type[msgspec.Struct],
    order: tuple[str, ...],
    *,
    time: str = PUBLISHED,
    keep: Keep = "documents",
    key: tuple[str, ...] = (),
    maps: Mapping[str, Words] | None = None,
    parts: tuple[str, ...] = (),
) -> Table:
    """A table of whole events, a row each."""
    whole = keep == "documents"
    fields = _fields(event, maps or {}, parts)
    if whole:  # What is nested is in the event itself, once.
        fields = {column: kind for column, kind in fields.items() if kind != "json"}
        fields["event"] = "json"
    else:
        fields[SOURCE] = "text"
    columns: dict[str, Kind] = {CLUSTER: "text", **fields, time: "f64", PARTITION: "i64", OFFSET: "i64"}
    return Table(name, topic, columns, order, time, keep, key, event, maps or {}, parts, whole)


def of_rows(
    name: str, topic: Topic, columns: Mapping[str, Kind], order: tuple[str, ...], time: str = PUBLISHED
) -> Table:
    """A table of parts of messages; ``columns`` are its own beside those of every table."""
    whole: dict[str, Kind] = {CLUSTER: "text", **columns, PARTITION: "i64", OFFSET: "i64"}
    return Table(name, topic, whole, order, time, "raw")


def of_samples(event: type[msgspec.Struct], names: Sequence[str]) -> dict[str, Kind]:
    """Columns of samples: of each list, the kind of its entries."""
    hints = {field.name: field.type for field in msgspec.structs.fields(event)}
    return {name: kind_of(get_args(hints[name])[0]) for name in names}
