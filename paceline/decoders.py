"""Decoders of typed data: each is built once, and one at a time.

Rule of this file: no other module builds one, or converts to a type. msgspec (0.22) reads the fields of a type when it
first meets it, and other threads see the half of that: where two meet a type at the same time, the process ends by
SIGSEGV. Here a lock is held for it; what is built is safe to share.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_json: dict[tuple[Any, bool], msgspec.json.Decoder[Any]] = {}
_msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


@overload
def json_decoder(kind: type[T], *, strict: bool = True) -> msgspec.json.Decoder[T]: ...


@overload
def json_decoder(kind: Any, *, strict: bool = True) -> msgspec.json.Decoder[Any]: ...


def json_decoder(kind: Any, *, strict: bool = True) -> msgspec.json.Decoder[Any]:
    """The decoder from JSON to ``kind``; unless ``strict``, numbers may be text, and the like.

    >>> json_decoder(dict[str, int]).decode(b'{"a": 1}')
    {'a': 1}

    Raises:
        TypeError: msgspec knows no such type.
    """
    made = _json.get((kind, strict))
    if made is None:
        with _lock:
            made = _json.get((kind, strict)) or msgspec.json.Decoder(kind, strict=strict)
            _json[kind, strict] = made
    return made


@overload
def msgpack_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]: ...


@overload
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]: ...


def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """The decoder from MessagePack to ``kind``.

    Raises:
        TypeError: msgspec knows no such type.
    """
    made = _msgpack.get(kind)
    if made is None:
        with _lock:
            made = _msgpack.get(kind) or msgspec.msgpack.Decoder(kind)
            _msgpack[kind] = made
    return made


@overload
def convert(
    data: Any, kind: type[T], *, strict: bool = True, dec_hook: Callable[[type, Any], Any] | None = None
) -> T: ...


@overload
def convert(
    data: Any, kind: Any, *, strict: bool = True, dec_hook: Callable[[type, Any], Any] | None = None
) -> Any: ...


def convert(data: Any, kind: Any, *, strict: bool = True, dec_hook: Callable[[type, Any], Any] | None = None) -> Any:
    """``data``, made of plain types, as ``kind``.

    >>> convert({"a": 1.0}, dict[str, float])
    {'a': 1.0}

    Raises:
        msgspec.ValidationError: it is no ``kind``.
        TypeError: msgspec knows no such type.
    """
    with suppress(TypeError):  # What it cannot read from bytes it may yet convert, or say why not.
        msgpack_decoder(kind)
    return msgspec.convert(data, kind, strict=strict, dec_hook=dec_hook)
