"""Snapshots: nested plain data with arrays, to compressed bytes and back.

Rule of this file: MessagePack with one extension type and nothing that can run code; what does not decode, or decodes
and does not describe a decision, raises ``ValueError``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import zstandard

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


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        kind = _KINDS.get(value.dtype)
        if kind is None:
            raise TypeError(f"an array of {value.dtype} is no state")
        return msgspec.msgpack.Ext(_ARRAY, _bodies.encode(_Array(list(value.shape), kind, value.tobytes())))
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no state")


_bodies = msgspec.msgpack.Encoder()
_states = msgspec.msgpack.Encoder(enc_hook=_encode)


def _decode(code: int, data: memoryview) -> Any:
    if code != _ARRAY:
        raise ValueError(f"unknown extension {code} in a snapshot")
    body = msgspec.msgpack.decode(data, type=_Array)
    if min(body.shape, default=0) < 0:  # To numpy -1 means whatever fits.
        raise ValueError(f"an array of shape {body.shape} in a snapshot")
    return np.frombuffer(body.raw, dtype=_DTYPES[body.kind]).reshape(body.shape).copy()


def pack(layout: int, state: dict[str, Any]) -> bytes:
    """``state``, laid out by version ``layout`` of its decision, as compressed bytes."""
    return zstandard.compress(_states.encode({"layout": layout, **state}), _LEVEL)


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
