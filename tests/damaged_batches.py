"""Batches that cannot be read, and how they come onto a broker.

Rule of this file: no client makes such batches, so they are written by hand, and so is the request that sends them.
"""

import gzip
import socket
import struct
import time

import zstandard
from kafka.record.util import calc_crc32c, encode_varint

from paceline.kafka.settings import BrokerSettings
from paceline.topics import Topic
from tests.patience import PATIENCE_S

_BATCH = struct.Struct(">qiibIhiqqqhii")


def batch(records: bytes, count: int = 1, *, attributes: int = 0, form: int = 2, flips: int = 0) -> bytes:
    """A batch of what is said to be ``count`` records; ``flips`` are bits of its checksum that are wrong."""
    now_ms = int(time.time() * 1000)
    times = (now_ms, now_ms, -1, -1, -1)
    made = bytearray(_BATCH.pack(0, 49 + len(records), 0, form, 0, attributes, count - 1, *times, count) + records)
    struct.pack_into(">I", made, 17, calc_crc32c(memoryview(made)[21:]) ^ flips)
    return bytes(made)


def record(value: bytes, distance: int = 0, *, longer: int = 0, lengths: int | None = None, headers: int = 0) -> bytes:
    """A record of a batch; what it says of its length, its key's or value's, and its headers need not be true."""
    key = _varint(-1) if lengths is None else _varint(lengths) + b"key"
    body = b"\0" + _varint(0) + _varint(distance) + key + _varint(len(value)) + value + _varint(headers)
    return _varint(len(body) + longer) + body


def _varint(value: int) -> bytes:
    made = bytearray()
    encode_varint(value, made.append)
    return bytes(made)


#: Batches that cannot be read, at least not to their end.
DAMAGED = {
    "checksum": batch(record(b"never"), flips=1),
    "format that is not there yet": batch(record(b"never"), form=3),
    "format of before": batch(record(b"never"), form=1),
    "format below zero": batch(record(b"never"), form=-1),
    "record beyond the end": batch(record(b"never", longer=1000)),
    "record of a negative length": batch(record(b"never", longer=-1000)),
    "key beyond the end": batch(record(b"never", lengths=5000)),
    "key of 2^62 bytes": batch(record(b"never", lengths=2**62)),
    "2^40 headers": batch(record(b"never", headers=2**40)),
    "-1 headers": batch(record(b"never", headers=-1)),
    "header that is no text": batch(record(b"never", headers=1, longer=3) + b"\x02\xff\x01"),
    "fewer records than said": batch(record(b"first"), 3),
    "more records than said": batch(record(b"first") + record(b"never", 1)),
    "records that are none": batch(b"", 2),
    "damage in the middle": batch(record(b"first") + record(b"never", 1, longer=9) + record(b"never", 2), 3),
    "offset beyond the batch": batch(record(b"never", 2**30)),
    "offset before the batch": batch(record(b"never", -3)),
    "no gzip": batch(record(b"never"), attributes=1),
    "no codec": batch(record(b"never"), attributes=5),
    "damage in gzip": batch(gzip.compress(record(b"never", longer=1000)), attributes=1),
    "damage in zstd": batch(zstandard.compress(record(b"never", longer=1000)), attributes=4),
}


def _put(settings: BrokerSettings, topic: Topic, data: bytes, partition: int) -> bool:
    def text(said: str) -> bytes:
        return struct.pack(">h", len(said)) + said.encode()

    host, port = settings.brokers[0].rsplit(":", 1)
    request = struct.pack(">hhi", 0, 3, 1) + text("test") + struct.pack(">hhii", -1, -1, 10_000, 1) + text(topic.name)
    request += struct.pack(">iii", 1, partition, len(data)) + data
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            said = answer.read(size)
    error: int = struct.unpack_from(">h", said, 18 + len(topic.name))[0]
    return error == 0


def put_damaged(settings: BrokerSettings, topic: Topic, partition: int = 0) -> list[str]:
    """Put each kind on ``topic``, once; which of them the broker took."""
    return [name for name, data in DAMAGED.items() if _put(settings, topic, data, partition)]
