"""Snapshots: nested plain data with arrays, to compressed bytes and back.

Rule of this file: MessagePack with one extension type and nothing that can run code; what does not decode, or decodes
and does not describe a decision, raises ``ValueError``.

A snapshot is taken in two parts, for one of a hundred thousand ranks takes half a second: ``cutting`` keeps what the
state is now, a little at a time, so that other jobs go on meanwhile; and ``Cut.pack`` makes bytes of it, in a thread,
while the state goes on as well.
"""

import secrets
import struct
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import zstandard

from paceline.decoders import msgpack_decoder

#: Extension type of an array: shape, dtype and raw bytes.
_ARRAY = 1


class _Array(msgspec.Struct, array_like=True):
    shape: list[int]
    kind: str
    raw: bytes


_DTYPES = {"f8": np.float64, "f4": np.float32, "i8": np.int64, "b1": np.bool_}
_KINDS = {np.dtype(kind): name for name, kind in _DTYPES.items()}
#: A snapshot unpacks to no more than this; larger ones are damaged or hostile.
MOST_BYTES = 512 * 1024 * 1024
_LEVEL = 1
#: Arrays up to so many bytes are encoded with the rest of their state: that is less than to keep them apart.
_SMALL = 64 * 1024
#: In place of a larger one: sixteen bytes that no state holds by chance.
_HOLE = msgspec.msgpack.Ext(0, secrets.token_bytes(16))
#: So many levels of a state are encoded item by item: what a decision consists of, its parts, and their fields.
_LEVELS = 3
#: What has more entries than this is no part with fields, but a field: a dict by rank.
_MOST_FIELDS = 64
_bodies = msgspec.msgpack.Encoder()
_HOLE_BYTES = _bodies.encode(_HOLE)


@dataclass(frozen=True)
class Cut:
    """A state as it was: what it is besides its large arrays, in the pieces between them, and those, in their order."""

    pieces: Sequence[bytes]
    arrays: Sequence[np.ndarray[Any, np.dtype[Any]]]

    @property
    def large(self) -> bool:
        """Whether packing it takes a while."""
        return len(self.arrays) > 0

    def pack(self) -> bytes:
        """The state as compressed bytes; any thread may do that, and lets others run meanwhile."""
        parts: list[Any] = [self.pieces[0]]
        for array, piece in zip(self.arrays, self.pieces[1:], strict=True):
            about = _bodies.encode(list(array.shape)) + _bodies.encode(_KINDS[array.dtype])
            body = b"\x93" + about + struct.pack(">BI", 0xC6, array.nbytes)
            head = struct.pack(">BIB", 0xC9, len(body) + array.nbytes, _ARRAY) + body
            parts += [head, np.ascontiguousarray(array).data.cast("B"), piece]
        size = sum(map(len, parts))
        packing = zstandard.ZstdCompressor(_LEVEL).compressobj(size=size)
        return b"".join([*map(packing.compress, parts), packing.flush()])


Steps = Generator[None, None, Cut]
Result = TypeVar("Result")


class Run(Generic[Result]):
    """``steps`` as a loop goes through them; then ``result`` is what they came to."""

    result: Result

    def __init__(self, steps: Generator[None, None, Result]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[None]:
        self.result = yield from self._steps


def at_once(steps: Generator[None, None, Result]) -> Result:
    """What ``steps`` come to, without a pause."""
    run = Run(steps)
    for _ in run:
        pass
    return run.result


def cutting(layout: int, state: Mapping[str, Any]) -> Steps:
    """``state``, laid out by version ``layout`` of its decision, as it is now; nothing may change it between the steps.

    A function in it stands for what it returns, and is called when its turn comes. What is large and read-only is not
    copied: who owns such an array changes it no more.
    """
    arrays: list[np.ndarray[Any, np.dtype[Any]]] = []

    def encoded(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            kind = _KINDS.get(value.dtype)
            if kind is None:
                raise TypeError(f"an array of {value.dtype} is no state")
            if value.nbytes > _SMALL:
                arrays.append(value.copy() if value.flags.writeable else value)
                return _HOLE
            return msgspec.msgpack.Ext(_ARRAY, _bodies.encode(_Array(list(value.shape), kind, value.tobytes())))
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"{type(value).__name__} is no state")

    encoder, parts = msgspec.msgpack.Encoder(enc_hook=encoded), []
    for part in _encoded({"layout": layout, **state}, _LEVELS, encoder):
        parts.append(part)
        yield
    return Cut(b"".join(parts).split(_HOLE_BYTES), arrays)


def _encoded(value: Any, levels: int, encoder: msgspec.msgpack.Encoder) -> Iterator[bytes]:
    if callable(value):
        value = value()
    if not levels or not isinstance(value, dict) or len(value) > _MOST_FIELDS:
        yield encoder.encode(value)
        return
    yield struct.pack(">BI", 0xDF, len(value))
    for name, item in value.items():
        yield encoder.encode(name)
        yield from _encoded(item, levels - 1, encoder)


def _decode(code: int, data: memoryview) -> Any:
    if code != _ARRAY:
        raise ValueError(f"unknown extension {code} in a snapshot")
    body = msgpack_decoder(_Array).decode(data)
    if min(body.shape, default=0) < 0:  # To numpy -1 means whatever fits.
        raise ValueError(f"an array of shape {body.shape} in a snapshot")
    return np.frombuffer(body.raw, dtype=_DTYPES[body.kind]).reshape(body.shape).copy()


def pack(layout: int, state: dict[str, Any]) -> bytes:
    """``state``, laid out by version ``layout`` of its decision, as compressed bytes."""
    return at_once(cutting(layout, state)).pack()


def unpack(layout: int, data: bytes) -> dict[str, Any]:
    """The state in ``data``, which must be of version ``layout``.

    Raises:
        ValueError: not a snapshot, damaged, or of another version.
    """
    try:
        # ``max_output_size`` holds only where the frame does not tell its size.
        if (told_bytes := zstandard.frame_content_size(data)) > MOST_BYTES:
            raise ValueError(f"not a snapshot: {told_bytes} bytes, at most {MOST_BYTES} are read")
        raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=MOST_BYTES)
        state = msgspec.msgpack.decode(raw, ext_hook=_decode, strict=False)
    except (zstandard.ZstdError, msgspec.DecodeError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a snapshot: {error}") from error
    if not isinstance(state, dict):
        raise ValueError("not a snapshot: no mapping")
    if state.get("layout") != layout:
        raise ValueError(f"not a snapshot: layout {state.get('layout')!r}, this version reads {layout}")
    return state


@contextmanager
def described() -> Iterator[None]:
    """While a decision takes the state that ``unpack`` gave.

    Raises:
        ValueError: the state lacks a part, or one is of another kind than a snapshot's.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(f"not a snapshot: {type(error).__name__}: {error}") from error
