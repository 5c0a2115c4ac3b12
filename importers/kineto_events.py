"""The events of a PyTorch profiler (Kineto) trace, read piece by piece into columns.

Rule of this file: the format's words, and no meaning. Of each event only what is asked for here is kept. Times are
microseconds as the file has them; ``Events.base_s`` makes them Unix time.
"""

import re
from array import array
from collections.abc import Callable
from typing import IO, Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from paceline.decoders import json_decoder
from paceline.events import LATEST_S, Whole

from .kineto_collectives import BACKEND, CollectiveArgs, is_collective_kernel, is_collective_operator
from .kineto_lanes import Lanes
from .kineto_pieces import FAULTS, ODD, Distributed, Event, Head, pieces
from .notes import Notes, SourceError
from .op_rows import Floats, Ints

_MOST_WORD = 128
#: One event in so many that is lost is counted, and changes no comparison.
FEW = 1000
#: Categories, in small letters, as of today and as before 2022.
KERNEL, COPY = 0, 1
#: Calls of the device's runtime.
OTHER_CALL, KERNEL_CALL, GRAPH_CALL, BEGIN_CAPTURE, END_CAPTURE = range(5)
_DEVICE = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": COPY, "memcpy": COPY, "memset": COPY}
#: CUDA's and HIP's calls, and those of other vendors, end so.
_LAUNCHES = ("runtime", "driver")
_HOST = {"cpu_op": False, "operator": False, "user_annotation": True}
#: Host events that tell more of a collective than its kernel does.
TELLS_COLLECTIVE = re.compile(rf"record_param_comms|{BACKEND}|c10d::")
#: A call that puts one kernel on the device; a graph's puts many, or none; a host function is no kernel.
_KERNEL_CALL = re.compile(r"launch(?!hostfunc)", re.IGNORECASE)
#: A process that is a device: ``GPU 1``, ``device:1``.
_DEVICE_NAME = re.compile(r"(?:/?device:)?(?:GPU|HIP|CUDA|NPU|XPU|device)[ :#]{0,3}(\d{1,6})", re.IGNORECASE)
_CAPTURE = re.compile(r"stream_?(begin|end)_?capture", re.IGNORECASE)


#: A kernel with this is a collective's, whatever its name.
_TOLD = b'"Collective name"'


class _Links(msgspec.Struct):
    """What ties an event to others. Where there are several calls, ``correlation`` is the call's own number."""

    correlation: Whole | None = None
    external: Whole | None = msgspec.field(name="External id", default=None)
    older: Whole | None = msgspec.field(name="external id", default=None)
    device: Any = None


class DeviceEvents(NamedTuple):
    """Equally long columns, by start: what ran on devices. ``name`` indexes ``Events.names``; ``kind`` is ``KERNEL`` or
    ``COPY``; ``correlation`` and ``external`` are -1 where there is none; ``device`` is its number."""

    start: Floats
    end: Floats
    name: Ints
    kind: Ints
    correlation: Ints
    external: Ints
    device: Ints


class LaunchEvents(NamedTuple):
    """Equally long columns: calls of the device's runtime; ``thread`` is a number of its own, ``call`` one
    of ``OTHER_CALL`` and those after it."""

    start: Floats
    end: Floats
    thread: Ints
    correlation: Ints
    call: Ints


class HostEvents(NamedTuple):
    """Equally long columns, by start, then the longest first: operators and annotations on the host."""

    start: Floats
    end: Floats
    name: Ints
    thread: Ints
    annotation: Ints
    external: Ints


class Events(NamedTuple):
    """One trace. ``device_told`` and ``host_told`` have what single events say of their collective, by their place in
    the table; ``links`` are the starts of Kineto's links from a forward's operators to their functions in the backward.
    ``untimed`` events have lost their time; from ``untimed_from`` on calls or operators are missing for it (infinity:
    none are).
    """

    names: list[str]
    device: DeviceEvents
    launches: LaunchEvents
    host: HostEvents
    device_told: dict[int, CollectiveArgs]
    host_told: dict[int, CollectiveArgs]
    links: Floats
    untimed: int
    untimed_from: float
    base_s: float
    about: Distributed | None
    host_name: str


_Args = TypeVar("_Args")

_links = json_decoder(_Links)
_many_links = json_decoder(list[_Links])
_collective_args = json_decoder(CollectiveArgs)


def read_events(stream: IO[bytes], name: str, notes: Notes) -> Events:
    """The events in ``stream``.

    Raises:
        SourceError: it is no such trace; ``name`` is in the message.
    """
    collected = _Collected()
    try:
        for head in pieces(stream, notes):
            collected.add(head)
        if not collected.seen:
            raise SourceError(f"{name}: no PyTorch profiler trace: no events in it")
        if collected.untimed:
            raise SourceError(f"{name}: no PyTorch profiler trace: no event in it has a time (ts and dur are 0)")
        if collected.ascend:
            raise SourceError(
                f"{name}: Ascend's trace_view.json, whose device's tasks have no categories: it is not read, for the "
                "host's times alone would say nothing of the device. A table of its ops with rank, step and duration "
                "is read by: paceline import timeline"
            )
        if collected.other:
            raise SourceError(
                f"{name}: no PyTorch profiler trace: {collected.other:,} spans without a category (cat), as "
                "other tools write them, and neither operators nor kernels among them; prof.export_chrome_trace writes "
                "a trace"
            )
    except FAULTS as error:
        raise SourceError(f"{name}: no PyTorch profiler trace: {str(error)[:150]}") from error
    return collected.events(notes)


class _Collected:
    """Takes in pieces, then gives the columns."""

    def __init__(self) -> None:
        self.seen = 0
        self.about: Distributed | None = None
        self.base_ns = 0
        self.host_name = ""
        self._names: dict[str, int] = {}
        self._threads: dict[str, int] = {}
        self._processes: dict[str, int] = {}
        self._kernels: dict[str, bool] = {}
        self._operators: dict[str, bool] = {}
        self._tables: dict[str, object] = {}
        self._device = [array(code) for code in "ddqqqqq"]
        self._pids = array("q")
        self._launches = [array(code) for code in "ddqqq"]
        self._host = [array(code) for code in "ddqqqq"]
        self._device_told: dict[int, CollectiveArgs] = {}
        self._host_told: dict[int, CollectiveArgs] = {}
        self._links = array("d")
        self._lanes = Lanes()
        self._negative = self._odd = self._untimed = 0
        #: Numbers of calls and of operators that have lost their time.
        self._untimed_calls, self._untimed_operators = array("q"), array("q")

    @property
    def untimed(self) -> int:
        """How many events have lost their time, where that is all there was."""
        return 0 if self._device[0] or self._host[0] else self._untimed

    @property
    def other(self) -> int:
        """How many spans had no category, where that is all there was."""
        return 0 if self._device[0] or self._host[0] else self._lanes.unknown

    @property
    def ascend(self) -> bool:
        """Whether it is Ascend's, whose device's tasks are not read."""
        return self._lanes.ascend

    def add(self, head: Head) -> None:
        """One piece."""
        self.seen += len(head.traceEvents)
        self.about = head.distributed or self.about
        self.base_ns = head.baseTimeNanoseconds or self.base_ns
        self.host_name = head.host_name or self.host_name
        events = head.traceEvents
        device, launches, host, untimed = [], [], [], []
        for event in events:
            if event is ODD:
                self._odd += 1
            elif event.ph == "X":
                wanted = self._table_of(event)
                if wanted is not None and event.ts == event.dur == 0.0:
                    untimed.append((event, wanted))
                elif wanted is _HOST:
                    host.append(event)
                elif wanted is _DEVICE:
                    device.append(event)
                elif wanted is _LAUNCHES:
                    launches.append(event)
            elif event.ph == "s" and event.cat == "fwdbwd":
                self._links.append(event.ts)
            elif event.ph == "M":
                self._lanes.add(event)
        self._add_untimed(untimed)
        self._add_device(device)
        self._add_host(host)
        links = _linked(launches)
        self._extend(
            self._launches,
            [event.ts for event in launches],
            [event.ts + event.dur for event in launches],
            [self._thread(event.tid) for event in launches],
            [_number(link.correlation) for link in links],
            [_call(event.name) for event in launches],
        )

    def _table_of(self, event: Event) -> object:
        """Which of the tables has this span; None for none."""
        if not event.cat:
            self._lanes.categorise(event)
        if (wanted := self._tables.get(event.cat, self)) is self:
            wanted = self._tables[event.cat] = _wanted(event.cat)
        self._negative += event.dur < 0
        return None if event.dur < 0 else wanted

    def _add_untimed(self, events: list[tuple[Event, object]]) -> None:
        self._untimed += len(events)
        links = _linked([event for event, _ in events])
        for link, (_, table) in zip(links, events, strict=True):
            if table is _LAUNCHES:
                self._untimed_calls.append(_number(link.correlation))
            elif table is _HOST:
                self._untimed_operators.append(_external(link))

    def _add_device(self, events: list[Event]) -> None:
        first = len(self._device[0])
        for place, event in enumerate(events, first):
            if self._named(event.name, self._kernels, is_collective_kernel) or _TOLD in bytes(event.args):
                self._device_told[place] = _told(event.args)
        links = _linked(events)
        self._extend(
            self._device,
            [event.ts for event in events],
            [event.ts + event.dur for event in events],
            [self._names.setdefault(event.name, len(self._names)) for event in events],
            [_DEVICE[event.cat.lower()] for event in events],
            [_number(link.correlation) for link in links],
            [_external(link) for link in links],
            [_whole(link.device) for link in links],
        )
        self._pids.extend(self._process(event.pid) for event in events)

    def _add_host(self, events: list[Event]) -> None:
        first = len(self._host[0])
        for place, event in enumerate(events, first):
            if self._named(event.name, self._operators, _tells):
                self._host_told[place] = _told(event.args)
        links = _linked(events)
        self._extend(
            self._host,
            [event.ts for event in events],
            [event.ts + event.dur for event in events],
            [self._names.setdefault(event.name, len(self._names)) for event in events],
            [self._thread(event.tid) for event in events],
            [_HOST[event.cat.lower()] for event in events],
            [_external(link) for link in links],
        )

    @staticmethod
    def _named(name: str, known: dict[str, bool], what: Callable[[str], bool]) -> bool:
        """``what`` is true of ``name``, found out once a name."""
        if (answer := known.get(name)) is None:
            answer = known[name] = what(name)
        return answer

    def _process(self, pid: Any) -> int:
        """A number for the process: its own, the one in ``GPU 1``, or one that no other name has."""
        named = _DEVICE_NAME.fullmatch(pid) if isinstance(pid, str) else None
        number = int(named[1]) if named else _whole(pid)
        return number if number >= 0 else 1_000_000 + self._processes.setdefault(str(pid), len(self._processes))

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
        notes.drop("spans without a category that are neither operators nor kernels", self._lanes.unknown)
        notes.drop("events of another form than events have", self._odd)
        tables = []
        for columns, told in ((self._device, self._device_told), (self._host, self._host_told)):
            arrays = [np.asarray(column) for column in columns]
            if columns is self._device:
                arrays[-1] = _devices(arrays[-1], np.asarray(self._pids))
            order = _order(arrays[0], arrays[1], base_s, notes)
            tables.append(([column[order] for column in arrays], _moved(told, order, arrays[0].size)))
        (device, device_told), (host, host_told) = tables
        links = np.sort(np.asarray(self._links))
        calls = [np.asarray(column) for column in self._launches]
        order = _order(calls[0], calls[0], base_s, notes)
        launches = LaunchEvents(*(column[order] for column in calls))
        untimed_from = min(
            _missing_from(np.asarray(self._untimed_calls), launches.correlation, launches.start),
            _missing_from(np.asarray(self._untimed_operators), host[-1], host[0]),
        )
        return Events(
            list(self._names),
            DeviceEvents(*device),
            launches,
            HostEvents(*host),
            device_told,
            host_told,
            links,
            self._untimed,
            untimed_from,
            base_s,
            self.about,
            self.host_name[:_MOST_WORD],
        )


def _order(start: Floats, end: Floats, base_s: float, notes: Notes) -> Ints:
    """The rows at a possible time, by start, then the longest first."""
    possible = (start / 1e6 + base_s >= 0) & (end / 1e6 + base_s <= LATEST_S)
    notes.drop("operators at an impossible time", int((~possible).sum()))
    order = np.lexsort((-end, start))
    return order[possible[order]]


def _missing_from(lost: Ints, numbers: Ints, start: Floats) -> float:
    """From when on those with the numbers ``lost`` are missing, by the others, which are numbered as they begin: never
    where there are few, always where a number is not known."""
    if lost.size * FEW <= numbers.size:
        return np.inf
    before = start[(numbers >= 0) & (numbers < lost.min())]
    return float(before.max(initial=-np.inf))


def _moved(told: dict[int, CollectiveArgs], order: Ints, size: int) -> dict[int, CollectiveArgs]:
    """What some rows tell, by their new places."""
    place = np.full(size, -1)
    place[order] = np.arange(order.size)
    return {int(place[old]): args for old, args in told.items() if place[old] >= 0}


def _wanted(category: str) -> object:
    """Which of the tables has events of this category; None for none."""
    small = category.lower()
    if small.endswith(_LAUNCHES):
        return _LAUNCHES
    return _HOST if small in _HOST else _DEVICE if small in _DEVICE else None


def _number(value: int | None) -> int:
    return -1 if value is None or value < 0 else value


def _external(link: _Links) -> int:
    return _number(link.older if link.external is None else link.external)


def _tells(name: str) -> bool:
    """Whether a host's event of this name tells of a collective."""
    return TELLS_COLLECTIVE.match(name) is not None or is_collective_operator(name)


def _whole(value: Any) -> int:
    """A small whole number from outside; -1 for anything else."""
    return value if isinstance(value, int) and 0 <= value < 2**31 else -1


def _devices(told: Ints, pids: Ints) -> Ints:
    """The device of each row: as its arguments tell, else as the commonest of its process, else of all. Where none
    tells any, or those that do have the number of their process, it is the process."""
    if (told[told >= 0] == pids[told >= 0]).all():
        return np.where(told >= 0, told, pids)
    made = np.where(told >= 0, told, _commonest(told))
    for pid in np.unique(pids[told < 0]).tolist():
        rows = pids == pid
        if (told[rows] >= 0).any():
            made[rows & (told < 0)] = _commonest(told[rows])
    return made


def _commonest(told: Ints) -> int:
    numbers, count = np.unique(told[told >= 0], return_counts=True)
    return int(numbers[count.argmax()])


def _call(name: str) -> int:
    """What a call of the runtime does, as far as it matters here."""
    if (capture := _CAPTURE.search(name)) is not None:
        return BEGIN_CAPTURE if capture[1].lower() == "begin" else END_CAPTURE
    if _KERNEL_CALL.search(name) is None:
        return OTHER_CALL
    return GRAPH_CALL if "graph" in name.lower() else KERNEL_CALL


def _linked(events: list[Event]) -> list[_Links]:
    """What ties each of ``events`` to others; nothing where its arguments are of another kind."""
    try:
        return _many_links.decode(b"[" + b",".join(event.args for event in events) + b"]")
    except FAULTS:
        return [_one(_links, event.args, _Links()) for event in events]


def _told(args: msgspec.Raw) -> CollectiveArgs:
    return _one(_collective_args, args, CollectiveArgs())


def _one(decoder: "msgspec.json.Decoder[_Args]", args: msgspec.Raw, otherwise: _Args) -> _Args:
    try:
        return decoder.decode(args)
    except FAULTS:
        return otherwise
