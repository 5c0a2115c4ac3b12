"""A spool's segment: records in a file, framed so that damage is seen, skipped and counted.

Rule of this file: the format and nothing else. A record is ``marker | length | CRC32 | MessagePack of a Message``, all
numbers little-endian 32 bit. Nothing in it is executed on reading. A torn tail is what a killed writer leaves; other
damage is skipped up to the next marker.
"""

import struct
import zlib
from typing import NamedTuple

import msgspec

from paceline.decoders import msgpack_decoder
from paceline.delivery.outbox import Message

MAGIC = b"paceline-spool-1\n"
_MARKER = b"\xf5\x1ePL"
_HEAD = struct.Struct("<4sII")
HEAD_BYTES = _HEAD.size

_encoder = msgspec.msgpack.Encoder()
_decoder = msgpack_decoder(Message)


class Record(NamedTuple):
    """A message and where its frame ends."""

    message: Message
    end: int


class Scan(NamedTuple):
    """What a segment holds: its records, how often damage was skipped, and whether the tail is torn."""

    records: list[Record]
    corrupt: int
    torn: bool


def frame(message: Message) -> bytes:
    """``message`` as a record."""
    body = _encoder.encode(message)
    return _HEAD.pack(_MARKER, len(body), zlib.crc32(body)) + body


def scan(data: bytes, start: int = 0, limit: int | None = None) -> Scan:
    """The records in ``data`` from ``start`` on, at most ``limit`` of them.

    ``data`` is a whole segment; ``start`` is 0 or a record's ``end``.
    """
    records: list[Record] = []
    corrupt = 0
    position = start
    if start == 0:
        position = len(MAGIC)
        if data[:position] != MAGIC:
            if MAGIC.startswith(data):
                return Scan([], 0, bool(data))
            corrupt, position = 1, _next_marker(data, 0)
    while position < len(data) and (limit is None or len(records) < limit):
        record = _record(data, position)
        if record is not None:
            records.append(record)
            position = record.end
            continue
        following = _next_marker(data, position + 1)
        if following == len(data) and _is_torn(data, position):
            return Scan(records, corrupt, True)
        corrupt += 1
        position = following
    return Scan(records, corrupt, False)


def _record(data: bytes, position: int) -> Record | None:
    """The record at ``position``, or None where there is no whole and sound one."""
    if position + HEAD_BYTES > len(data):
        return None
    marker, length, crc = _HEAD.unpack_from(data, position)
    end = position + HEAD_BYTES + length
    if marker != _MARKER or end > len(data):
        return None
    body = memoryview(data)[position + HEAD_BYTES : end]
    if zlib.crc32(body) != crc:
        return None
    try:
        return Record(_decoder.decode(body), end)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _next_marker(data: bytes, position: int) -> int:
    marker = data.find(_MARKER, position)
    return len(data) if marker < 0 else marker


def _is_torn(data: bytes, position: int) -> bool:
    """Whether what begins at ``position`` is the start of a record that was not written to its end."""
    head = data[position : position + HEAD_BYTES]
    if len(head) < HEAD_BYTES:
        return _MARKER.startswith(head[:4]) or head.startswith(_MARKER)
    marker, length, _ = _HEAD.unpack(head)
    return bool(marker == _MARKER and position + HEAD_BYTES + length > len(data))
