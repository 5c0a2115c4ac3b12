"""Targets: what comes from the bus: messages of every topic, compressed batches, recordings that are put back on it.

Rule of this file: what is decoded says the same when it is written and read again.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import get_args

import zstandard

from paceline import recording, topics, wire
from paceline.commands.replay import renamed
from paceline.commands.selection import Selection
from paceline.kafka.decompression import UnreadableBatchError, gunzip, unzstd
from paceline.recording import Line
from paceline.topics import Topic

from .target import ROOT, Target

GOLDEN = ROOT / "tests" / "paceline" / "golden"
RECORDINGS = ROOT / "tests" / "regression"
#: What a compressed batch may hold here: so small that the bound is met.
_MOST_UNPACKED = 65_536


def golden(topic: Topic) -> list[bytes]:
    """A message of every version and kind that ``topic`` ever had."""
    names = {event.__name__ for event in get_args(topic.event) or (topic.event,)}
    return [path.read_bytes() for path in sorted(GOLDEN.glob("v*/*.json")) if path.stem in names]


def recorded(name: str, lines: int) -> bytes:
    """The first ``lines`` of a stored recording, as they stand in it."""
    read = (line for line in recording.read(str(RECORDINGS / f"{name}.jsonl.zst")) if isinstance(line, Line))
    return b"".join(
        recording.render(line.topic, line.key, line.timestamp_ms, line.value) for line in islice(read, lines)
    )


def recordings() -> Iterator[bytes]:
    """Some recordings' beginnings, and one of all golden messages."""
    for name in ("compute", "collectives-only", "node-faults", "hang", "compute-pipeline"):
        yield recorded(name, 6)
    yield b"".join(
        recording.render(topic.name, None, number, json.dumps(json.loads(data)).encode())
        for number, topic in enumerate(topics.TOPICS)
        for data in golden(topic)
    )


def _decode(topic: Topic) -> Callable[[bytes], None]:
    def feed(data: bytes) -> None:
        event = wire.decode(topic, data)
        assert wire.decode(topic, wire.encode(event)) == event, "not the same when it is written and read again"
        key = wire.key_of(topic, event)
        if key is not None:
            key.encode()

    return feed


def _replay(data: bytes) -> None:
    selection = Selection("job")
    for number, raw in enumerate(data.split(b"\n")):
        line = recording.parse(number, raw)
        if isinstance(line, Line):
            selection.takes(line.topic, line.key, line.value)
            again = renamed(line, "again")
            recording.parse(number, recording.render(again.topic, again.key, again.timestamp_ms, again.value))


def _unpack(unpack: Callable[[bytes, int], bytes]) -> Callable[[bytes], None]:
    def feed(data: bytes) -> None:
        assert len(unpack(data, _MOST_UNPACKED)) <= _MOST_UNPACKED, "more than its bound"

    return feed


def _packed(pack: Callable[[bytes], bytes]) -> Callable[[], list[bytes]]:
    return lambda: [pack(b""), pack(b"message"), pack(bytes(2 * _MOST_UNPACKED)), pack(b"one") + pack(b"two")]


TARGETS = (
    *(
        Target(f"bus.{topic.short}", _decode(topic), partial(golden, topic), (wire.WireError,), "json")
        for topic in topics.TOPICS
    ),
    Target("bus.replayed", _replay, recordings, form="json lines", longest=65_536),
    Target("bus.gzip", _unpack(gunzip), _packed(gzip.compress), (UnreadableBatchError,)),
    Target("bus.zstd", _unpack(unzstd), _packed(zstandard.compress), (UnreadableBatchError,)),
)
