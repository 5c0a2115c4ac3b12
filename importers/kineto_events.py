"""The events of a PyTorch profiler (Kineto) trace, read piece by piece into columns.

Rule of this file: the format, and no meaning. A trace is a JSON object whose ``traceEvents`` is a long array: it is read
a few megabytes at a time, and of each event only what is asked for here is kept. A piece ends where one event ends and
the next begins; that a place is one is known when everything before it decodes. Times are microseconds as the file has
them; ``Events.base_s`` makes them Unix time. Categories have their names of today.
"""

import re
from array import array
from collections.abc import Iterator
from functools import lru_cache
from typing import IO, Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from paceline.events import LATEST_S, Rank, Whole

from .notes import Notes, SourceError
from .op_rows import Floats, Ints

#: Bytes of one piece, and how far before its end the border of two events is looked for, so often.
_PIECE, _TAIL, _TRIES = 1 << 23, 1 << 16, 6
#: What stands before the events is small.
_MOST_HEAD = 1 << 25
_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER = re.compile(rb"\}(\s*,)\s*\{")
_BYTE = re.compile(r"\(byte (\d+)\)$")
#: Categories, in small letters, as of today and as before 2022.
KERNEL, COPY = 0, 1
_DEVICE = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": COPY, "memcpy": COPY, "memset": COPY}
#: CUDA's and HIP's calls, and those of other vendors, end so.
_LAUNCHES = ("runtime", "driver")
_HOST = {"cpu_op": False, "operator": False, "user_annotation": True}
#: Host events that tell more of a collective than its kernel does.
TELLS_COLLECTIVE = re.compile(r"record_param_comms|nccl:|c10d::")
COLLECTIVE_KERNEL = re.compile(r"nccl|rccl", re.IGNORECASE)

_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class CollectiveArgs(msgspec.Struct):
    """What a kernel or an operator says of its collective."""

    name: str | None = msgspec.field(name="Collective name", default=None)
    group: str | None = msgspec.field(name="Process Group Name", default=None)
    size: Whole | None = msgspec.field(name="Group size", default=None)
    sequence: Whole | None = msgspec.field(name="Seq", default=None)
    sent: Whole | None = msgspec.field(name="In msg nelems", default=None)
    received: Whole | None = msgspec.field(name="Out msg nelems", default=None)
    dtype: str | None = None
    split: Any = msgspec.field(name="In split size", default=None)


class _Links(msgspec.Struct):
    """What ties an event to others. Where there are several calls, ``correlation`` is the call's own number."""

    correlation: Whole | None = None
    external: Whole | None = msgspec.field(name="External id", default=None)
    older: Whole | None = msgspec.field(name="external id", default=None)


class _Event(msgspec.Struct):
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


class _Head(msgspec.Struct):
    """A whole trace, or what stands around its events."""

    traceEvents: list[_Event] = []  # noqa: N815 - the file's own name
    distributedInfo: Distributed | None = None  # noqa: N815
    baseTimeNanoseconds: Whole | None = None  # noqa: N815
    host_name: str | None = None


class DeviceEvents(NamedTuple):
    """Equally long columns, by start: what ran on devices. ``name`` indexes ``Events.names``; ``kind`` is ``KERNEL`` or
    ``COPY``; ``correlation`` and ``external`` are -1 where there is none."""

    start: Floats
    end: Floats
    name: Ints
    kind: Ints
    correlation: Ints
    external: Ints


class LaunchEvents(NamedTuple):
    """Equally long columns: calls of the device's runtime; ``thread`` is a number of its own."""

    start: Floats
    thread: Ints
    correlation: Ints


class HostEvents(NamedTuple):
    """Equally long columns, by start, then the longest first: operators and annotations on the host."""

    start: Floats
    end: Floats
    name: Ints
    thread: Ints
    annotation: Ints
    external: Ints


class Events(NamedTuple):
    """One trace. ``told`` has what single device or host events say of their collective, by their place there; ``links``
    are the starts of Kineto's links from each operator of a forward to its function in the backward."""

    names: list[str]
    device: DeviceEvents
    launches: LaunchEvents
    host: HostEvents
    device_told: dict[int, CollectiveArgs]
    host_told: dict[int, CollectiveArgs]
    links: Floats
    base_s: float
    about: Distributed | None
    host_name: str


_Table = TypeVar("_Table", DeviceEvents, HostEvents)
_Args = TypeVar("_Args")

_pieces = msgspec.json.Decoder(list[_Event], strict=False)
_heads = msgspec.json.Decoder(_Head, strict=False)
_links = msgspec.json.Decoder(_Links)
_many_links = msgspec.json.Decoder(list[_Links])
_collective_args = msgspec.json.Decoder(CollectiveArgs)


def read_events(stream: IO[bytes], name: str, notes: Notes) -> Events:
    """The events in ``stream``.

    Raises:
        SourceError: it is no such trace; ``name`` is in the message.
    """
    collected = _Collected()
    try:
        for head in _heads_and_pieces(stream):
            collected.add(head)
        if not collected.seen:
            raise SourceError(f"{name}: no PyTorch profiler trace: no events in it")
    except _FAULTS as error:
        raise SourceError(f"{name}: no PyTorch profiler trace: {str(error)[:150]}") from error
    return collected.events(notes)


def _heads_and_pieces(stream: IO[bytes]) -> Iterator[_Head]:
    """The trace in pieces, each with the events that it has and, of the first and the last, what stands around them."""
    data = stream.read(_PIECE)
    while (begin := _BEGIN.search(data)) is None and len(data) < _MOST_HEAD and (more := stream.read(_PIECE)):
        data += more
    if not data.strip():
        raise msgspec.DecodeError("it is empty")
    head = _head(data[: begin.start()]) if begin is not None else None
    if begin is None or head is None:
        yield _heads.decode(data + stream.read())
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
            yield _Head(events)
            rest, size = rest[used:], _PIECE
        else:
            size = 2 * size
    yield _heads.decode(b'{"traceEvents":[' + rest + stream.read())


def _head(data: bytes) -> _Head | None:
    """What stands before the events; None where they lie deeper than at the top."""
    try:
        return _heads.decode(data + b'"traceEvents":[]}')
    except msgspec.ValidationError:
        raise
    except _FAULTS:
        return None


def _piece(data: bytes) -> tuple[list[_Event], int, bool]:
    """The events at the beginning of ``data`` up to one of its last borders, how many bytes they are, and whether the
    end of the array lies before it; no bytes where no border can be told yet.

    Raises:
        msgspec.DecodeError: what is there is no list of events.
    """
    borders = list(_BORDER.finditer(data, max(len(data) - _TAIL, 0)))
    for border in reversed(borders[-_TRIES:]):
        try:
            return _pieces.decode(b"[" + data[: border.start() + 1] + b"]"), border.end(1), False
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError as error:
            where = _BYTE.search(str(error))
            if "trailing characters" in str(error):
                return [], 0, True
            if where is not None and int(where[1]) < border.start() - _TAIL:
                raise
    return [], 0, False


class _Collected:
    """Takes in pieces, then gives the columns."""

    def __init__(self) -> None:
        self.seen = 0
        self.about: Distributed | None = None
        self.base_ns = 0
        self.host_name = ""
        self._names: dict[str, int] = {}
        self._threads: dict[str, int] = {}
        self._device = [array(code) for code in "ddqqqq"]
        self._launches = [array(code) for code in "dqq"]
        self._host = [array(code) for code in "ddqqqq"]
        self._device_told: dict[int, CollectiveArgs] = {}
        self._host_told: dict[int, CollectiveArgs] = {}
        self._links = array("d")
        self._negative = 0

    def add(self, head: _Head) -> None:
        """One piece."""
        self.about = head.distributedInfo or self.about
        self.base_ns = head.baseTimeNanoseconds or self.base_ns
        self.host_name = head.host_name or self.host_name
        events = head.traceEvents
        self.seen += len(events)
        device, launches, host = [], [], []
        for event in events:
            if event.ph == "X":
                wanted = _wanted(event.cat)
                if event.dur < 0:
                    self._negative += 1
                elif wanted is _HOST:
                    host.append(event)
                elif wanted is _DEVICE:
                    device.append(event)
                elif wanted is _LAUNCHES:
                    launches.append(event)
            elif event.ph == "s" and event.cat == "fwdbwd":
                self._links.append(event.ts)
        self._add_device(device)
        self._add_host(host)
        links = _linked(launches)
        self._extend(
            self._launches,
            [event.ts for event in launches],
            [self._thread(event.tid) for event in launches],
            [_number(link.correlation) for link in links],
        )

    def _add_device(self, events: list[_Event]) -> None:
        first = len(self._device[0])
        for place, event in enumerate(events, first):
            if COLLECTIVE_KERNEL.search(event.name):
                self._device_told[place] = _told(event.args)
        links = _linked(events)
        self._extend(
            self._device,
            [event.ts for event in events],
            [event.ts + event.dur for event in events],
            [self._names.setdefault(event.name, len(self._names)) for event in events],
            [_DEVICE[event.cat.lower()] for event in events],
            [_number(link.correlation) for link in links],
            [_number(link.older if link.external is None else link.external) for link in links],
        )

    def _add_host(self, events: list[_Event]) -> None:
        first = len(self._host[0])
        for place, event in enumerate(events, first):
            if TELLS_COLLECTIVE.match(event.name):
                self._host_told[place] = _told(event.args)
        links = _linked(events)
        self._extend(
            self._host,
            [event.ts for event in events],
            [event.ts + event.dur for event in events],
            [self._names.setdefault(event.name, len(self._names)) for event in events],
            [self._thread(event.tid) for event in events],
            [_HOST[event.cat.lower()] for event in events],
            [_number(link.older if link.external is None else link.external) for link in links],
        )

    def _thread(self, tid: Any) -> int:
        return self._threads.setdefault(str(tid), len(self._threads))

    @staticmethod
    def _extend(columns: "list[array[Any]]", *more: list[Any]) -> None:
        for column, values in zip(columns, more, strict=True):
            column.extend(values)

    def events(self, notes: Notes) -> Events:
        """All of it, in order."""
        base_s = self.base_ns / 1e9
        notes.drop("operators of negative length", self._negative)
        device, device_told = _in_order(DeviceEvents(*map(np.asarray, self._device)), self._device_told, base_s, notes)
        host, host_told = _in_order(HostEvents(*map(np.asarray, self._host)), self._host_told, base_s, notes)
        links = np.sort(np.asarray(self._links))
        launches = LaunchEvents(*map(np.asarray, self._launches))
        return Events(
            list(self._names), device, launches, host, device_told, host_told, links, base_s, self.about, self.host_name
        )


def _in_order(
    table: _Table, told: dict[int, CollectiveArgs], base_s: float, notes: Notes
) -> tuple[_Table, dict[int, CollectiveArgs]]:
    """The rows at a possible time, by start, then the longest first; what some of them tell, by their new places."""
    possible = (table.start / 1e6 + base_s >= 0) & (table.end / 1e6 + base_s <= LATEST_S)
    notes.drop("operators at an impossible time", int((~possible).sum()))
    order = np.lexsort((-table.end, table.start))
    order = order[possible[order]]
    place = np.full(possible.size, -1)
    place[order] = np.arange(order.size)
    kept = {int(place[old]): args for old, args in told.items() if place[old] >= 0}
    return type(table)(*(column[order] for column in table)), kept


@lru_cache(maxsize=256)
def _wanted(category: str) -> object:
    """Which of the tables has events of this category; None for none."""
    small = category.lower()
    if small.endswith(_LAUNCHES):
        return _LAUNCHES
    return _HOST if small in _HOST else _DEVICE if small in _DEVICE else None


def _number(value: int | None) -> int:
    return -1 if value is None or value < 0 else value


def _linked(events: list[_Event]) -> list[_Links]:
    """What ties each of ``events`` to others; nothing where its arguments are of another kind."""
    try:
        return _many_links.decode(b"[" + b",".join(event.args for event in events) + b"]")
    except _FAULTS:
        return [_one(_links, event.args, _Links()) for event in events]


def _told(args: msgspec.Raw) -> CollectiveArgs:
    return _one(_collective_args, args, CollectiveArgs())


def _one(decoder: "msgspec.json.Decoder[_Args]", args: msgspec.Raw, otherwise: _Args) -> _Args:
    try:
        return decoder.decode(args)
    except _FAULTS:
        return otherwise
