"""Messages to rows of tables: what each kind of event adds to which.

Rule of this file: pure, and of no event's meaning. Numbers inside raw columns were bounded by nobody: times outside
what a clock can say, and what its column cannot hold, become null.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline import columns, events
from paceline.events import Column
from paceline.gpu.dcgm import ONLY_DCGM
from paceline.history import tables
from paceline.history.rows import row_of
from paceline.history.table import CLUSTER, PUBLISHED, Table
from paceline.history.tables import DEVICE_WORDS, HOST_WORDS, PHASE_WORDS

from .column_buffers import lists

#: Windows of ranks, GPUs and hosts that are shorter are not kept: they are most of what there is, and add up to these.
SHORTEST_S = events.LONG_WINDOW_S
#: The same of jobs, of which there are few.
SHORTEST_OF_JOB_S = events.MEDIUM_WINDOW_S
_json = msgspec.json.Encoder()


class Rows(NamedTuple):
    """Rows that a message adds to a table: a value a column (``TableBuffer.add``), and the time of the first."""

    table: Table
    rows: int
    time_s: float
    values: Mapping[str, Any]


def rows_of(event: Any, published_s: float) -> Iterator[Rows]:
    """The rows of ``event``, which was published at ``published_s`` (Unix time)."""
    read = _BY_EVENT.get(type(event), _whole)
    yield from read(event, published_s)


def _whole(event: Any, published_s: float) -> Iterator[Rows]:
    table = tables.BY_EVENT.get(type(event))
    if table is None or _too_short(event):
        return
    row = row_of(table, event)
    if table.time == PUBLISHED:
        row[PUBLISHED] = published_s
    row[CLUSTER] = getattr(event, "cluster", "")
    yield Rows(table, 1, row[table.time], {name: [value] for name, value in row.items()})


def _too_short(event: Any) -> bool:
    if isinstance(event, events.JobWindow):
        return event.length_s < SHORTEST_OF_JOB_S
    return isinstance(event, events.RankWindow | events.DeviceWindow | events.HostWindow) and (
        event.length_s < SHORTEST_S
    )


def _device(event: events.DeviceSamples, published_s: float) -> Iterator[Rows]:
    rows = len(event.device)
    if rows:
        told = lists(DEVICE_WORDS[:-1], event, rows)
        told |= {name: event.dcgm[name] for name in ONLY_DCGM if name in event.dcgm}
        told["device"] = [event.uuids[index] for index in event.device]
        yield _samples(tables.DEVICE, event, rows, told)


def _host(event: events.HostSamples, published_s: float) -> Iterator[Rows]:
    rows = len(event.time_s)
    if rows:
        yield _samples(tables.HOST, event, rows, lists((*HOST_WORDS, "cpu_ratio_per_core"), event, rows))


def _samples(table: Table, event: Any, rows: int, told: dict[str, Any]) -> Rows:
    times = [event.t0_s + offset for offset in event.time_s]
    told |= {"cluster": event.cluster, "node": event.node, "time_s": times}
    return Rows(table, rows, times[0], told)


def _array(column: Column) -> NDArray[Any]:
    return np.frombuffer(column.data, "<" + column.type)


def _of_job(event: Any) -> dict[str, Any]:
    return {"cluster": event.cluster, "job": event.job, "attempt": event.attempt, "node": event.node}


def _op(event: events.StepTimings, published_s: float) -> Iterator[Rows]:
    rows = columns.rows(event.rank)
    if rows:
        phases = {f"{word}_s": _array(event.phases[word]) for word in PHASE_WORDS if word in event.phases}
        others = {word: _array(column) for word, column in event.phases.items() if word not in PHASE_WORDS}
        told = _of_job(event) | phases
        told |= {"rank": _array(event.rank), "step": _array(event.step), "step_s": _array(event.step_s)}
        told["start_s"] = event.t0_s + _array(event.start_s)
        if event.left_out is not None:
            told["left_out"] = _array(event.left_out)
        if others:
            told["phases_other"] = [
                _json.encode({word: float(column[at]) for word, column in others.items()}).decode()
                for at in range(rows)
            ]
        yield Rows(tables.OP, rows, event.t0_s, told)
    yield from _parts(event)


def _parts(event: events.StepTimings) -> Iterator[Rows]:
    of_job, t0_s = _of_job(event), event.t0_s
    if event.conditions is not None:
        yield from _conditions(event, event.conditions)
    parts = (
        (tables.MICROBATCH, event.microbatches, "rank"),
        (tables.COLLECTIVE_SUM, event.collectives, "step"),
        (tables.LINK, event.links, "rank"),
    )
    for table, part, counted in parts:
        rows = 0 if part is None else columns.rows(getattr(part, counted))
        if rows:
            groups = _groups(part) if isinstance(part, events.CollectiveSums) else {}
            yield Rows(table, rows, t0_s, of_job | _raw(part, t0_s) | groups)


def _conditions(event: events.StepTimings, told: events.ConditionColumns) -> Iterator[Rows]:
    rows = columns.rows(told.rank)
    if rows:
        values = {word: _array(column) for word, column in told.values.items() if word in tables.CONDITION.columns}
        values |= {"rank": _array(told.rank), "span_s": _array(told.span_s)}
        values["time_s"] = event.t0_s + _array(told.time_s)
        yield Rows(tables.CONDITION, rows, event.t0_s, _of_job(event) | values)


def _raw(part: Any, t0_s: float) -> dict[str, Any]:
    """The raw columns of a part of a message, by name."""
    named = ((name, getattr(part, name)) for name in part.__struct_fields__)
    return {name: _array(column) for name, column in named if type(column) is Column} | {"time_s": t0_s}


def _groups(told: events.CollectiveSums | events.CollectiveCalls) -> dict[str, Any]:
    """The groups and operations of collectives; what points beyond the words has none."""
    group, operation = _array(told.group), _array(told.operation)
    sizes = np.append(_array(told.group_sizes).astype(np.int64), 0)
    place = np.where((group >= 0) & (group < len(told.groups)), group, len(told.groups)).astype(np.int64)
    action = np.where((operation >= 0) & (operation < len(told.operations)), operation, len(told.operations))
    return {
        "group_name": ([*told.groups, None], place),
        "group_size": sizes[place],
        "operation": ([*told.operations, None], action.astype(np.int64)),
    }


def _collective(event: events.CollectiveCalls, published_s: float) -> Iterator[Rows]:
    rows = columns.rows(event.rank)
    if rows:
        told = _of_job(event) | _raw(event, event.t0_s) | _groups(event)
        told["start_s"] = event.t0_s + _array(event.start_s)
        told |= {"by_nccl": event.by_nccl, "summed": event.summed}
        yield Rows(tables.COLLECTIVE, rows, event.t0_s, told)


_BY_EVENT: Mapping[type, Callable[[Any, float], Iterator[Rows]]] = {
    events.DeviceSamples: _device,
    events.HostSamples: _host,
    events.StepTimings: _op,
    events.CollectiveCalls: _collective,
}
