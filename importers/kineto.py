"""PyTorch profiler (Kineto) traces, one file a rank, to rows of phases and to collectives.

Rule of this file: what the trace says, no more. Steps are ``ProfilerStep#N``, else what lies between two optimizer
steps. The data loader, the optimizer, autograd's functions and everything else that ran on top are data, optimizer,
backward and forward; with GPU kernels in the trace, a phase is the time of the kernels that its operators launched.
Communication is the time in which a collective was under way and nothing else ran.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise
from typing import IO, Annotated, Any, NamedTuple

import msgspec
import numpy as np

from paceline.events import LATEST_S, Count, Rank, Whole

from .kineto_phases import Collective, Span, rows_of
from .notes import Notes, SourceError
from .op_rows import Rows

#: No job takes so many steps that their number has more digits.
_STEP = re.compile(r"ProfilerStep\s*#(\d{1,15})$")
_COLLECTIVE = re.compile(r"(?:^gloo:|^nccl:|^ncclKernel_|^ncclDevKernel_|^mpi:|^ucc:|^xccl:)(.*)")
_NOT_WORK = re.compile(rf"{_STEP.pattern}|{_COLLECTIVE.pattern}|PyTorch Profiler")
_KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
_WORDS = (
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("sendrecv", "send_recv"),
    ("send", "send_recv"),
    ("recv", "send_recv"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
)
_BYTES = {"double": 8, "long": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2, "short": 2}


#: Eight bytes each are still a count that an event may hold.
_Elements = Annotated[int, msgspec.Meta(ge=0, le=2**50)]


class _Args(msgspec.Struct):
    correlation: Whole | None = None
    group: str | None = msgspec.field(name="Process Group Name", default=None)
    size: Count | None = msgspec.field(name="Group size", default=None)
    sequence: Count | None = msgspec.field(name="Seq", default=None)
    elements: _Elements | None = msgspec.field(name="In msg nelems", default=None)
    dtype: str | None = None


class _Event(msgspec.Struct):
    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: Any = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Group(msgspec.Struct):
    pg_name: str = ""
    pg_size: int = 0


class _Distributed(msgspec.Struct):
    rank: Rank | None = None
    world_size: Rank | None = None
    backend: str = ""
    pg_config: msgspec.Raw = msgspec.Raw(b"[]")


class _Trace(msgspec.Struct):
    traceEvents: list[_Event] = []  # noqa: N815 - the file's own name
    distributedInfo: _Distributed | None = None  # noqa: N815
    baseTimeNanoseconds: Whole = 0  # noqa: N815
    host_name: str = ""


class RankTrace(NamedTuple):
    """What one trace says: whose it is, its rows, its collectives and the seconds each was stood for."""

    rank: int
    world_size: int
    backend: str
    host: str
    rows: Rows
    collectives: list[Collective]
    steps: list[int]
    stood: list[float]


_decoder = msgspec.json.Decoder(_Trace)
_args = msgspec.json.Decoder(_Args)


def read(stream: IO[bytes], name: str, notes: Notes) -> RankTrace:
    """The trace in ``stream``. It is held in memory whole, some three times its size.

    Raises:
        SourceError: it is no such trace, or does not say which rank or step it is of.
    """
    try:
        trace = _decoder.decode(stream.read())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{name}: no PyTorch profiler trace: {str(error)[:150]}") from error
    rank = _rank(trace, name)
    world = (trace.distributedInfo.world_size if trace.distributedInfo else None) or rank + 1
    if rank >= world:
        raise SourceError(f"{name}: rank {rank} in a world of {world}; import a trace whose distributedInfo is whole")
    base_s = trace.baseTimeNanoseconds / 1e9
    whole = [event for event in trace.traceEvents if event.ph == "X" and event.dur >= 0]
    spans = [event for event in whole if (span := _span(event, base_s)).start >= 0 and span.end <= LATEST_S]
    notes.drop("operators at an impossible time", len(whole) - len(spans))
    steps = _steps(spans, base_s, name, notes)
    # Kineto links each operator of a forward to its function in the backward.
    linked = sorted(base_s + event.ts / 1e6 for event in trace.traceEvents if event.ph == "s" and event.cat == "fwdbwd")
    work, collectives = _sort_out(spans, base_s, linked, trace.distributedInfo)
    on_host = not any(event.cat in _KERNELS for event in spans)
    rows, numbers, stood = rows_of(rank, steps, work, collectives, notes, on_host=on_host)
    backend = trace.distributedInfo.backend if trace.distributedInfo else ""
    return RankTrace(rank, world, backend, trace.host_name or "imported", rows, collectives, numbers, stood)


def _rank(trace: _Trace, name: str) -> int:
    if trace.distributedInfo is not None and trace.distributedInfo.rank is not None:
        return trace.distributedInfo.rank
    named = re.search(r"rank[-_]?(\d{1,6})(?!\d)", name)
    if named is None:
        raise SourceError(f"{name}: no distributedInfo in it that tells its rank; call the file …rank3… for rank 3")
    return int(named[1])


def _steps(spans: list[_Event], base_s: float, name: str, notes: Notes) -> list[tuple[int, Span]]:
    """The steps, in order."""
    marked = [(int(mark[1]), _span(event, base_s)) for event in spans if (mark := _STEP.match(event.name))]
    if marked:
        # A GPU's own copy of the mark has the same number; the first is the host's.
        return sorted(dict(reversed(marked)).items())
    ends = sorted(_span(event, base_s).end for event in spans if event.name.startswith("Optimizer.step#"))
    if len(ends) < 2:
        raise SourceError(f"{name}: neither ProfilerStep marks nor optimizer steps; call prof.step() in the loop")
    notes.remark("no ProfilerStep marks: a step is what lies between the ends of two optimizer steps")
    return [(number, Span(*pair)) for number, pair in enumerate(pairwise(ends))]


def _span(event: _Event, base_s: float) -> Span:
    start = base_s + event.ts / 1e6
    return Span(start, start + event.dur / 1e6)


def _sort_out(
    spans: list[_Event], base_s: float, linked: list[float], about: _Distributed | None
) -> tuple[list[tuple[Span, str]], list[Collective]]:
    """What worked, each stretch with its phase, and the collectives; of the device where there is one."""
    kernels = [event for event in spans if event.cat in _KERNELS]
    collectives = [
        (event, name)
        for event in spans
        if (name := _COLLECTIVE.match(event.name)) and (not kernels or event.cat in _KERNELS)
    ]
    host = _host_work(spans, base_s, linked)
    if kernels:
        host = _device_work(spans, kernels, host, base_s)
    return host, sorted(_collective(event, name[1], base_s, about) for event, name in collectives)


def _host_work(spans: list[_Event], base_s: float, linked: list[float]) -> list[tuple[Span, str]]:
    """Outermost operators by thread, each with its phase."""
    threads: dict[Any, list[_Event]] = defaultdict(list)
    for event in spans:
        if event.cat in ("cpu_op", "user_annotation") and not _NOT_WORK.match(event.name):
            threads[str(event.tid)].append(event)
    work = []
    for events in threads.values():
        events.sort(key=lambda event: (event.ts, -event.dur))
        end = -1.0
        for event in events:
            if event.ts >= end:
                end = event.ts + event.dur
                work.append((_span(event, base_s), _phase(event.name)))
    return _settled(sorted(work), linked)


def _settled(work: list[tuple[Span, str]], linked: list[float]) -> list[tuple[Span, str]]:
    """Operators among a backward's functions belong to it, unless a forward that has a backward begins with them."""
    if not linked:
        return work
    out, run, inside = [], [], False
    for span, phase in work:
        if phase == "forward" and inside:
            run.append(span)
            if bisect_left(linked, span.end) > bisect_left(linked, span.start):
                out += [(one, "forward") for one in run]
                run, inside = [], False
            continue
        if run:
            out += [(one, "backward" if phase == "backward" else "other") for one in run]
            run = []
        inside = phase == "backward" or (inside and phase != "optimizer")
        out.append((span, phase))
    return [*out, *((one, "other") for one in run)]


def _phase(name: str) -> str:
    if name.startswith("enumerate(DataLoader)"):
        return "data"
    if name.startswith("Optimizer."):
        return "optimizer"
    if name.startswith("autograd::engine") or "Backward" in name or ("distributed" in name and "reducer" in name):
        return "backward"
    return "forward"


def _device_work(
    spans: list[_Event], kernels: list[_Event], host: list[tuple[Span, str]], base_s: float
) -> list[tuple[Span, str]]:
    """Kernels but the collectives, each with the phase of the operator that launched it; and the host's data phase."""
    launched = {}
    for event in spans:
        if event.cat in ("cuda_runtime", "cuda_driver") and (number := _args_of(event).correlation) is not None:
            launched[number] = _span(event, base_s).start
    starts = np.array([span.start for span, _ in host])
    work = [(span, phase) for span, phase in host if phase == "data"]
    for event in kernels:
        if _COLLECTIVE.match(event.name):
            continue
        when = launched.get(_args_of(event).correlation or -1)
        place = int(np.searchsorted(starts, when, side="right")) - 1 if when is not None and starts.size else -1
        work.append((_span(event, base_s), host[place][1] if place >= 0 else "other"))
    return sorted(work)


def _args_of(event: _Event) -> _Args:
    try:
        return _args.decode(event.args)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Args()


def _collective(event: _Event, rest: str, base_s: float, about: _Distributed | None) -> Collective:
    args = _args_of(event)
    plain = re.sub(r"[^a-z]", "", rest.lower())
    operation = next((word for part, word in _WORDS if part in plain), rest[:32])
    width = _BYTES.get((args.dtype or "").lower(), 0)
    size = args.size or (about.world_size if about and about.world_size else 0)
    group = args.group or "0"
    return Collective(_span(event, base_s), operation, group, size, (args.elements or 0) * width, args.sequence)
