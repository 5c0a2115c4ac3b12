"""NCCL Inspector's files, in the formats before and since 4.3."""

import io
import json

import pytest

from importers.nccl_inspector import Inspector
from importers.notes import Notes, SourceError
from paceline import wire
from tests.timings import listed


def context(rank, time_us, ranks=4, comm="0xabc", pid=None):
    header = {"id": comm, "comm_name": "unknown", "rank": rank, "n_ranks": ranks, "nnodes": 1}
    metadata = {
        "inspector_output_format_version": "v4.3",
        "git_rev": "",
        "dump_timestamp_us": time_us,
        "hostname": "node-a",
        "pid": 100 + rank if pid is None else pid,
    }
    return {"header": header, "metadata": metadata}


def collective(number, exec_us, start_us=None, operation="AllReduce"):
    found = {
        "coll": operation,
        "coll_algo": "RING",
        "coll_proto": "LL",
        "coll_sn": number,
        "coll_msg_size_bytes": 1 << 20,
        "coll_exec_time_us": exec_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 1.5,
        "coll_busbw_gbs": 2.5,
    }
    if start_us is not None:
        found["event_trace_ts"] = {"coll_start_ts": start_us, "coll_stop_ts": start_us + 5, "kernel_events": []}
    return {"coll_perf": found}


def stream(*objects):
    return io.BytesIO(b"".join(json.dumps(one).encode() + b"\n" for one in objects))


def load(*files):
    notes = Notes()
    found = Inspector("job", notes)
    for file in files:
        found.survey(file)
        file.seek(0)
    for file in files:
        found.read(file)
    events = [wire.decode(m.topic, wire.encode(m.event)) for m in found.messages()]
    return events, notes


def test_operations_belong_to_the_marker_before_them():
    """Since format 4.3 operations have no header: rank, host and group are the last marker's."""
    events, notes = load(
        stream(
            context(2, 10_000_000) | {"dump_stats": {"coll_records": 2, "coll_dropped_since_last_dump": 7}},
            collective(5, 900, 8_000_000),
            collective(6, 800, 9_500_000),
            {"p2p_perf": {"p2p": "Send"}},
            {"proxy_trace": {}},
        )
    )
    rows = [
        (r, q, w)
        for event in events
        for r, q, w in zip(*map(listed, (event.rank, event.seq, event.wait_s)), strict=True)
    ]
    assert rows == [(2, 5, pytest.approx(0.0009)), (2, 6, pytest.approx(0.0008))]
    assert {event.node for event in events} == {"node-a"}
    assert not any(event.phases for event in events)
    assert notes.dropped == {
        "overwritten in NCCL Inspector's ring": 7,
        "point to point operations": 1,
        "records of other kinds": 1,
    }


def test_every_record_may_carry_its_own_header():
    """Before 4.3 each operation has header and metadata of its own."""
    events, _ = load(stream(*(context(1, 1_000_000 * n) | collective(n, 100) for n in range(1, 4))))
    assert [seq for event in events for seq in listed(event.seq)] == [1, 2, 3]


def test_ranks_of_sub_groups_are_those_of_the_job():
    """A process that is rank 0 of a small communicator keeps its rank in the largest; functions count apart."""
    events, _ = load(
        stream(
            context(0, 5_000_000, 2, "0x1", pid=9) | collective(1, 10, 4_000_000),
            context(3, 6_000_000, 4, "0x2", pid=9) | collective(1, 10, 5_500_000),
            context(3, 6_000_000, 4, "0x2", pid=9) | collective(1, 10, 5_600_000, "AllGather"),
        )
    )
    assert {rank for event in events for rank in listed(event.rank)} == {3}
    groups = {pair for event in events for pair in zip(event.groups, listed(event.group_sizes), strict=True)}
    assert groups == {("0x1 all_reduce", 2), ("0x2 all_reduce", 4), ("0x2 all_gather", 4)}


def test_dirt_is_counted():
    """Lines that are none, and collectives with impossible numbers, are counted."""
    events, notes = load(stream(context(0, 10**7) | {"dump_stats": {}}, collective(1, -5), collective(2, 5), [1], "x"))
    assert sum(len(listed(event.rank)) for event in events) == 1
    assert sum(notes.dropped.values()) == 3


def test_files_without_collectives_or_of_two_jobs_are_refused():
    """Nothing to import, and the same rank twice, are errors on one line."""
    with pytest.raises(SourceError, match="no collective"):
        load(stream({"a": 1}))
    with pytest.raises(SourceError, match="same rank"):
        load(*(stream(context(0, 10**7, pid=pid) | collective(1, 5)) for pid in (1, 2)))


def test_numbers_may_be_fractions():
    """Of times, of sizes and of when it was dumped: versions differ."""
    performed = collective(1, 900.5, 8_000_000.25) | {}
    performed["coll_perf"]["coll_msg_size_bytes"] = 1048576.0
    events, notes = load(stream(context(0, 10_000_000.75), performed))
    assert [(listed(event.bytes), listed(event.duration_s)) for event in events] == [
        ([1 << 20], [pytest.approx(0.0009005)])
    ]
    assert not notes.dropped


def test_fields_that_other_versions_have_or_lack_do_no_harm():
    """New ones are passed over, a missing or empty name is none."""
    first = context(0, 10**7)
    first["header"] |= {"comm_name": None, "new_id": [1], "nnodes": None}
    first["metadata"] |= {"hostname": None, "new": {"deep": 1}}
    performed = collective(1, 5)
    performed["coll_perf"] |= {"coll_new_field": {"a": 1}, "coll_algo": None}
    events, notes = load(stream(first, performed))
    assert [event.node for event in events] == ["unknown"]
    assert not notes.dropped


def test_another_type_is_counted_by_where_it_stands():
    """So that who reads it knows what this version writes otherwise."""
    odd = collective(2, 5)
    odd["coll_perf"]["coll_sn"] = "two"
    _, notes = load(stream(context(0, 10**7), collective(1, 5), odd))
    assert notes.dropped == {"lines of NCCL Inspector with another type at $.coll_perf.coll_sn": 1}


def test_a_collective_of_nobody_is_counted():
    """A file that begins in the middle."""
    _, notes = load(stream(collective(1, 5), context(0, 10**7), collective(2, 5)))
    assert notes.dropped == {"collectives before the line that says whose they are": 1}


def test_ranks_of_different_communicators_are_not_compared():
    """Two jobs have ranks of their own; a group in common, of whatever size, makes one job."""
    files = [stream(context(rank, 10**7, comm=f"0x{rank}"), collective(1, 5)) for rank in range(2)]
    with pytest.raises(SourceError, match="no communicator joins rank 0 with rank 1"):
        load(*files)
    joined = [
        stream(
            context(rank, 10**7, comm=f"0x{rank}"),
            collective(1, 5),
            context(rank, 10**7 + 1, 2, comm="0xall"),
            collective(1, 5),
        )
        for rank in range(2)
    ]
    assert load(*joined)[0]


@pytest.mark.parametrize(("apart_s", "words"), [(56 * 86_400, "56 days"), (7200, "2.0 hours")])
def test_runs_apart_are_not_compared(apart_s, words):
    """The same communicator by name, and another day."""
    files = [stream(context(rank, 10**13 + rank * apart_s * 10**6), collective(1, 5)) for rank in range(2)]
    with pytest.raises(SourceError, match=words):
        load(*files)


def test_how_many_ranks_there_are_is_what_the_headers_say():
    """Not how many files there are."""
    events, notes = load(stream(context(2, 10**7, 64), collective(1, 5)))
    assert [listed(event.speakers.world_sizes) for event in events] == [[64]]
    assert any(remark.startswith("1 of 64 ranks: no collective of rank 0, 1, 3") for remark in notes.remarks)


def test_gaps_in_the_numbers_are_reported_by_rank():
    """Half of a rank's lines are missing; the files of the others begin a little apart, which is no gap."""
    files = []
    for rank in range(4):
        numbers = [n for n in range(200) if rank != 2 or n % 2 == 0]
        rows = [collective(n, 900, 1_000_000 + n * 10_000) for n in numbers[rank % 2 :]]
        files.append(stream(context(rank, 10_000_000), *rows))
    _, notes = load(*files)
    said = [line for line in notes.lines() if "coll_sn" in line]
    assert said == ["rank 2: 99 of 199 collectives are not in its files (gaps in coll_sn)"]


def test_a_rank_whose_file_ends_early_has_a_gap():
    """What all others have behind its last one."""
    files = [
        stream(context(rank, 10_000_000), *(collective(n, 900, 1_000_000 + n) for n in range(40 if rank == 1 else 200)))
        for rank in range(4)
    ]
    _, notes = load(*files)
    said = [line for line in notes.lines() if "coll_sn" in line]
    assert said == ["rank 1: 160 of 200 collectives are not in its files (gaps in coll_sn)"]


@pytest.mark.parametrize(
    "text",
    [
        b"# HELP nccl_bus_bandwidth_gbs bus bandwidth\n# TYPE nccl_bus_bandwidth_gbs gauge\n",
        b'\nnccl_algorithm_bandwidth_gbs{rank="0"} 12.5 1700000000000\n',
    ],
)
def test_a_prom_dump_is_refused_by_its_name(text):
    """It holds sums; what to set is said."""
    found = Inspector("job", Notes())
    with pytest.raises(SourceError, match=r"node-a.prom: a Prometheus text .*NCCL_INSPECTOR_PROM_DUMP"):
        found.survey(io.BytesIO(text), "node-a.prom")
