"""A PyTorch profiler (Kineto) trace read in pieces, so that it is never held whole.

Rule of this file: JSON, and no meaning. A trace is an object whose ``traceEvents`` is a long array: it is read a few
megabytes at a time. A piece ends where one event ends and the next begins; that a place is one is known when everything
before it decodes, for cut anywhere else an event is no JSON.
"""

import re
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from paceline.events import Rank, Whole

#: Bytes of one piece, and how far before its end the border of two events is looked for, so often.
_PIECE, _TAIL, _TRIES = 1 << 23, 1 << 16, 6
#: What stands before the events is small.
_MOST_HEAD = 1 << 25
_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER = re.compile(rb"\}(\s*,)\s*\{")
_BYTE = re.compile(r"\(byte (\d+)\)$")
#: What decoding bytes from outside may raise.
FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Event(msgspec.Struct):
    """One event: a span (``ph`` X), a link or something else. ``ts`` and ``dur`` are microseconds."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: Any = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Distributed(msgspec.Struct):
    """What the trace says of its rank."""

    rank: Rank | None = None
    world_size: Rank | None = None
    backend: str = ""
    nccl_version: Any = None


class _Around(msgspec.Struct, kw_only=True):
    """What stands around the events."""

    distributedInfo: Distributed | None = None  # noqa: N815 - the file's own name
    baseTimeNanoseconds: Whole | None = None  # noqa: N815
    host_name: str | None = None


class Head(_Around):
    """A whole trace, or a piece of one. An event of another form is ``ODD``."""

    traceEvents: list[Event] = []  # noqa: N815


class _RawHead(_Around):
    traceEvents: list[msgspec.Raw] = []  # noqa: N815


ODD = Event(ph="odd")
_events = msgspec.json.Decoder(list[Event], strict=False)
_event = msgspec.json.Decoder(Event, strict=False)
_raw_events = msgspec.json.Decoder(list[msgspec.Raw])
_heads = msgspec.json.Decoder(Head, strict=False)
_raw_heads = msgspec.json.Decoder(_RawHead, strict=False)


def pieces(stream: IO[bytes]) -> Iterator[Head]:
    """The trace in pieces, each with the events that it has and, of the first and the last, what stands around them.

    Raises:
        msgspec.DecodeError: it is no such trace; or another of ``FAULTS``.
    """
    data = stream.read(_PIECE)
    while (begin := _BEGIN.search(data)) is None and len(data) < _MOST_HEAD and (more := stream.read(_PIECE)):
        data += more
    if not data.strip():
        raise msgspec.DecodeError("it is empty")
    head = _head(data[: begin.start()]) if begin is not None else None
    if begin is None or head is None:
        yield _whole(data + stream.read())
        return
    yield head
    rest, size, done = data[begin.end() :], _PIECE, len(data) < _PIECE
    while not done:
        more = stream.read(size)
        done = not more
        rest += more
        events, used, tail = _piece(rest)
        if tail:
            break
        if used:
            yield Head(events)
            rest, size = rest[used:], _PIECE
        else:
            size = 2 * size
    yield _whole(b'{"traceEvents":[' + rest + stream.read())


def _head(data: bytes) -> Head | None:
    """What stands before the events; None where they lie deeper than at the top."""
    try:
        return _heads.decode(data + b'"traceEvents":[]}')
    except msgspec.ValidationError:
        raise
    except FAULTS:
        return None


def _whole(data: bytes) -> Head:
    try:
        return _heads.decode(data)
    except msgspec.ValidationError:
        raw = _raw_heads.decode(data)
        around = {name: getattr(raw, name) for name in _Around.__struct_fields__}
        return Head(_one_by_one(raw.traceEvents), **around)


def _one_by_one(raw: list[msgspec.Raw]) -> list[Event]:
    """The events where one of them has another form than events have."""
    out = []
    for one in raw:
        try:
            out.append(_event.decode(one))
        except FAULTS:
            out.append(ODD)
    return out


def _array(data: bytes) -> list[Event]:
    try:
        return _events.decode(data)
    except msgspec.ValidationError:
        return _one_by_one(_raw_events.decode(data))


def _piece(data: bytes) -> tuple[list[Event], int, bool]:
    """The events at the beginning of ``data`` up to one of its last borders, how many bytes they are, and whether the
    end of the array lies before it; no bytes where no border can be told yet.

    Raises:
        msgspec.DecodeError: what is there is no list of events.
    """
    borders = list(_BORDER.finditer(data, max(len(data) - _TAIL, 0)))
    for border in reversed(borders[-_TRIES:]):
        try:
            return _array(b"[" + data[: border.start() + 1] + b"]"), border.end(1), False
        except msgspec.DecodeError as error:
            where = _BYTE.search(str(error))
            if "trailing characters" in str(error):
                return [], 0, True
            if where is not None and int(where[1]) < border.start() - _TAIL:
                raise
    return [], 0, False
