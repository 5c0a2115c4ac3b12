"""Flight recorders: versions, missing and hostile files, buffers that begin late, sub-groups, order deadlocks."""

import json
import pickle
import tracemalloc

import pytest

from paceline.flight_recorder import RecorderError, unpickled
from postmortem.deciding.decide import decide
from postmortem.reading.files import read
from postmortem.reading.recorder_file import statements


def entry(seq, group="0", label="default_pg", name="nccl:all_reduce", done=True, size=100, line=10, **more):
    return {
        "frames": [
            {"name": "all_reduce", "filename": "/v/site-packages/torch/distributed/distributed_c10d.py", "line": 1},
            {"name": "step", "filename": "/app/train.py", "line": line},
        ],
        "process_group": (group, label),
        "collective_seq_id": seq,
        "profiling_name": name,
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "state": "completed" if done else "scheduled",
        "retired": done,
        "is_p2p": False,
        **more,
    }


def dump(entries, members=None, version="2.7", enqueued=None):
    members = members or {"0": range(4)}
    config = {name: {"name": name, "desc": "", "ranks": str(list(ranks))} for name, ranks in members.items()}
    status = {name: {"last_enqueued_collective": number} for name, number in (enqueued or {}).items()}
    return {"version": version, "pg_config": config, "pg_status": status, "entries": entries}


def written(folder, dumps, as_json=False, name="nccl_trace_rank_{}"):
    for rank, one in dumps.items():
        data = json.dumps(one).encode() if as_json else pickle.dumps(one, protocol=2)
        (folder / name.format(rank)).write_bytes(data)
    return read([str(folder)], 1 << 30)


def verdict(folder, dumps, as_json=False):
    return decide(written(folder, dumps, as_json).statements)


WAITS = [entry(1), entry(2, done=False)]


@pytest.mark.parametrize("version", ["2.1", "2.3", "2.4", "2.7", "2.10"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_member_without_an_entry_is_missing(tmp_path, version, as_json):
    dumps = {rank: dump(WAITS, version=version) for rank in (0, 1, 3)} | {2: dump([entry(1)], version=version)}
    found = verdict(tmp_path, dumps, as_json)
    assert (found.kind, found.ranks, found.victims, found.seq) == ("hang", (2,), (0, 1, 3), 2)
    assert found.others_line == "/app/train.py:10 step"


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "fr_rank{}_step500.pkl",
        "nccl_trace_rank_{}_1764493638.pkl",
        "nccl_trace_rank_{}.trace",
        "rank_{}-nccl_trace.pkl",
        "trace_{}.json",
    ],
)
def test_the_rank_that_a_dumps_name_says_counts_before_other_numbers_of_it(tmp_path, name, as_json):
    """A step or a time is none, be it at the end."""
    dumps = {rank: dump(WAITS) for rank in (0, 1, 3)} | {2: dump([entry(1)])}
    found = decide(written(tmp_path, dumps, as_json, name).statements)
    assert (found.kind, found.ranks, found.victims) == ("hang", (2,), (0, 1, 3))


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("name", ["dump_{}_1764493638.pkl", "dump_{}_9999999.pkl", "dump_{}.trace"])
def test_a_dump_without_a_rank_is_left_out_and_that_is_noted(tmp_path, name, as_json):
    """Numbers that no rank has are none."""
    found = written(tmp_path, {0: dump(WAITS)}, as_json, name)
    assert (found.statements, found.files) == ([], 0)
    assert "no rank in its name" in found.notes[0]


def test_a_second_dump_of_a_rank_is_left_out_and_that_is_noted(tmp_path):
    """One of another job or attempt."""
    written(tmp_path, {0: dump([entry(7, done=False)])}, name="rank_{}_old.pkl")
    found = written(tmp_path, {rank: dump(WAITS) for rank in (0, 1, 3)} | {2: dump([entry(1)])})
    assert decide(found.statements).ranks == (2,)
    (note,) = found.notes
    assert "rank_0_old.pkl: a dump of the same rank as" in note


def siblings(rank):
    """The members of the groups of ``rank``: one split made three groups of one name and description."""
    return {"0": range(6), "1": [rank // 2 * 2, rank // 2 * 2 + 1]}


def test_of_groups_that_share_a_name_only_the_members_of_one_are_missing_from_it(tmp_path):
    """As the groups of a split do, where the other stages of the pipeline wait behind."""
    done = [entry(1), *(entry(seq, "1", "mesh_tp") for seq in range(10, 16))]
    more = [*done, *(entry(seq, "1", "mesh_tp") for seq in range(16, 20))]
    dumps = {rank: dump(done, siblings(rank)) for rank in range(2, 6)}
    dumps |= {0: dump([*more, entry(20, "1", "mesh_tp", done=False)], siblings(0)), 1: dump(more, siblings(1))}
    found = verdict(tmp_path, dumps)
    assert (found.kind, found.ranks, found.victims, found.group) == ("hang", (1,), (0,), "mesh_tp")


def test_groups_that_share_a_name_may_call_different_collectives(tmp_path):
    """Each group agrees in itself."""
    names = {rank: "nccl:all_reduce" if rank < 4 else "nccl:_all_gather_base" for rank in range(6)}
    dumps = {
        rank: dump([entry(1), entry(2, "1", "mesh_tp", name, done=False)], siblings(rank))
        for rank, name in names.items()
    }
    found = verdict(tmp_path, dumps)
    assert (found.kind, found.ranks) == ("hang", ())


def test_a_dump_says_who_is_silent_of_a_group_whose_description_others_share(tmp_path):
    """By the name that the watchdog's lines have beside it."""
    members = {"3": (0, 1, 2), "4": (3, 4, 5)}
    dumps = {rank: dump([entry(1, name, "tp")], {name: members[name]}) for rank, name in ((0, "3"), (3, "4"))}
    line = "[rank{}]:[E ProcessGroupNCCL.cpp:1] [PG ID 1 PG GUID 4(tp) Rank {}] Watchdog caught collective operation "
    line += "timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600061 "
    line += "milliseconds before timing out.\n"
    log = line.format(3, 0) + line.format(4, 1) + "[rank5]: step 9\n"
    (tmp_path / "job.log").write_text(log + "W1 Sending process 9 closing signal SIGTERM\n")
    found = verdict(tmp_path, dumps)
    assert (found.kind, found.ranks, found.victims, found.group) == ("hang", (5,), (3, 4), "tp")


def test_a_rank_without_a_dump_is_the_only_one_that_can_be_late(tmp_path):
    found = verdict(tmp_path, {rank: dump(WAITS) for rank in (0, 1, 3)})
    assert (found.kind, found.ranks, found.sure) == ("hang", (2,), "likely")


NO_DUMPS = [
    {"ray_train_dump_error": "timed out after 30s"},
    {"ok": False, "reason": "timed out after 30s"},
    {"rank": 2, "ok": False, "reason": "timed out\n after 30s"},
]


@pytest.mark.parametrize("no_dump", NO_DUMPS)
@pytest.mark.parametrize("name", ["rank_2.json", "nccl_trace_rank_2"])
def test_a_rank_whose_dump_failed_is_named_with_the_reason_and_not_accused(tmp_path, no_dump, name):
    (tmp_path / name).write_text(json.dumps(no_dump))
    found = verdict(tmp_path, {rank: dump(WAITS) for rank in (0, 1, 3)}, as_json=True)
    assert (found.kind, found.ranks, found.victims, found.sure) == ("hang", (), (0, 1, 3), "unsure")
    assert "no record says whether rank 2 called it" in found.cause
    assert found.chain == ("rank 2 left no flight-recorder dump: timed out after 30s",)
    assert "rank 2" in found.next


def test_a_rank_that_is_missing_is_accused_beside_one_whose_dump_failed(tmp_path):
    (tmp_path / "rank_4.json").write_text(json.dumps(NO_DUMPS[0]))
    dumps = {rank: dump(WAITS, {"0": range(5)}) for rank in (0, 1, 3)} | {2: dump([entry(1)], {"0": range(5)})}
    found = verdict(tmp_path, dumps)
    assert (found.ranks, found.sure) == ((2,), "certain")
    assert found.chain == ("rank 4 left no flight-recorder dump: timed out after 30s",)


def test_dumps_that_all_failed_say_so(tmp_path):
    for rank in range(4):
        (tmp_path / f"rank_{rank}.json").write_text(json.dumps(NO_DUMPS[rank % 2]))
    found = verdict(tmp_path, {})
    assert (found.kind, found.ranks) == ("insufficient_data", ())
    assert found.cause == "ranks 0-3 left no flight-recorder dump: timed out after 30s"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("reply_2.json", {"ok": False, "reason": "rate limited"}),
        ("rank_2.json", {"ok": False}),
        ("rank_2.json", {"ok": False, "reason": 7}),
        ("rank_2.json", {"ok": False, "reason": "x", "user": "u"}),
        ("rank_2.json", {"ok": 0, "reason": "x"}),
        ("reply.json", {"ok": False, "reason": "x", "rank": True}),
        ("reply.json", {"ok": False, "reason": "x", "rank": -1}),
    ],
)
def test_other_json_with_a_reason_is_no_dump_of_a_rank(tmp_path, name, row):
    (tmp_path / name).write_text(json.dumps(row))
    assert verdict(tmp_path, {}) is None


def test_a_dump_counts_more_than_a_file_that_says_there_is_none(tmp_path):
    (tmp_path / "rank_2.json").write_text(json.dumps(NO_DUMPS[0]))
    found = verdict(tmp_path, {rank: dump(WAITS) for rank in (0, 1, 3)} | {2: dump([entry(1)])})
    assert (found.ranks, found.sure, found.chain) == ((2,), "certain", ())


def test_dumps_of_a_whole_node_that_are_left_out_accuse_nobody(tmp_path):
    found = verdict(tmp_path, {rank: dump(WAITS, {"0": range(6)}) for rank in range(4)})
    assert (found.kind, found.ranks, found.sure) == ("hang", (), "unsure")
    assert "ranks 0-3 wait in all_reduce 2 of group default_pg; no record says whether ranks 4 and 5" in found.cause


TIMED_OUT = (
    "[rank2]:[E1206 18:44:12.715 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=100, NumelOut=100, Timeout(ms)=600000) ran for 600061 milliseconds "
    "before timing out.\n"
)
STACK = """Process 7: python train.py
Python v3.11.9 (/usr/bin/python3.11)

Thread 7 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2501)
    step (train.py:10)
"""


@pytest.mark.parametrize(("name", "text"), [("job.log", TIMED_OUT), ("rank2.stack.txt", STACK)])
def test_a_rank_without_a_dump_that_waited_by_its_log_or_stack_is_not_late(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = verdict(tmp_path, {rank: dump(WAITS) for rank in (0, 1, 3)})
    assert found is None or found.ranks == ()


def test_two_of_eight_dumps_accuse_nobody(tmp_path):
    dumps = {rank: dump(WAITS, {"0": range(8)}) for rank in (0, 1)}
    found = verdict(tmp_path, dumps)
    assert found is None or found.ranks == ()


def test_a_buffer_whose_numbers_cannot_be_known_proves_nothing(tmp_path):
    """TorchComms numbers all groups together: of a rank that has sent more, nothing is late."""
    waits = [entry(at, "world", "nccl", "nccl:all_reduce", at < 9) for at in range(10)]
    late = [entry(at, "world", "nccl", f"nccl:{'send' if at % 2 else 'all_reduce'}") for at in range(20, 30)]
    found = verdict(tmp_path, {rank: dump(waits, {"world": range(4)}) for rank in (0, 1, 3)} | {2: dump(late)})
    assert found is None or found.ranks == ()
    sent = [entry(at, "world", "nccl", f"nccl:{'send' if at < 3 else 'all_reduce'}", at < 12) for at in range(13)]
    ended = [entry(at, "world", "nccl", "nccl:all_reduce") for at in range(9)]
    dumps = {rank: dump(waits, {"world": range(4)}) for rank in (0, 1)} | {2: dump(sent), 3: dump(ended)}
    found = verdict(tmp_path, dumps)
    assert (found.kind, found.ranks, found.victims, found.seq) == ("hang", (3,), (0, 1, 2), 9)


def test_a_buffer_that_begins_later_than_the_number_proves_nothing(tmp_path):
    dumps = {rank: dump(WAITS) for rank in (0, 1, 3)} | {2: dump([entry(50), entry(51, done=False)])}
    found = verdict(tmp_path, dumps)
    assert found is None or found.ranks == ()


def test_a_buffer_without_the_group_proves_nothing_but_for_its_first_number(tmp_path):
    members = {"0": range(4), "1": (2, 3)}
    waits = dump([entry(90, "1", "tp", done=False)], members)
    found = verdict(tmp_path, {2: waits, 3: dump([entry(700)], members)})
    assert found is None or found.ranks == ()


def test_queued_entries_behind_the_first_are_no_second_hang(tmp_path):
    queued = [*WAITS, entry(3, done=False, name="nccl:barrier"), entry(4, done=False)]
    found = verdict(tmp_path, {rank: dump(queued) for rank in (0, 1, 3)} | {2: dump([entry(1)])})
    assert (found.ranks, found.seq) == ((2,), 2)


def test_another_operation_of_a_minority_is_accused_with_its_line(tmp_path):
    odd = dump([entry(1), entry(2, name="nccl:barrier", done=False, line=77)])
    found = verdict(tmp_path, {rank: dump(WAITS) for rank in (0, 1, 2)} | {3: odd})
    assert (found.kind, found.ranks, found.line) == ("collective_mismatch", (3,), "/app/train.py:77 step")


def test_two_against_two_accuses_nobody(tmp_path):
    odd = dump([entry(1), entry(2, size=7, done=False)])
    found = verdict(tmp_path, {0: dump(WAITS), 1: dump(WAITS), 2: odd, 3: odd})
    assert (found.kind, found.ranks) == ("collective_mismatch", ())


def test_another_shape_of_as_many_elements_is_no_mismatch(tmp_path):
    same = dump([entry(1), entry(2, done=False, input_sizes=[[10, 10]])])
    found = verdict(tmp_path, {0: dump(WAITS), 1: same, 3: dump(WAITS), 2: dump([entry(1)])})
    assert (found.kind, found.ranks) == ("hang", (2,))


@pytest.mark.parametrize("name", ["nccl:all_to_all", "nccl:gather", "nccl:scatter"])
def test_operations_whose_sizes_may_differ_are_no_mismatch(tmp_path, name):
    dumps = {rank: dump([entry(1, name=name, size=rank, done=False)]) for rank in range(3)} | {3: dump([entry(0)])}
    found = verdict(tmp_path, dumps)
    assert (found.kind, found.ranks) == ("hang", (3,))


def test_point_to_point_entries_are_no_collectives(tmp_path):
    p2p = entry(2, name="nccl:send 0->1", done=False, is_p2p=True)
    dumps = {rank: dump(WAITS) for rank in (0, 1, 3)} | {2: dump([entry(1), p2p])}
    assert verdict(tmp_path, dumps).ranks == (2,)


def test_a_sub_group_accuses_only_its_members(tmp_path):
    members = {"0": range(4), "1": (2, 3)}
    dumps = {0: dump([entry(1)], members), 1: dump([entry(1)], members)}
    dumps |= {2: dump([entry(1), entry(1, "1", "tp", done=False)], members), 3: dump([entry(1)], members)}
    found = verdict(tmp_path, dumps)
    assert (found.ranks, found.victims, found.group) == ((3,), (2,), "tp")


def test_who_waits_for_a_rank_that_waits_elsewhere_is_led_to_the_last(tmp_path):
    members = {"0": range(4), "1": (2, 3)}
    dumps = {rank: dump(WAITS, members) for rank in (0, 1)}
    dumps |= {2: dump([entry(1), entry(1, "1", "tp", done=False)], members), 3: dump([entry(1)], members)}
    assert verdict(tmp_path, dumps).ranks == (3,)


def test_opposite_order_in_two_groups_accuses_nobody(tmp_path):
    members = {"0": range(4), "1": range(4)}
    one = dump([entry(1, done=False)], members)
    other = dump([entry(1, "1", "second", done=False)], members)
    found = verdict(tmp_path, {0: one, 1: one, 2: other, 3: other})
    assert (found.kind, found.ranks) == ("order_deadlock", ())


def test_all_in_the_same_call_accuses_nobody(tmp_path):
    found = verdict(tmp_path, {rank: dump(WAITS) for rank in range(4)})
    assert (found.kind, found.ranks) == ("hang", ())


def test_who_is_not_counted_as_enqueued_stands_inside_the_launch(tmp_path):
    dumps = {rank: dump(WAITS, enqueued={"0": 2}) for rank in (0, 1, 3)} | {2: dump(WAITS, enqueued={"0": 1})}
    found = verdict(tmp_path, dumps)
    assert (found.kind, found.ranks) == ("hang", (2,))
    assert "inside the launch" in found.cause


class Evil:
    def __reduce__(self):
        return (print, ("ran",))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_asks_for_code_is_refused_in_a_sentence(protocol, capsys):
    with pytest.raises(RecorderError, match="refused"):
        unpickled(pickle.dumps({"version": "2.7", "entries": [Evil()]}, protocol=protocol))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02",
        b"\x80\x02}r\x01",
        pickle.dumps({"version": "2.7"})[:-3],
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
    ],
)
def test_a_cut_pickle_is_an_error_of_ours(data):
    with pytest.raises(RecorderError):
        unpickled(data)


def test_a_large_number_of_the_memo_takes_no_memory():
    tracemalloc.start()
    try:
        assert unpickled(b"\x80\x02}r\xff\xff\xff\x0f.") == {}
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_byte_array_takes_no_memory():
    tracemalloc.start()
    try:
        with pytest.raises(RecorderError):
            unpickled(b"\x80\x05\x96" + (1 << 33).to_bytes(8, "little") + b".")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_refused_file_is_left_out_and_the_others_are_read(tmp_path):
    (tmp_path / "nccl_trace_rank_2").write_bytes(pickle.dumps({"version": "2.7", "entries": [Evil()]}))
    for rank in (0, 1, 3):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump(WAITS)))
    found = read([str(tmp_path)], 1 << 30)
    assert len(found.notes) == 1
    assert "refused" in found.notes[0]
    assert decide(found.statements).sure == "likely"


@pytest.mark.parametrize("wrong", [None, 7, "x", [], {}, -1, 1 << 80, True])
@pytest.mark.parametrize("field", list(entry(1)))
def test_a_field_of_a_wrong_type_harms_nothing(field, wrong):
    decide(statements(dump([entry(1) | {field: wrong}, entry(2, done=False)]), "trace_0", 0))


@pytest.mark.parametrize("field", list(entry(1)))
def test_a_list_that_holds_itself_many_times_is_never_written_out(field):
    """Sixty lists, each of them twice in the next: written out they would fill any memory."""
    many = []
    for _ in range(60):
        many = [many, many]
    decide(
        statements(dump([entry(1) | {field: many}], {"0": [0]}) | {"pg_config": {"0": {"ranks": many}}}, "trace_0", 0)
    )


@pytest.mark.parametrize("wrong", [None, 7, "x", [], [7], {"0": 7}, {7: {}}])
@pytest.mark.parametrize("field", ["pg_config", "pg_status", "entries"])
def test_a_dump_with_a_wrong_part_harms_nothing(field, wrong):
    decide(statements(dump(WAITS) | {field: wrong}, "trace_0", 0))
