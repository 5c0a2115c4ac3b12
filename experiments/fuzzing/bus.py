"""Targets: what comes from the bus: messages of every topic, compressed batches, recordings that are put back on it.

Rule of this file: what is decoded says the same when it is written and read again.
"""

import gzip
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, get_args

import msgspec
import zstandard
from aiokafka.record.default_records import DefaultRecordBatch
from kafka.record.default_records import DefaultRecordBatchBuilder

from paceline import recording, topics, wire
from paceline.commands.replay import renamed
from paceline.kafka.batches import Checked, batches
from paceline.kafka.compat import BoundedBatch
from paceline.kafka.decompression import UnreadableBatchError, gunzip, unzstd
from paceline.recording import Line
from paceline.selection import Selection
from paceline.topics import Topic
from streams.cluster_events import ADVICE, concerns, enclosed, read
from streams.compat import bound_codecs

from .target import ROOT, Target

GOLDEN = ROOT / "tests" / "paceline" / "golden"
RECORDINGS = ROOT / "tests" / "regression"
#: Where a fetch of batches begins: in the middle of the first.
_POSITION = 41
#: What a compressed batch may hold here: so small that the bound is met.
_MOST_UNPACKED = 65_536


def golden(topic: Topic) -> list[bytes]:
    """A message of every version and kind that ``topic`` ever had."""
    names = {event.__name__ for event in get_args(topic.event) or (topic.event,)}
    suffix = "json" if topic.encoding == "json" else "msgpack"
    return [path.read_bytes() for path in sorted(GOLDEN.glob(f"v*/*.{suffix}")) if path.stem in names]


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
        recording.render(topic.name, None, number, data)
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
        msgspec.json.encode(wire.readable(event))

    return feed


def _read_envelope(data: bytes) -> None:
    heard = read(ADVICE, data)
    assert concerns(heard.event), "advice is told of what does not concern it"
    heard.cluster.encode()


def _envelopes() -> list[bytes]:
    """An envelope of every kind of event that advice is made of."""
    told = [(topic, data) for topic in topics.TOPICS for data in golden(topic)]
    return [enclosed(topic, data, 1.7e9) for topic, data in told if concerns(wire.decode(topic, data))]


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


class _TrustedBatch(BoundedBatch):
    """One whose checksum always fits, so that changed bytes come as far as its records."""

    def validate_crc(self) -> bool:
        return True


class _TrustedWorkerBatch:
    """As the other one, of a worker's client."""

    def __init__(self, data: memoryview) -> None:
        bound_codecs()
        self._batch = DefaultRecordBatch(data)
        self.base_offset = self._batch.base_offset

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batch)

    def validate_crc(self) -> bool:
        return True


def _read_batches(decode: Callable[[memoryview], Any]) -> Callable[[bytes], None]:
    def feed(data: bytes) -> None:
        due, told = _POSITION, []
        for batch in batches(data, _POSITION, 10_000, decode, lambda *what: told.append(what)):
            last = -1
            for record in batch if isinstance(batch, Checked) else ():
                assert last < record.offset < batch.next_offset, "an offset that is not beyond the one before"
                last = record.offset
            assert due < batch.next_offset, "the next fetch would bring it again"
            due = batch.next_offset
        assert all(first <= after for first, after, _ in told), "what was passed over ends before it begins"
        if told:
            raise UnreadableBatchError(told[0][2])

    return feed


def _three_batches() -> list[bytes]:
    """A fetch of three batches, in every packing."""
    return [b"".join(_batch(packing, first) for first in (40, 43, 46)) for packing in (0, 1, 4)]


def _batch(packing: int, first: int) -> bytes:
    made = DefaultRecordBatchBuilder(2, packing, 0, -1, -1, -1, 1 << 20)
    for distance, value in enumerate((b"message" * 9, b"", None)):
        made.append(distance, 1_700_000_000_000 + distance, b"key", value, [("name", b"header"), ("none", None)])
    return first.to_bytes(8, "big") + bytes(made.build())[8:]


TARGETS = (
    *(
        Target(f"bus.{topic.short}", _decode(topic), partial(golden, topic), (wire.WireError,), topic.encoding)
        for topic in topics.TOPICS
    ),
    Target("bus.advice", _read_envelope, _envelopes, (wire.WireError,), "msgpack"),
    Target("bus.replayed", _replay, recordings, form="json lines", longest=65_536),
    Target("bus.batch", _read_batches(_TrustedBatch), _three_batches, (UnreadableBatchError,)),
    Target("bus.worker-batch", _read_batches(_TrustedWorkerBatch), _three_batches, (UnreadableBatchError,)),
    Target("bus.gzip", _unpack(gunzip), _packed(gzip.compress), (UnreadableBatchError,)),
    Target("bus.zstd", _unpack(unzstd), _packed(zstandard.compress), (UnreadableBatchError,)),
)
