"""The calls in a file of NCCL Inspector, in all of its formats."""

import json
from typing import Any

import pytest

from paceline.nccl_inspector.calls import MOST_COMMUNICATORS, Call, FileCalls


def about(time_s: float, comm: str = "0xa", rank: int = 1, ranks: int = 4, pid: int = 7) -> dict[str, Any]:
    header = {"id": comm, "comm_name": "unknown", "rank": rank, "n_ranks": ranks, "nnodes": 1}
    return {"header": header, "metadata": {"dump_timestamp_us": int(time_s * 1e6), "hostname": "n1", "pid": pid}}


def performed(number: int, took_s: float, function: str = "AllReduce", **more: Any) -> dict[str, Any]:
    told = {"coll": function, "coll_sn": number, "coll_exec_time_us": int(took_s * 1e6), "coll_msg_size_bytes": 4096}
    return {"coll_perf": told | more}


def calls(*lines: dict[str, Any] | bytes, reader: FileCalls | None = None) -> list[Call]:
    reader = reader or FileCalls()
    told = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return [call for line in told if (call := reader.read(line)) is not None]


def kernels(*starts_s: float, called_s: float = 0.0) -> dict[str, Any]:
    events = [{"channel_id": place, "kernel_start_ts": int(one * 1e6)} for place, one in enumerate(starts_s)]
    return {"event_trace_ts": {"coll_start_ts": int(called_s * 1e6), "kernel_events": events}}


def test_a_call_starts_with_the_first_channel_of_its_kernel() -> None:
    """Not when it was called, which may be long before; a channel that was not heard of has a 0."""
    (call,) = calls(about(50) | performed(3, 0.5, **kernels(41.2, 0.0, 41.0, called_s=40.0)))
    assert (call.earliest_s, call.latest_s, call.duration_s) == (41.0, 41.0, 0.5)
    (call,) = calls(about(50) | performed(3, 0.5, **kernels(called_s=40.0)))
    assert (call.earliest_s, call.latest_s) == (40.0, 40.0)


def test_without_starts_the_dumps_bound_it() -> None:
    """It ended after the communicator's dump before and before its own; other communicators' dumps say nothing."""
    told = calls(
        about(10.0) | performed(1, 0.5),
        about(10.2, comm="0xb") | performed(1, 0.5),
        about(10.4) | performed(2, 0.5),
    )
    assert [(one.earliest_s, one.latest_s) for one in told] == [(0.0, 9.5), (0.0, 9.7), (9.5, 9.9)]


def test_lines_of_one_dump_are_of_one_time() -> None:
    """Each line has a time of its own, some microseconds after the one before: that is no dump before it."""
    told = calls(*(about(when) | performed(1, 0.25) for when in (10.0, 11.0, 11.0001, 11.0002)))
    assert [one.earliest_s for one in told] == [0.0, 9.75, 9.75, 9.75]


def test_a_marker_begins_a_dump() -> None:
    """However soon it comes; and since format 4.3 it says whose the lines after it are."""
    first, second = about(10.0) | {"dump_stats": {}}, about(10.0001, pid=8) | {"dump_stats": {}}
    told = calls(first, performed(1, 0.5), second, performed(2, 0.5))
    assert [(one.pid, one.earliest_s) for one in told] == [(7, 0.0), (8, 9.5)]


def test_bytes_are_those_that_a_rank_puts_in() -> None:
    """NCCL counts of a reduce-scatter what each rank gets."""
    told = calls(*(about(9) | performed(1, 0.5, name) for name in ("AllReduce", "AllGather", "ReduceScatter")))
    assert [one.bytes for one in told] == [4096, 4096, 4 * 4096]
    assert [one.operation for one in told] == ["all_reduce", "all_gather", "reduce_scatter"]


def test_functions_of_a_communicator_are_counted_apart() -> None:
    """A group is both; its rank is the communicator's."""
    told = calls(*(about(9, "0xb", rank=2) | performed(1, 0.5, name) for name in ("All2All", "NewThing")))
    assert [(one.rank, one.size, one.group) for one in told] == [(2, 4, "0xb all_to_all"), (2, 4, "0xb newthing")]


@pytest.mark.parametrize(
    "line",
    [
        b"x",
        b"[" * 200_000,
        b'{"coll_perf": 3}',
        b'{"coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_exec_time_us": 1e400}}',
        b"\xff\xfe",
        b"null",
    ],
)
def test_what_is_no_line_is_counted(line: bytes) -> None:
    """And does no harm to those after it."""
    reader = FileCalls()
    assert len(calls(about(9) | performed(1, 0.5), line, performed(2, 0.5), reader=reader)) == 2
    assert sum(reader.dropped.values()) == 1


@pytest.mark.parametrize("numbers", [{"coll_sn": -1}, {"coll_exec_time_us": 1e25}, {"coll_msg_size_bytes": -5.0}])
def test_impossible_numbers_are_counted(numbers: dict[str, float]) -> None:
    """No event may hold them."""
    reader = FileCalls()
    assert calls(about(9) | performed(1, 0.5, **numbers), reader=reader) == []
    assert dict(reader.dropped) == {"collectives with impossible numbers": 1}


def test_a_call_of_nobody_is_counted() -> None:
    """A file read from its middle, or one whose reader had to pass lines over."""
    reader = FileCalls()
    assert calls(performed(1, 0.5), about(9) | {"dump_stats": {}}, performed(2, 0.5), reader=reader)[0].seq == 2
    reader.restart()
    assert calls(performed(3, 0.5), reader=reader) == []
    assert dict(reader.dropped) == {"collectives before the line that says whose they are": 2}


def test_what_the_plugin_lost_is_counted() -> None:
    """It overwrites the oldest in its ring."""
    reader = FileCalls()
    calls(*(about(time_s) | {"dump_stats": {"coll_dropped_since_last_dump": 3}} for time_s in (9, 10)), reader=reader)
    assert dict(reader.dropped) == {"overwritten in NCCL Inspector's ring": 6}


@pytest.mark.long
def test_endless_communicators_and_reasons_are_bounded() -> None:
    """Their names come from a file."""
    reader = FileCalls()
    for number in range(MOST_COMMUNICATORS + 10):
        reader.read(json.dumps(about(9, comm=f"{number} " + "x" * 300) | performed(1, 0.5)).encode())
        reader.drop(f"reason {number}")
    assert len(reader._dumps) == MOST_COMMUNICATORS
    assert len(reader.dropped) <= 64
    (call,) = calls(about(10, comm="one more") | performed(2, 0.5), reader=reader)
    assert (call.earliest_s, call.latest_s, len(call.group)) == (0.0, 9.5, len("one more all_reduce"))
