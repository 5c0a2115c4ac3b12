"""One message of every event ever released: read as it was, written with nothing lost."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from paceline import schema
from paceline.topics import TOPICS, Topic
from paceline.wire import WireError, decode, encode, encode_untyped, readable, untyped

FOLDER = Path(__file__).parent / "golden"
#: Beside a message that is MessagePack stands what it says, for people.
GOLDEN = [path for path in sorted(FOLDER.glob("v*/*.json")) if not path.name.endswith(".readable.json")]
BINARY = sorted(FOLDER.glob("v*/*.msgpack"))
TOPIC_OF = {event.__name__: topic for topic in TOPICS for event in (get_args(topic.event) or (topic.event,))}


@cache
def validator(topic: Topic) -> jsonschema.Draft202012Validator:
    """A validator of ``topic``'s published schema."""
    return jsonschema.Draft202012Validator(schema.topic_schema(topic))


def contains(now: Any, before: Any) -> bool:
    """Whether ``now`` says all that ``before`` said; additive changes may say more."""
    if isinstance(before, dict):
        return all(key in now and contains(now[key], value) for key, value in before.items())
    if isinstance(before, list):
        return len(now) == len(before) and all(map(contains, now, before))
    return bool(now == before) and type(now) is type(before)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
class TestGolden:
    def test_it_is_read_and_written_back_whole(self, path: Path) -> None:
        """Every field of a released message survives decoding and encoding, with its value and type."""
        data = path.read_bytes()
        event = decode(TOPIC_OF[path.stem], data)
        assert type(event).__name__ == path.stem
        written = encode(event)
        assert contains(json.loads(written), json.loads(data))
        assert decode(TOPIC_OF[path.stem], written) == event

    def test_unknown_fields_are_ignored(self, path: Path) -> None:
        """A message from a newer producer, with fields this version does not know, reads the same."""
        message = json.loads(path.read_bytes())
        newer = message | {"added_later": {"deep": [1, None]}, "another_s": 0.5}
        topic = TOPIC_OF[path.stem]
        assert decode(topic, json.dumps(newer).encode()) == decode(topic, json.dumps(message).encode())

    def test_it_fits_the_published_schema(self, path: Path) -> None:
        """The JSON Schema in docs/ describes what really travels, and allows fields it does not know."""
        message = json.loads(path.read_bytes())
        validator(TOPIC_OF[path.stem]).validate(message | {"added_later": 1})


@pytest.mark.parametrize("path", BINARY, ids=lambda path: f"{path.parent.name}-{path.stem}")
class TestBinaryGolden:
    def test_it_says_what_stands_beside_it(self, path: Path) -> None:
        """Every field and number of a released message is read, and written back with nothing lost."""
        topic, data = TOPIC_OF[path.stem], path.read_bytes()
        event = decode(topic, data)
        assert type(event).__name__ == path.stem
        assert contains(readable(event), json.loads(path.with_suffix(".readable.json").read_bytes()))
        written = encode(event)
        assert contains(untyped(topic, written), untyped(topic, data))
        assert decode(topic, written) == event

    def test_unknown_fields_are_ignored(self, path: Path) -> None:
        """A message from a newer producer, with fields this version does not know, reads the same."""
        topic, data = TOPIC_OF[path.stem], path.read_bytes()
        message = untyped(topic, data)
        later = {"added_later": {"deep": ["f4", b"\0"]}, "another_s": 0.5}
        newer = message | later | {"speakers": message["speakers"] | later}
        assert decode(topic, encode_untyped(topic, newer)) == decode(topic, data)

    def test_it_fits_the_published_schema(self, path: Path) -> None:
        """Once unpacked: bytes have no type there."""
        topic = TOPIC_OF[path.stem]
        message = untyped(topic, path.read_bytes())
        validator(topic).validate(message | {"added_later": 1})
        with pytest.raises(jsonschema.ValidationError):
            validator(topic).validate(message | {"rank": ["f5", b""]})


def _words(message: Any, name: str) -> Iterator[dict[str, Any]]:
    """Every object within ``message`` that has a word called ``name``."""
    if isinstance(message, dict):
        if isinstance(message.get(name), str):
            yield message
        yield from (found for value in message.values() for found in _words(value, name))
    elif isinstance(message, list):
        yield from (found for value in message for found in _words(value, name))


@pytest.mark.parametrize("event", ["Finding", "JobProfile", "HostSamples"])
def test_words_of_a_newer_version_are_taken(event: str) -> None:
    """A kind, state, cause or severity that this version does not know is no reason to refuse a message."""
    message = json.loads(next(path for path in GOLDEN if path.stem == event).read_bytes())
    holders = [(holder, name) for name in ("kind", "state", "cause", "severity") for holder in _words(message, name)]
    assert holders
    for holder, name in holders:
        holder[name] = "of_a_newer_version"
    topic = TOPIC_OF[event]
    assert contains(json.loads(encode(decode(topic, json.dumps(message).encode()))), message)
    validator(topic).validate(message)


def test_every_event_has_a_golden_file() -> None:
    """A new event is released together with a message that later versions must still read."""
    assert {path.stem for path in [*GOLDEN, *BINARY]} == set(TOPIC_OF)
    assert {path.stem for path in BINARY} == {name for name, topic in TOPIC_OF.items() if topic.encoding == "msgpack"}


def test_columns_that_came_later_may_be_left_out_but_not_cut_short() -> None:
    """All of a later column or none of it: an older producer knows none."""
    path = FOLDER / "v1.8" / "DeviceSamples.json"
    message = json.loads(path.read_bytes())
    topic = TOPIC_OF[path.stem]
    older = {name: value for name, value in message.items() if not name.startswith("nvlink_errors")}

    assert decode(topic, json.dumps(older).encode()).nvlink_errors == []
    with pytest.raises(WireError, match="nvlink_errors has 2 entries, device 3"):
        decode(topic, json.dumps(message | {"nvlink_errors": [1, 0]}).encode())
