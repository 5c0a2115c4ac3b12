"""The contract as documents: JSON Schemas, an AsyncAPI description and a page to read, all made from events and topics.

Rule of this file: pure. ``documents()`` gives paths and texts; ``make docs`` writes them under docs/ and a test fails
when what is checked in differs.
"""

import inspect
import json
from typing import Any, cast, get_args

import msgspec

from paceline import __version__, events
from paceline.topics import GIB, HOUR_MS, TOPICS, Topic

DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: Last words of a field's name -> its unit. The longest match wins.
UNITS = {
    "_bytes_per_s": "bytes/s",
    "_per_s": "1/s",
    "_bytes": "bytes",
    "_celsius": "°C",
    "_hours": "hours",
    "_j": "J",
    "_mhz": "MHz",
    "_ms": "ms",
    "_ratio": "ratio, 0 to 1",
    "_ratio_per_core": "ratio, 0 to 1",
    "_s": "s",
    "_w": "W",
}

#: The media types of what travels, as IANA has them.
_MEDIA_TYPES = {"json": "application/json", "msgpack": "application/vnd.msgpack"}

_KEYS = {
    "job": "the job's id",
    "job/node": "the job's id, a slash, the node's name; then a slash and the pod or part, where there is one",
    "node": "the node's name",
    "series": "the series' key",
    "target": "the target",
    "id": "the event's id",
    "name": "the event's name",
    "cluster": "the cluster's name",
    "none": "no key",
}


def documents() -> dict[str, str]:
    """Path under docs/ -> text, of everything that is generated."""
    pages = {f"schemas/{topic.name}.json": _json(topic_schema(topic)) for topic in TOPICS}
    return pages | {"asyncapi.json": _json(asyncapi()), "events.md": events_page()}


def unit_of(field: str) -> str:
    """The unit that ``field``'s name ends with, or ""."""
    for suffix in sorted(UNITS, key=len, reverse=True):
        if field.endswith(suffix):
            return UNITS[suffix]
    return ""


def topic_schema(topic: Topic) -> dict[str, Any]:
    """The JSON Schema of what travels on ``topic``. It allows fields it does not know, as every reader must.

    Of a MessagePack topic it describes the values as they are once unpacked: bytes, which JSON has no type for, are
    left without one.
    """
    (schema,), parts = msgspec.json.schema_components([topic.event], ref_template="#/$defs/{name}")
    whole = {"$schema": DIALECT, "title": topic.name, **_plain(schema), "$defs": _described(parts)}
    if topic.encoding == "json":
        return whole
    return whole | {"$comment": f"{_MEDIA_TYPES[topic.encoding]}: for the values once unpacked"}


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI 3 document: a channel a topic, with key, partitions and retention; a message an event."""
    schemas, parts = msgspec.json.schema_components(
        [topic.event for topic in TOPICS], ref_template="#/components/schemas/{name}"
    )
    payloads = dict(zip((topic.short for topic in TOPICS), schemas, strict=True))
    return {
        "asyncapi": "3.1.0",
        "info": {
            "title": "Paceline events",
            "version": __version__,
            "description": "What Paceline's services say to each other, and to anyone who subscribes.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": _MEDIA_TYPES["json"],
        "channels": {topic.short: _channel(topic) for topic in TOPICS},
        "operations": {f"publish_{topic.short}": _operation(topic) for topic in TOPICS},
        "components": {
            "messages": {topic.short: _message(topic, payloads[topic.short]) for topic in TOPICS},
            "schemas": _described(parts),
        },
    }


def _channel(topic: Topic) -> dict[str, Any]:
    configuration: dict[str, Any] = {"cleanup.policy": ["compact" if topic.retention_ms is None else "delete"]}
    if topic.retention_ms is not None:
        configuration["retention.ms"] = topic.retention_ms
    if topic.retention_bytes is not None:
        configuration["retention.bytes"] = topic.retention_bytes
    return {
        "address": topic.name,
        "messages": {topic.short: {"$ref": f"#/components/messages/{topic.short}"}},
        "bindings": {
            "kafka": {"partitions": topic.partitions, "topicConfiguration": configuration, "bindingVersion": "0.5.0"}
        },
    }


def _operation(topic: Topic) -> dict[str, Any]:
    return {
        "action": "send",
        "channel": {"$ref": f"#/channels/{topic.short}"},
        "messages": [{"$ref": f"#/channels/{topic.short}/messages/{topic.short}"}],
    }


def _message(topic: Topic, payload: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"name": topic.short, "title": topic.name, "payload": _plain(payload)}
    if topic.encoding != "json":
        message["contentType"] = _MEDIA_TYPES[topic.encoding]
    if topic.key != "none":
        key = {"type": "string", "description": _KEYS[topic.key]}
        message["bindings"] = {"kafka": {"key": key, "bindingVersion": "0.5.0"}}
    return message


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` without OpenAPI's discriminator, which neither dialect knows; the tag's enum says the same."""
    return {key: value for key, value in schema.items() if key != "discriminator"}


def _described(parts: dict[str, Any]) -> dict[str, Any]:
    """``parts`` with their prose; bytes without the base64 that they would be in JSON."""
    described = {name: part | {"description": inspect.cleandoc(part["description"])} for name, part in parts.items()}
    if "Column" in described:
        *first, _ = described["Column"]["prefixItems"]
        described["Column"]["prefixItems"] = [*first, {"description": "MessagePack's bin: the numbers' bytes"}]
    return described


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


# --- the page ---------------------------------------------------------------------------------------------------------


def events_page() -> str:
    """docs/events.md: the topics, then every event with its fields and their units."""
    lines = [
        "# Events",
        "",
        "Made by `make docs` from `paceline/events/` and `paceline/topics.py`; do not edit. The same as JSON",
        "Schemas: [schemas/](schemas/); as an AsyncAPI 3 document: [asyncapi.json](asyncapi.json).",
        "",
        "Every message is one object, in the encoding of its topic: JSON (UTF-8), or MessagePack where columns of",
        f"numbers travel as raw bytes ([Column](#column)); `schema_version` {events.SCHEMA_VERSION}. Ignore fields",
        "that you do not know. `null`, and NaN in a column, mean *not measured*; 0 is a value. A field's unit is the",
        "end of its name. A message that is none of these goes to `paceline.deadletter.v1` with the reason.",
        "",
        "| topic | encoding | events | key | partitions | kept |",
        "|---|---|---|---|---|---|",
        *(_topic_row(topic) for topic in TOPICS),
        "",
    ]
    types = [event for topic in TOPICS for event in _events_of(topic)]
    _, parts = msgspec.json.schema_components(types, ref_template="{name}")
    names = [event.__name__ for event in types]
    for name in [*names, *sorted(set(parts) - set(names))]:
        lines += [f"## {name}", "", *_event_section(parts[name])]
    return "\n".join(lines).rstrip() + "\n"


def _events_of(topic: Topic) -> tuple[type[msgspec.Struct], ...]:
    return get_args(topic.event) or (cast(type[msgspec.Struct], topic.event),)


def _topic_row(topic: Topic) -> str:
    names = ", ".join(f"[{event.__name__}](#{event.__name__.lower()})" for event in _events_of(topic))
    kept = "the newest of each key" if topic.retention_ms is None else f"{topic.retention_ms // HOUR_MS} hours"
    if topic.retention_bytes is not None:
        kept += f", {topic.retention_bytes // GIB} GiB a partition at most"
    encoding = {"json": "JSON", "msgpack": "MessagePack"}[topic.encoding]
    return f"| `{topic.name}` | {encoding} | {names} | {_KEYS[topic.key]} | {topic.partitions} | {kept} |"


def _event_section(part: dict[str, Any]) -> list[str]:
    prose = inspect.cleandoc(part["description"]).replace("``", "`")
    if "properties" not in part:  # A list whose places have a meaning each: the type and the bytes.
        return [f"{prose} Types: {_type_text(part['prefixItems'][0])}.", ""]
    rows = [
        f"| `{name}` | {_type_text(schema)} | {unit_of(name)} | {'yes' if name in part.get('required', ()) else ''} |"
        for name, schema in part["properties"].items()
    ]
    return [prose, "", "| field | type | unit | always there |", "|---|---|---|---|", *rows, ""]


def _type_text(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"[{schema['$ref']}](#{schema['$ref'].lower()})"
    if "anyOf" in schema:
        return " or ".join(_type_text(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type_text(schema['items'])}"
    if schema.get("type") == "object":
        return f"map of {_type_text(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))
