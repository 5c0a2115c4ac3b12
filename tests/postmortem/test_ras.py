"""Reports of NCCL's RAS, as text and as JSON, as NCCL 2.24 to 2.31 print them.

What they assume: a communicator's hash is that of the job's life; counts only grow; two reports of one job are of two
moments, unless both say the same second; files are given in the order of their moments where nothing in them says it.
"""

import gzip
import json

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

NODE = "172.16.64.{}"


def place(rank, on=8):
    return f"GPU {rank % on} managed by process {48000 + rank} on node {NODE.format(210 + rank // on)}"


def listed(ranks):
    return "".join(f"  Rank {rank} -- {place(rank)}\n" for rank in ranks)


def text(size=8, errors="", warnings="", status="RUNNING", word="OK", version="2.26.2", comms=1, on=8):
    nodes = max(1, size // on)
    return (
        f"NCCL version {version} compiled with CUDA 12.6\nCUDA runtime version 12060, driver version 12060\n\n"
        "Job summary\n===========\n\n"
        "  Nodes  Processes         GPUs  Processes     GPUs\n"
        "(total)   per node  per process    (total)  (total)\n"
        f"{nodes:7d}  {on:9d}  {1:11d}  {size:9d}  {size:7d}\n"
        "\nCommunicators... (0.00s)\n=============\n\n"
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
        "    #  in group  per comm  per node  per comm  in group\n"
        f"{0:5d}  {comms:8d}  {nodes:8d}  {on:>8}  {size // comms:8d}  {size:8d}  {status:>8}  {word:>6}\n"
        f"\nErrors\n======\n\n{errors}Warnings\n========\n\n{warnings}"
    )


def counts(low, rank=7, high=64, operation="AllReduce", name="78db921d1c117b4a", size=8):
    return (
        f"#0-0 ({name}) MISMATCH\n  Communicator ranks have different {operation} operation counts\n"
        f"  {size - 1} ranks have launched up to operation {high}\n"
        f"  Rank {rank} has launched up to operation {low} -- {place(rank)}\n\n"
    )


def late(low=60, **more):
    return text(warnings=counts(low, **more), word="MISMATCH")


def verdict(folder, **files):
    for name, data in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return decide(read([str(folder)], 1 << 30).statements)


def timed_out(rank):
    return (
        f"[rank{rank}]:[E1206 18:44:12.7 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=10, NumelOut=10, "
        "Timeout(ms)=600000) ran for 600061 milliseconds before timing out.\n"
    )


def test_the_rank_that_has_launched_less_is_named_with_its_process_node_and_gpu(tmp_path):
    found = verdict(tmp_path, ras__txt=late())
    assert (found.kind, found.ranks, found.sure) == ("hang", (7,), "unsure")
    assert "rank 7 (process 48007 on 172.16.64.210, GPU 7) has launched AllReduce up to 60" in found.cause
    assert "the others up to 64" in found.cause
    assert (found.group, found.operation) == ("78db921d1c117b4a", "AllReduce")
    assert found.victims == tuple(range(7))
    assert [(one.line, one.file.endswith("ras.txt")) for one in found.grounds] == [(27, True), (26, True)]
    assert "--pid 48007" in found.next
    assert "a second report" in found.next


def test_two_reports_in_which_it_has_not_moved_are_likely(tmp_path):
    found = verdict(tmp_path, a__txt=late(), b__txt=late(high=70))
    assert (found.kind, found.ranks, found.sure) == ("hang", (7,), "likely")
    assert "not moved between two reports" in found.cause
    assert "second report" not in found.next


def test_two_reports_in_one_file_are_two(tmp_path):
    assert verdict(tmp_path, ras__txt=late() + late()).sure == "likely"


def test_a_file_and_its_packed_copy_are_one_report(tmp_path):
    found = verdict(tmp_path, ras__txt=late(), ras__txt__gz=gzip.compress(late().encode()))
    assert found.sure == "unsure"


def test_a_rank_that_moves_is_no_hang(tmp_path):
    found = verdict(tmp_path, a__txt=late(60), b__txt=late(70, high=80))
    assert (found.kind, found.ranks, found.slow) == ("waiting", (), (7,))


def test_a_rank_that_moved_and_then_stood_is_still(tmp_path):
    assert verdict(tmp_path, a__txt=late(50), b__txt=late(60), c__txt=late(60)).sure == "likely"


def test_reports_in_which_it_moves_are_of_before_where_the_job_failed_later(tmp_path):
    log = "".join(map(timed_out, (0, 1, 2))) + "torch.distributed.elastic Sending process 11 closing signal SIGTERM\n"
    found = verdict(tmp_path, a__txt=late(60), b__txt=late(70, high=80), job__log=log)
    assert found.kind == "hang"
    assert "moved" not in found.cause


def test_of_two_that_are_behind_and_one_that_moved_nothing_is_sure(tmp_path):
    def said(first, second, high=64):
        heads = "#0-0 (78db921d1c117b4a) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
        rows = "".join(
            f"  Rank {rank} has launched up to operation {count} -- {place(rank)}\n"
            for rank, count in ((6, first), (7, second))
        )
        if first == second:
            rows = f"  2 ranks have launched up to operation {first}\n" + listed((6, 7))
        return text(warnings=f"{heads}  6 ranks have launched up to operation {high}\n{rows}\n", word="MISMATCH")

    found = verdict(tmp_path, a__txt=said(50, 60), b__txt=said(60, 60))
    assert (found.kind, found.ranks, found.sure) == ("hang", (6, 7), "unsure")


def test_each_line_twice_is_one_report(tmp_path):
    said = "".join(f"{line}\n{line}\n" for line in late().splitlines())
    found = verdict(tmp_path, ras__log=said)
    assert (found.ranks, found.sure) == ((7,), "unsure")


def test_a_rank_that_the_communicator_cannot_have_is_not_one_of_the_job(tmp_path):
    found = verdict(tmp_path, ras__txt=late().replace("Rank 7 has", "Rank 8 has"))
    assert found.ranks == ()


def test_a_report_of_another_communicator_says_nothing_of_movement(tmp_path):
    found = verdict(tmp_path, a__txt=late(name="00db921d1c117b4a"), b__txt=late())
    assert found.sure == "unsure"


def test_one_operation_less_can_be_in_flight(tmp_path):
    """The example of NVIDIA's guide, of NCCL 2.24: one sum for all operations."""
    said = (
        "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different collective operation counts\n"
        "  26 ranks have launched up to operation 6650\n  6 ranks have launched up to operation 6649\n"
        + listed((0, 2, 3, 4, 5, 7))
    )
    found = verdict(tmp_path, ras__txt=text(32, warnings=said, word="MISMATCH", version="2.24.3"))
    assert (found.ranks, found.sure) == ((0, 2, 3, 4, 5, 7), "unsure")
    assert "in flight" in found.cause
    assert "launched collectives up to 6649" in found.cause


def test_of_few_that_are_ahead_and_many_that_are_behind_none_is_accused(tmp_path):
    said = (
        "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllGather operation counts\n"
        "  30 ranks have launched up to operation 640\n  2 ranks have launched up to operation 641\n" + listed((12, 13))
    )
    found = verdict(tmp_path, ras__txt=text(32, warnings=said, word="MISMATCH"))
    assert (found.kind, found.ranks, found.sure) == ("insufficient_data", (), "unsure")
    assert "30 ranks have launched AllGather up to 640" in found.cause
    assert "ranks 12 and 13 (process 48012 on 172.16.64.211, GPU 4; process 48013 on" in found.cause
    assert "have launched AllGather up to 641" in found.cause


def test_of_two_halves_none_is_accused(tmp_path):
    said = (
        "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
        "  4 ranks have launched up to operation 9\n  4 ranks have launched up to operation 4\n"
    )
    found = verdict(tmp_path, ras__txt=text(warnings=said, word="MISMATCH"))
    assert found.ranks == ()
    assert "up to 4" in found.cause
    assert "up to 9" in found.cause


def test_ten_thousand_ranks_of_which_the_late_are_not_listed_give_counts(tmp_path):
    said = (
        "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
        "  9984 ranks have launched up to operation 640\n  16 ranks have launched up to operation 612\n\n"
    )
    found = verdict(tmp_path, ras__txt=text(10_000, warnings=said, word="MISMATCH"))
    assert found.ranks == ()
    assert "16 ranks have launched AllReduce up to 612" in found.cause
    assert "ncclras -v" in found.next


def test_a_rank_that_has_launched_nothing(tmp_path):
    said = counts(60).replace("has launched up to operation 60", "has not launched any operations")
    found = verdict(tmp_path, ras__txt=text(warnings=said, word="MISMATCH"))
    assert found.ranks == (7,)
    assert "has launched no AllReduce" in found.cause


def test_equal_counts_say_that_no_rank_is_behind(tmp_path):
    found = verdict(tmp_path, ras__txt=text(256))
    assert (found.kind, found.ranks) == ("insufficient_data", ())
    assert "no rank behind" in found.cause
    assert "256 ranks" in found.cause


def test_the_newest_report_counts(tmp_path):
    found = verdict(tmp_path, a__txt=late(), b__txt=text())
    assert found.ranks == ()
    assert "the last of 2" in found.cause


def test_a_report_in_which_all_is_well_leaves_what_the_log_says(tmp_path):
    log = text() + "".join(map(timed_out, (0, 1, 2, 3, 4, 5, 6))) + "[rank7]: step 4\n"
    log += "torch.distributed.elastic Sending process 11 closing signal SIGTERM\n"
    alone = verdict(tmp_path, job__log=log.replace(text(), ""))
    with_report = verdict(tmp_path, job__log=log)
    assert (with_report.kind, with_report.ranks, with_report.cause) == (alone.kind, alone.ranks, alone.cause)


def test_a_report_in_which_all_is_well_stands_beside_waiters_of_whom_none_is_late(tmp_path):
    """RAS counts launches: it sees nothing of a collective that does not end."""
    found = verdict(tmp_path, job__log=text(256) + timed_out(118))
    assert (found.kind, found.ranks, found.victims) == ("hang", (), (118,))
    assert "no rank behind" in found.chain[-1]


def test_where_others_timed_out_one_report_is_likely(tmp_path):
    log = "".join(map(timed_out, (0, 1)))
    found = verdict(tmp_path, ras__txt=late(), job__log=log)
    assert (found.ranks, found.sure) == ((7,), "likely")


def test_a_rank_that_timed_out_itself_is_not_likely(tmp_path):
    log = "".join(map(timed_out, (0, 7)))
    found = verdict(tmp_path, ras__txt=late(), job__log=log)
    assert found.sure == "unsure"


def test_an_exception_in_the_log_says_more(tmp_path):
    raised = (
        "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "/app/train.py", line 10, in step\n[rank2]: ValueError: bad label\n'
    )
    found = verdict(tmp_path, ras__txt=late() + late(), job__log=raised)
    assert (found.kind, found.ranks) == ("died", (2,))


def test_a_stack_of_the_rank_gives_the_line(tmp_path):
    stack = (
        "Process 48007: python train.py\nPython v3.11.7 (/usr/bin/python)\n\n"
        'Thread 48007 (active): "MainThread"\n    evaluate (/app/train.py:45)\n    <module> (/app/train.py:90)\n'
    )
    found = verdict(tmp_path, ras__txt=late(), rank7_stack__txt=stack)
    assert found.ranks == (7,)
    assert found.line == "/app/train.py:45 evaluate"


DEAD = "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
AWAY = "INCOMPLETE\n  Missing communicator data from 1 job process\n"
PROCESS = "  Process 48021 on node 172.16.64.212 managing GPU 5\n\n"
#: NCCL 2.24, and newer.
MISSING = ("  The missing rank: 21\n\n", f"  Rank 21 -- {place(21)}\n\n")


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize(("head", "sure"), [(DEAD, "likely"), (AWAY, "unsure")])
def test_a_process_that_does_not_answer_is_named(tmp_path, missing, head, sure):
    said = f"{head}{PROCESS}#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n{missing}"
    found = verdict(tmp_path, ras__txt=text(32, errors=said, word="INCOMPLETE"))
    assert (found.kind, found.ranks, found.nodes, found.sure) == ("hang", (21,), ("172.16.64.212",), sure)
    assert "rank 21 (process 48021 on 172.16.64.212, GPU 5) does not answer" in found.cause
    assert ("considers it dead" in found.cause) == (head == DEAD)
    assert "-p 48021 on 172.16.64.212" in found.next


def test_a_process_with_several_gpus_is_named_without_a_rank(tmp_path):
    said = AWAY + "  Process 9 on node 10.0.0.3 managing GPUs 0,3 (NVML 4,7)\n\n"
    found = verdict(tmp_path, ras__txt=text(errors=said, word="INCOMPLETE"))
    assert (found.kind, found.ranks, found.nodes) == ("hang", (), ("10.0.0.3",))
    assert "process 9 on 10.0.0.3, GPU 0,3 (NVML 4,7) does not answer" in found.cause


def test_processes_out_of_reach_that_are_half_of_the_job_are_not_accused(tmp_path):
    gone = "".join(f"  Process {48000 + n} on node 172.16.64.210 managing GPU {n}\n" for n in range(4))
    said = f"INCOMPLETE\n  Missing communicator data from 4 job processes\n{gone}\n"
    assert verdict(tmp_path, ras__txt=text(errors=said, word="INCOMPLETE")).ranks == ()


def test_processes_that_are_not_listed_are_counted(tmp_path):
    said = "DEAD\n  24 job processes are considered dead (unreachable via the RAS network)\n\n"
    found = verdict(tmp_path, ras__txt=text(1024, errors=said, word="INCOMPLETE"))
    assert found.ranks == ()
    assert "24 processes" in found.cause


def test_the_rank_of_a_part_of_the_job_is_not_one_of_the_job(tmp_path):
    said = counts(60, rank=3, size=4)
    found = verdict(tmp_path, ras__txt=text(warnings=said, word="MISMATCH", comms=2))
    assert (found.kind, found.ranks, found.victims) == ("hang", (), ())
    assert "rank 3 of communicator 78db921d1c117b4a (process 48003 on" in found.cause
    assert found.nodes == ("172.16.64.210",)


def test_another_file_says_which_rank_that_process_is(tmp_path):
    said = text(warnings=counts(60, rank=3, size=4), word="MISMATCH", comms=2)
    placed = json.dumps({"6": {"node": "172.16.64.210", "pid": 48003, "gpu": 3, "pci": "0000:9b:00.0"}})
    found = verdict(tmp_path, ras__txt=said, ranks__json=placed)
    assert found.ranks == (6,)
    assert "rank 6 (process 48003" in found.cause


def test_a_log_with_more_ranks_than_the_communicator_shows_that_it_is_a_part(tmp_path):
    found = verdict(tmp_path, ras__txt=late(), job__log=timed_out(11))
    assert found.ranks == ()


def test_two_communicators_that_name_different_processes_accuse_none(tmp_path):
    second = counts(3, rank=2, high=5, name="00db921d1c117b4a", size=4).replace("#0-0", "#0-1")
    found = verdict(tmp_path, ras__txt=text(warnings=counts(60, rank=1, size=4) + second, word="MISMATCH", comms=2))
    assert (found.kind, found.ranks, found.nodes) == ("insufficient_data", (), ())
    assert "78db921d1c117b4a" in found.cause
    assert "00db921d1c117b4a" in found.cause


def test_fewer_of_one_operation_and_more_of_another_are_other_calls(tmp_path):
    said = counts(60).rstrip() + "\n\n" + counts(9, high=8, operation="AllGather").split("\n", 1)[1]
    found = verdict(tmp_path, ras__txt=text(warnings=said, word="MISMATCH"))
    assert (found.kind, found.ranks, found.sure) == ("collective_mismatch", (7,), "unsure")
    assert "AllReduce up to 60" in found.cause
    assert "AllGather up to 9" in found.cause


@pytest.mark.parametrize("word", ["FINALIZE", "NOCOMM", "UNKNOWN", "INIT"])
def test_a_rank_of_another_status_is_named(tmp_path, word):
    said = (
        "#0-0 (9e17999afaa87dbb) MISMATCH\n  Communicator ranks have different status\n"
        f"  7 ranks have status RUNNING\n  Rank 5 has status {word} -- {place(5)}\n\n"
    )
    found = verdict(tmp_path, ras__txt=text(warnings=said, word="MISMATCH", status="FINALIZE"))
    assert (found.ranks, found.sure) == ((5,), "unsure")
    assert f"has status {word} where 7 have RUNNING" in found.cause


@pytest.mark.parametrize("word", ["ABORT", "WOBBLING"])
def test_a_status_that_follows_from_others_or_is_not_known_accuses_none(tmp_path, word):
    said = (
        "#0-0 (9e17999afaa87dbb) MISMATCH\n  Communicator ranks have different status\n"
        f"  7 ranks have status RUNNING\n  Rank 5 has status {word} -- {place(5)}\n\n"
    )
    assert verdict(tmp_path, ras__txt=text(warnings=said, word="MISMATCH", status=word)).ranks == ()


def test_a_communicator_that_is_torn_down_accuses_none(tmp_path):
    """The example of NVIDIA's guide."""
    said = (
        "#0-0 (9e17999afaa87dbb) MISMATCH\n  Communicator ranks have different status\n"
        "  26 ranks have status UNKNOWN\n  4 ranks have status RUNNING\n"
        + listed((0, 8, 16, 24))
        + "  2 ranks have status FINALIZE\n"
        + listed((4, 20))
    )
    assert verdict(tmp_path, ras__txt=text(32, warnings=said, word="MISMATCH", status="FINALIZE")).ranks == ()


@pytest.mark.parametrize(
    ("words", "ranks", "sure"),
    [
        ("Unhandled CUDA error", (5,), "likely"),
        ("System error", (5,), "unsure"),
        ("Remote process error", (), "unsure"),
    ],
)
def test_a_rank_that_reported_an_error_is_named_unless_it_is_of_another(tmp_path, words, ranks, sure):
    said = f"#0-0 (9e17999afaa87dbb) ERROR\n  Asynchronous error on 1 rank\n  Rank 5 reported {words} -- {place(5)}\n\n"
    found = verdict(tmp_path, ras__txt=text(errors=said, word="ERROR"))
    assert (found.ranks, found.sure) == (ranks, sure)


def test_a_gpu_has_two_numbers_where_a_process_sees_some_only(tmp_path):
    found = verdict(tmp_path, ras__txt=late().replace("GPU 7 managed", "GPU 0 (NVML 7) managed"))
    assert found.ranks == (7,)
    assert "GPU 0 (NVML 7)" in found.cause


def test_a_process_of_which_nothing_is_known(tmp_path):
    found = verdict(tmp_path, ras__txt=late().replace(place(7), "[process information not found]"))
    assert (found.ranks, found.nodes) == ((7,), ())
    assert "rank 7 has launched" in found.cause


@pytest.mark.parametrize(
    "prefix",
    ["0: ", "[pod/llm-worker-0/pytorch] ", "2026-11-20T09:13:57.123456789Z stdout F ", "[2026-11-20 09:13:57] "],
)
def test_what_launchers_put_before_lines_is_taken_off(tmp_path, prefix):
    said = "".join(f"{prefix}{line}\n" for line in late().splitlines())
    assert verdict(tmp_path, ras__log=said).ranks == (7,)


def test_telnets_ends_of_lines_and_words(tmp_path):
    said = "Trying ::1...\nConnected to localhost.\nEscape character is '^]'.\nverbose status\n" + late()
    found = verdict(tmp_path, ras__txt=said.replace("\n", "\r\n") + "Connection closed by foreign host.\r\n")
    assert found.ranks == (7,)


def test_lines_of_others_may_stand_between(tmp_path):
    said = "".join(f"{line}\nstep {n} loss 3.2\n" for n, line in enumerate(late().splitlines()))
    assert verdict(tmp_path, job__log="starts\n" * 50 + said + "goes on\n" * 500).ranks == (7,)


def test_a_part_that_was_copied_is_read(tmp_path):
    found = verdict(tmp_path, chat__txt=counts(60))
    assert found.ranks == ()
    assert "rank 7 of communicator 78db921d1c117b4a (process 48007 on 172.16.64.210, GPU 7)" in found.cause


def test_a_report_that_is_cut_off_says_what_comes_before(tmp_path):
    said = late()
    named = []
    for end in [*range(0, len(said), 41), len(said)]:
        (tmp_path / "ras.txt").write_text(said[:end])
        found = decide(read([str(tmp_path)], 1 << 30).statements)
        named.append(found is not None and found.ranks == (7,))
        assert found is None or found.ranks in ((), (7,))
    assert named[-1]


def test_a_list_of_numbers_that_nccl_has_cut_loses_its_last(tmp_path):
    numbers = ",".join(map(str, range(5000, 5300)))[:1013]
    said = "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 300 ranks\n"
    said += f"  The missing ranks: {numbers}\n"
    statements = read([str(_written(tmp_path, text(10_000, errors=said)))], 1 << 30).statements
    members = [one.member for one in statements if getattr(one, "about", "") == "missing" and one.member is not None]
    assert max(members) < 5300
    assert min(members) == 5000


def _written(folder, said):
    (folder / "ras.txt").write_text(said)
    return folder / "ras.txt"


@pytest.mark.long
def test_sizes_that_nobody_has_cost_little(tmp_path):
    one = (
        "#0-{} ({:016x}) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
        "  9999998 ranks have launched up to operation 9223372036854775807\n"
        f"  Rank 9999999 has launched up to operation 1 -- {place(3)}\n\n"
    )
    said = text(9_999_999, warnings="".join(one.format(n, n) for n in range(300)), word="MISMATCH")
    assert verdict(tmp_path, ras__txt=said).kind in ("hang", "insufficient_data")


def rank_json(rank, count, pid=None, on=8, **status):
    flags = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    operations = count if isinstance(count, dict) else {"Broadcast": 0, "AllGather": 0, "AllReduce": count}
    return {
        "rank": rank,
        "host": NODE.format(210),
        "pid": 48000 + rank if pid is None else pid,
        "cuda_dev": (rank if pid is None else pid) % on,
        "nvml_dev": (rank if pid is None else pid) % on,
        "status": flags | status,
        "collective_counts": operations,
    }


def away_json(rank, dead=False, unresponsive=True):
    made = rank_json(rank, 0)
    made["status"] = {"unresponsive": unresponsive, "considered_dead": dead}
    del made["collective_counts"]
    return made


def comm_json(ranks, missing=(), name="0x78db921d1c117b4a"):
    return {
        "hash": name,
        "secondary_hash": "0x2cd6d618b4a75a5a:0xe6854f9ece96c663",
        "size": len(ranks) + len(missing),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(missing),
        "ranks": ranks,
        "missing_ranks": list(missing),
    }


def report_json(*comms, second=56, indent=2):
    made = {
        "nccl_version": "2.28.9",
        "cuda_runtime_version": 12090,
        "cuda_driver_version": 13000,
        "timestamp": f"2026-06-19 06:51:{second:02d}",
        "communicators_count": len(comms),
        "communicators": list(comms),
        "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
    }
    return json.dumps(made, indent=indent) + "\n"


def late_json(low=60, high=64, **more):
    return report_json(comm_json([rank_json(rank, low if rank == 7 else high) for rank in range(8)]), **more)


@pytest.mark.parametrize("indent", [2, None])
def test_json_names_the_same_rank_as_text(tmp_path, indent):
    found = verdict(tmp_path, ras__json=late_json(indent=indent))
    assert (found.kind, found.ranks, found.sure) == ("hang", (7,), "unsure")
    assert "rank 7 (process 48007 on 172.16.64.210, GPU 7) has launched AllReduce up to 60" in found.cause
    assert found.group == "78db921d1c117b4a"


def test_json_with_the_missing_comma_of_nccl_2_28(tmp_path):
    ranks = [rank_json(rank, 4) for rank in range(7)]
    said = report_json(comm_json(ranks, [away_json(7)]))
    broken = said.replace('"nvml_dev": 7,', '"nvml_dev": 7')
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken)
    found = verdict(tmp_path, ras__json=broken)
    assert (found.kind, found.ranks, found.sure) == ("hang", (7,), "unsure")
    assert "rank 7 (process 48007 on 172.16.64.210, GPU 7) does not answer" in found.cause


def test_json_of_a_dead_rank(tmp_path):
    said = report_json(comm_json([rank_json(rank, 4) for rank in range(7)], [away_json(7, dead=True)]))
    found = verdict(tmp_path, ras__json=said)
    assert (found.ranks, found.sure) == ((7,), "likely")


def test_json_of_a_rank_that_answers_and_is_no_member(tmp_path):
    said = report_json(comm_json([rank_json(rank, 4) for rank in range(7)], [away_json(7, unresponsive=False)]))
    found = verdict(tmp_path, ras__json=said)
    assert found.ranks == (7,)
    assert "status NOCOMM" in found.cause


def test_json_reports_are_ordered_by_their_time_and_one_second_is_one_report(tmp_path):
    found = verdict(tmp_path, b__json=late_json(second=10), a__json=late_json(50, second=40))
    assert found.kind == "waiting"
    for file in tmp_path.iterdir():
        file.unlink()
    assert verdict(tmp_path, a__json=late_json(), b__json=late_json()).sure == "unsure"
    assert verdict(tmp_path, a__json=late_json(), b__json=late_json(second=59)).sure == "likely"


def test_json_reports_behind_each_other_with_words_of_nc(tmp_path):
    assert verdict(tmp_path, ras__txt="OK\n" + late_json() + "OK\n" + late_json(second=59)).sure == "likely"


def test_json_that_is_cut_off_says_what_comes_before(tmp_path):
    said = late_json()
    for end in range(0, len(said), 397):
        (tmp_path / "ras.json").write_text(said[:end])
        found = decide(read([str(tmp_path)], 1 << 30).statements)
        assert found is None or found.ranks in ((), (7,))


def test_json_gives_a_rank_of_a_part_its_number_in_the_job(tmp_path):
    whole = comm_json([rank_json(rank, 5) for rank in range(8)], name="0x1")
    part = comm_json([rank_json(k, 9 if k == 2 else 12, pid=48004 + k) for k in range(4)], name="0x2")
    found = verdict(tmp_path, ras__json=report_json(part, whole))
    assert found.ranks == (6,)
    assert "rank 6 (process 48006" in found.cause


def test_a_rank_that_waits_in_another_communicator_is_not_behind(tmp_path):
    """48001 is late in the first, for it waits in the second for 48012."""
    first = comm_json([rank_json(k, 60 if k == 1 else 64, pid=48000 + k) for k in range(4)], name="0x1")
    second = comm_json(
        [rank_json(k, 8 if k == 2 else 9, pid=pid) for k, pid in enumerate((48001, 48011, 48012))], name="0x2"
    )
    found = verdict(tmp_path, ras__json=report_json(first, second))
    assert "process 48012" in found.cause
    assert "process 48001" not in found.cause


def test_rows_of_json_below_a_report_are_no_ranks(tmp_path):
    log = late_json() + '{"rank": 3, "pid": 7, "status": {"init_state": 0}}\n'
    assert verdict(tmp_path, ras__json=log).ranks == (7,)


@pytest.mark.slow
def test_json_of_ten_thousand_ranks(tmp_path):
    ranks = [rank_json(rank, 60 if rank == 7777 else 64) for rank in range(10_000)]
    found = verdict(tmp_path, ras__json=report_json(comm_json(ranks), indent=None))
    assert found.ranks == (7777,)


def test_flight_recorders_say_more(tmp_path):
    """What is behind in a report may have come to it since; a dump of the end shows who has not."""

    def entry(seq, done):
        made = {"process_group": ["0", "default_pg"], "collective_seq_id": seq, "profiling_name": "nccl:all_reduce"}
        state = {"state": "completed" if done else "scheduled", "retired": done, "is_p2p": False}
        return made | state | {"input_sizes": [[10]], "input_dtypes": ["Float"]}

    config = {"0": {"name": "0", "desc": "", "ranks": str(list(range(8)))}}
    for rank in range(8):
        calls = [entry(1, True)] + ([entry(2, False)] if rank != 2 else [])
        dump = {"version": "2.7", "pg_config": config, "pg_status": {}, "entries": calls}
        (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(dump))
    found = verdict(tmp_path, a__txt=late(), b__txt=late())
    assert (found.kind, found.ranks, found.sure) == ("hang", (2,), "certain")


def test_an_exit_says_more_than_a_process_that_does_not_answer(tmp_path):
    said = f"{DEAD}  Process 48003 on node 172.16.64.210 managing GPU 3\n\n"
    log = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-20_09:13:57\n  host      : gpu-1\n"
        "  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 48003)\n  error_file: <N/A>\n"
        "  traceback : Signal 9 (SIGKILL) received by PID 48003\n====\n"
    )
    found = verdict(tmp_path, ras__txt=text(errors=said, word="INCOMPLETE"), job__log=log)
    assert (found.kind, found.ranks) == ("died", (3,))
    assert "SIGKILL" in found.cause
