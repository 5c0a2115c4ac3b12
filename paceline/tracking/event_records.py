"""TensorBoard's event files: numbers and texts as the records that its reader takes.

Rule of this file: pure. The format is small and old: a record is its length, a checksum of that, an ``Event`` of
Protocol Buffers and its checksum; of the many fields six are written here. Numbers are single-precision, as
TensorBoard's own are.
https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto and summary.proto beside it.
"""

import struct
from collections.abc import Mapping

_TABLE = []
for _index in range(256):
    _value = _index
    for _ in range(8):
        _value = (_value >> 1) ^ 0x82F63B78 if _value & 1 else _value >> 1
    _TABLE.append(_value)
#: The wire types of Protocol Buffers that are used here; and TensorFlow's number of the type of strings.
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_DT_STRING = 7


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def record(event: bytes) -> bytes:
    """``event`` as a record of a file."""
    length = struct.pack("<Q", len(event))
    return length + _masked(length) + event + _masked(event)


def first(time_s: float) -> bytes:
    """The event that every file begins with: its version."""
    return _time(time_s) + _field(3, b"brain.Event:2")


def scalars(time_s: float, step: int, values: Mapping[str, float]) -> bytes:
    """``values`` of ``step``."""
    summary = b"".join(
        _field(1, _field(1, name.encode()) + _key(2, _FLOAT) + struct.pack("<f", value))
        for name, value in values.items()
    )
    return _time(time_s) + _step(step) + _field(5, summary)


def text(time_s: float, step: int, name: str, words: str) -> bytes:
    """``words`` for the tab of texts, which reads them as Markdown."""
    plugin = _field(1, _field(1, b"text"))
    shape = _field(2, _field(2, _key(1, _VARINT) + _varint(1)))
    tensor = _key(1, _VARINT) + _varint(_DT_STRING) + shape + _field(8, words.encode())
    return (
        _time(time_s)
        + _step(step)
        + _field(5, _field(1, _field(1, name.encode()) + _field(9, plugin) + _field(8, tensor)))
    )


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _time(time_s: float) -> bytes:
    return _key(1, _DOUBLE) + struct.pack("<d", time_s)


def _step(step: int) -> bytes:
    return _key(2, _VARINT) + _varint(step)


def _field(number: int, data: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(data)) + data


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
