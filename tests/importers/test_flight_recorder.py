"""Dumps of PyTorch's flight recorder, imported and analyzed: which rank is missing from a collective, or late at them.

Rule of this file: dumps are made up in the formats of real ones.
"""

import gzip
import io
import json
import os
import pickle

import pytest

from importers.__main__ import main
from importers.flight_recorder import Recorders
from importers.notes import Notes, SourceError
from paceline import wire
from paceline.flight_recorder import facts
from streams import analyze
from tests.timings import listed

BEGIN_S = 1_795_000_000.0
#: A file is written so long after the last collective was issued.
LATER_S = 600.0


def entry(seq, group="0", label="default_pg", name="nccl:all_reduce", done=True, took_ms=None, **more):
    at_s = BEGIN_S + 0.1 * seq
    made = {
        "process_group": (group, label),
        "collective_seq_id": seq,
        "profiling_name": name,
        "input_sizes": [[100]],
        "output_sizes": [[100]],
        "input_dtypes": ["Float"],
        "state": "completed" if done else "scheduled",
        "retired": done,
        "is_p2p": False,
        "time_created_ns": int(at_s * 1e9),
        "timeout_ms": 600_000,
        "frames": [{"name": "step", "filename": "/app/train.py", "line": 7}],
    }
    return made | ({} if took_ms is None else {"duration_ms": took_ms}) | more


def dump(entries, members=None, version="2.10"):
    config = {name: {"name": name, "ranks": str(list(ranks))} for name, ranks in (members or {"0": range(4)}).items()}
    return {"version": version, "pg_config": config, "pg_status": {}, "entries": entries}


DONE = [entry(seq) for seq in range(1, 20)]
WAITS = [*DONE, entry(20, done=False), entry(21, done=False, name="nccl:broadcast")]
HANG = {0: dump(WAITS), 1: dump(WAITS), 2: dump(DONE), 3: dump(WAITS)}


def written(folder, dumps, encode=pickle.dumps, name="nccl_trace_rank_{}", later_s=LATER_S):
    folder.mkdir(exist_ok=True)
    for rank, one in dumps.items():
        path = folder / name.format(rank)
        path.write_bytes(encode(one))
        os.utime(path, (BEGIN_S + later_s, BEGIN_S + later_s))
    return folder


def as_json(one):
    return json.dumps(one).encode()


def analyzed(folder, capsys):
    """The findings of the dumps in ``folder`` that are about a hang or a rank, and what the import has to say."""
    recording = folder.parent / "run.jsonl"
    assert main(["flight-recorder", str(folder), "-o", str(recording)]) == 0
    notes = capsys.readouterr().err
    assert analyze.main([str(recording), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [one for one in found if one["kind"] != "insufficient_data"], notes


@pytest.mark.parametrize("version", ["2.1", "2.3", "2.4", "2.7", "2.10"])
@pytest.mark.parametrize("encode", [pickle.dumps, as_json, lambda one: gzip.compress(pickle.dumps(one))])
def test_the_rank_that_is_missing_is_named(tmp_path, capsys, version, encode):
    name = "nccl_trace_rank_{}.gz" if encode not in (pickle.dumps, as_json) else "nccl_trace_rank_{}"
    dumps = {rank: one | {"version": version} for rank, one in HANG.items()}
    (found,), notes = analyzed(written(tmp_path / "fr", dumps, encode, name), capsys)
    assert (found["kind"], found["state"], found["ranks"]) == ("hang", "confirmed", [2])
    assert (found["victims"], found["seq"], found["operation"]) == ([0, 1, 3], 20, "all_reduce")
    assert "3 of 4 ranks are in a collective that did not end" in notes


def test_of_groups_that_share_a_name_only_the_members_of_one_are_missing_from_it(tmp_path, capsys):
    """One split makes several groups of one name and description: each has its members."""
    members = [{"0": range(6), "1": [rank // 2 * 2, rank // 2 * 2 + 1]} for rank in range(6)]
    calls = [entry(seq, "1", "mesh_tp") for seq in range(1, 20)]
    dumps = {rank: dump(calls if rank < 2 else calls[:10], members[rank]) for rank in range(1, 6)}
    dumps[0] = dump([*calls, entry(20, "1", "mesh_tp", done=False)], members[0])
    (found,), _ = analyzed(written(tmp_path / "fr", dumps), capsys)
    assert (found["kind"], found["ranks"], found["victims"]) == ("hang", [1], [0])


@pytest.mark.long
@pytest.mark.parametrize("most", [4000, 7])
def test_no_rank_is_accused_before_all_have_said_that_they_wait(tmp_path, capsys, monkeypatch, most):
    """However many messages it takes, no revision of a finding names one that waits, too."""
    monkeypatch.setattr("importers.flight_recorder.MOST_ROWS", most)
    dumps = {rank: dump(WAITS, {"0": range(64)}) for rank in range(64)} | {33: dump(DONE, {"0": range(64)})}
    found, _ = analyzed(written(tmp_path / "fr", dumps), capsys)
    assert [one["ranks"] for one in found] == [[33]]


def test_a_rank_that_calls_another_operation_is_named(tmp_path, capsys):
    odd = dump([*DONE, entry(20, done=False, name="nccl:all_reduce_barrier")])
    (found,), _ = analyzed(written(tmp_path / "fr", HANG | {2: odd}), capsys)
    assert (found["kind"], found["ranks"]) == ("hang", [2])
    assert "rank 2 called barrier" in found["summary"]


@pytest.mark.slow
def test_the_late_rank_is_the_one_whose_collectives_take_least(tmp_path, capsys):
    late = {
        rank: dump([entry(seq, took_ms=1 if rank == 2 else 60) for seq in range(1, 400)], {"0": range(4)})
        for rank in range(4)
    }
    found, notes = analyzed(written(tmp_path / "fr", late), capsys)
    assert {tuple(one["ranks"]) for one in found if one["kind"] == "straggler"} == {(2,)}
    assert "no durations" not in notes


@pytest.mark.long
def test_without_durations_no_rank_is_late(tmp_path, capsys):
    folder = written(tmp_path / "fr", {rank: dump([entry(seq) for seq in range(1, 400)]) for rank in range(4)})
    recording = tmp_path / "run.jsonl"
    assert main(["flight-recorder", str(folder), "-o", str(recording)]) == 0
    assert "TORCH_NCCL_ENABLE_TIMING=1" in capsys.readouterr().err
    analyze.main([str(recording), "--json"])
    kinds = {json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()}
    assert kinds <= {"insufficient_data"}


def test_a_missing_dump_is_named_and_no_other_rank_accused(tmp_path, capsys):
    found, notes = analyzed(written(tmp_path / "fr", {rank: HANG[rank] for rank in (0, 1, 3)}), capsys)
    assert "no dump of 1 of 4 ranks: 2" in notes
    assert [one["ranks"] for one in found] == [[]]


def test_a_buffer_that_begins_later_accuses_nobody(tmp_path, capsys):
    later = dump([entry(seq) for seq in range(50, 60)])
    found, _ = analyzed(written(tmp_path / "fr", HANG | {2: later}), capsys)
    assert [one["ranks"] for one in found if one["ranks"]] == []


def test_dumps_of_a_job_that_moves_on_show_no_hang(tmp_path, capsys):
    folder = written(tmp_path / "fr", HANG, later_s=2.5)
    assert analyzed(folder, capsys)[0] == []


def test_a_copied_file_waits_no_longer_than_the_limit(tmp_path, capsys):
    """Its date is that of the copy, days later."""
    (found,), _ = analyzed(written(tmp_path / "fr", HANG, later_s=4e5), capsys)
    assert "for 10 min 0 s" in found["summary"]


def test_a_file_dated_before_its_collectives_says_so(tmp_path, capsys):
    (found,), notes = analyzed(written(tmp_path / "fr", HANG, later_s=-BEGIN_S + 1), capsys)
    assert found["ranks"] == [2]
    assert "dated before" in notes


def test_clocks_that_differ_do_not_change_who_is_named(tmp_path, capsys):
    shifted = [one | {"time_created_ns": one["time_created_ns"] + 300 * 10**9} for one in WAITS]
    (found,), _ = analyzed(written(tmp_path / "fr", HANG | {0: dump(shifted)}), capsys)
    assert found["ranks"] == [2]


def test_groups_of_the_same_description_stay_apart(tmp_path, capsys):
    members = {"0": range(4), "3": (0, 1), "4": (2, 3)}
    pair = {rank: [*DONE, entry(1, "3" if rank < 2 else "4", "mesh_tp", done=rank != 2)] for rank in range(3)}
    dumps = {rank: dump(one, members) for rank, one in pair.items()} | {3: dump(DONE, members)}
    folder = written(tmp_path / "fr", dumps)
    (found,), _ = analyzed(folder, capsys)
    assert (found["group"], found["victims"]) == ("mesh_tp 4", [2])


class Evil:
    def __reduce__(self):
        return (print, ("ran",))


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"version": "2.10", "entries": [Evil()]}),
        pickle.dumps(HANG[1])[:-200],
        as_json(HANG[1])[:-9],
        b"\x80\x02}r\xff\xff\xff\x0f.",
        b"\x80\x05\x96" + (1 << 33).to_bytes(8, "little") + b".",
        b"{}",
        b"",
        b"\x00" * 100,
        b"step 1 loss 0.3\n",
        b"[" * 100_000,
    ],
)
def test_a_file_that_cannot_be_read_is_left_out_and_the_others_are_read(tmp_path, capsys, data):
    folder = written(tmp_path / "fr", HANG)
    (folder / "nccl_trace_rank_1").write_bytes(data)
    found, notes = analyzed(folder, capsys)
    assert "left out: " in notes
    assert "no dump of 1 of 4 ranks: 1" in notes
    assert "ran\n" not in notes
    assert [one["ranks"] for one in found] == [[2]]
    for rank in HANG:
        (folder / f"nccl_trace_rank_{rank}").write_bytes(data)
    assert main(["flight-recorder", str(folder), "-o", str(tmp_path / "none.jsonl")]) == 2
    assert "none of 4 files could be read" in capsys.readouterr().err
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a/nccl_trace_rank_1", "b/nccl_trace_rank_1"], "two files are of rank 1"),
        (["nccl_trace"], "no rank in its name"),
        (["nccl_trace_rank_9999999"], "no rank in its name"),
    ],
)
def test_a_rank_that_is_not_known_or_comes_twice_is_refused(tmp_path, capsys, names, says):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(pickle.dumps(HANG[0]))
    given = [str(tmp_path / name) for name in names]
    assert main(["flight-recorder", *given, "-o", str(tmp_path / "run.jsonl")]) == 2
    assert says in capsys.readouterr().err


def test_dumps_of_an_earlier_job_are_refused(tmp_path, capsys):
    old = [one | {"time_created_ns": one["time_created_ns"] - 86_400 * 10**9} for one in DONE]
    folder = written(tmp_path / "fr", HANG | {4: dump(old, {"0": range(5)})})
    assert main(["flight-recorder", str(folder), "-o", str(tmp_path / "run.jsonl")]) == 2
    assert "24.0 hours after the others" in capsys.readouterr().err


def test_an_empty_folder_is_an_error(tmp_path, capsys):
    (tmp_path / "fr").mkdir()
    assert main(["flight-recorder", str(tmp_path / "fr"), "-o", str(tmp_path / "run.jsonl")]) == 2
    assert "none of 0 files" in capsys.readouterr().err


def events(dumps):
    notes = Notes()
    recorders = Recorders("job", notes)
    for rank, one in dumps.items():
        recorders.read(io.BytesIO(pickle.dumps(one)), rank, BEGIN_S + LATER_S)
    return [wire.decode(one.topic, wire.encode(one.event)) for one in recorders.messages()], notes


@pytest.mark.parametrize("wrong", [None, 7, "x", [], {}, -1, 1 << 80, True, float("nan"), float("inf"), -(1 << 62)])
@pytest.mark.parametrize("field", [*entry(1), "duration_ms"])
def test_a_field_of_a_wrong_type_or_size_gives_events_that_a_worker_reads(field, wrong):
    bad = dump([*DONE, entry(20) | {field: wrong}, entry(21, done=False) | {field: wrong}])
    events(HANG | {0: bad})


@pytest.mark.parametrize("wrong", [None, 7, "x", [], [7], {"0": 7}, {7: {}}, {"0": {"ranks": "[9999999, 0]"}}])
@pytest.mark.parametrize("field", ["pg_config", "pg_status"])
def test_a_wrong_part_gives_events_that_a_worker_reads(field, wrong):
    events({rank: one | {field: wrong} for rank, one in HANG.items()})


def test_numbers_and_sizes_are_those_of_the_dumps():
    rows = [entry(1), entry(2, name="nccl:_all_gather_base", input_sizes=[[2, 3]], input_dtypes=["BFloat16"])]
    (one,), notes = events({0: dump([*rows, entry(1, is_p2p=True, name="nccl:send 0->1")], {"0": [0]})})
    assert (listed(one.seq), listed(one.bytes)) == ([1, 2], [400, 12])
    assert [one.operations[at] for at in listed(one.operation)] == ["all_reduce", "all_gather"]
    assert (listed(one.speakers.world_sizes), listed(one.group_sizes)) == ([1], [1])
    assert notes.dropped == {"operations between two ranks": 1}


def test_no_collective_is_an_error():
    with pytest.raises(SourceError, match="TORCH_FR_BUFFER_SIZE"):
        events({0: dump([])})


@pytest.mark.slow
def test_4096_ranks(tmp_path, capsys):
    members = {"0": range(4096)}
    dumps = {rank: dump(WAITS[-8:] if rank != 2049 else DONE[-6:], members) for rank in range(4096)}
    (found,), _ = analyzed(written(tmp_path / "fr", dumps), capsys)
    assert (found["ranks"], found["seq"]) == ([2049], 20)


# What TorchComms writes.


def comms(rank, *, world_done, world_open, groups=((0, 1), (2, 3)), sends=True, first=0):
    """A dump of a rank in a world of 4 and a group of 2, whose entries one counter numbers; ranks 0 and 2 send once."""
    pair = next(number for number, members in enumerate(groups) if rank in members)
    called = [("world", "all_reduce", True), (f"pair{pair}", "all_gather_single", True)] * world_done
    if sends and rank in (0, 2):
        called.insert(2, (f"pair{pair}", "send", True))
    called += [("world", "all_reduce", False)] * world_open
    entries = []
    for number, (group, operation, done) in enumerate(called):
        made = entry(number, group, "ncclx", f"ncclx:{operation}", done)
        more = {"record_id": number, "p2p_seq_id": 0, "op_id": number, "pg_id": 0, "thread_name": "main"}
        entries.append({name: value for name, value in made.items() if name != "frames"} | more)
    made = dump(entries[first:], {"world": range(4)} | {f"pair{at}": of for at, of in enumerate(groups)})
    return made | {"comm_lib_version": "2.27"}


@pytest.mark.parametrize("encode", [pickle.dumps, as_json])
def test_a_dump_of_torchcomms_is_counted_by_group(tmp_path, capsys, encode):
    """One counter numbers its collectives and its sends: a rank with more of these has not called more collectives."""
    dumps = {rank: comms(rank, world_done=10, world_open=int(rank != 2)) for rank in range(4)}
    (found,), notes = analyzed(written(tmp_path / "fr", dumps, encode, "comm_lib_trace_rank_{}"), capsys)
    assert (found["kind"], found["ranks"], found["victims"]) == ("hang", [2], [0, 1, 3])
    assert (found["seq"], found["operation"], found["group"]) == (10, "all_reduce", "world")
    assert "left out 2 rows: operations between two ranks" in notes


def test_dumps_of_torchcomms_that_agree_accuse_nobody(tmp_path, capsys):
    """Their numbers differ by rank, their collectives do not."""
    dumps = {rank: comms(rank, world_done=10, world_open=1) for rank in range(4)}
    found, _ = analyzed(written(tmp_path / "fr", dumps, as_json), capsys)
    assert [one["ranks"] for one in found] in ([], [[]])


def test_a_dump_of_torchcomms_without_its_beginning_is_not_compared(tmp_path, capsys):
    """Its numbers cannot be known; where there is one group and no send they are the group's own."""
    late = {rank: comms(rank, world_done=10, world_open=int(rank != 2), first=6 * (rank == 2)) for rank in range(4)}
    found, notes = analyzed(written(tmp_path / "fr", late, as_json), capsys)
    assert "rank 2: TorchComms numbers the collectives of all groups together" in notes
    assert [one["ranks"] for one in found] == [[]]
    alone = {}
    for rank in range(4):
        listed = [entry(at, "world", "gloo", "gloo:all_reduce") for at in range(30, 49)]
        listed += [entry(49, "world", "gloo", "gloo:all_reduce", False)] * (rank != 3)
        alone[rank] = dump(listed, {"world": range(4)})
    (found,), _ = analyzed(written(tmp_path / "one", alone, as_json), capsys)
    assert (found["ranks"], found["seq"]) == ([3], 49)


def test_a_rank_whose_file_says_why_there_is_no_dump_is_named_with_it(tmp_path, capsys):
    folder = written(tmp_path / "fr", {rank: HANG[rank] for rank in (0, 1, 3)}, as_json, "rank_{}.json")
    reason = "torch c10d is unavailable (No module named 'torch')\x1b[31m"
    written(folder, {2: {"ok": False, "reason": reason}}, as_json, "rank_{}.json")
    found, notes = analyzed(folder, capsys)
    assert "rank_2.json: no dump: torch c10d is unavailable (No module named 'torch')\\u001b" in notes
    assert "no dump of 1 of 4 ranks: 2" in notes
    assert [one["ranks"] for one in found] == [[]]


def test_the_last_number_of_a_group_may_be_text():
    """As in JSON; what is no number counts as missing."""
    status = {"0": {"last_enqueued_collective": "20"}, "1": {"last_enqueued_collective": "many"}}
    assert facts({"version": "2.10", "pg_status": status}).enqueued == {"0": 20}
