"""The lines of the library that is PyTorch's default for NCCL since 2.15: it names a group's rank and no collective."""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

HEAD = "[rank{rank}]:[E1130 10:20:30.12345678{rank} "
TIMED_OUT = (
    HEAD + "WorkNCCL.cpp:153] [TC][rank={within}][name={group}] Operation timed out after 600123 ms\n"
    "" + HEAD + "ProcessGroupNCCL.cpp:1032] [TC][rank={within}][name={group}] Aborting process on rank {within} due to "
    "timeout - timeout watchdog detected operation timeout\n"
)
LOST = "remote process exited or there was a network error"
HIT = (
    HEAD + "ProcessGroupNCCLUtils.cpp:290] [TC][rank={rank}][name=0] nccl hit async error on rank {rank}: {text}\n"
    ""
    + HEAD
    + "ProcessGroupNCCL.cpp:1032] [TC][rank={rank}][name=0] Aborting process on rank {rank} due to error - nccl "
    "hit async error: {text}\n"
)


def timed_out(rank, group="0", within=None):
    return TIMED_OUT.format(rank=rank, group=group, within=rank if within is None else within)


def agent(**exits):
    """What torchrun says in the end: ``exits`` by rank, ``rank0=-6``; process 100 + N is rank N's."""
    codes = {int(name.removeprefix("rank")): code for name, code in exits.items()}
    said = "".join(
        "W1130 10:20:31.000000 90 torch/distributed/elastic/multiprocessing/api.py:1010] Sending process "
        f"{100 + rank} closing signal SIGTERM\n"
        for rank, code in codes.items()
        if code == -15
    )
    first = min(rank for rank, code in codes.items() if code != -15)
    said += (
        "E1130 10:20:33.000000 90 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: "
        f"{codes[first]}) local_rank: {first} (pid: {100 + first}) of binary: /usr/bin/python\n{'=' * 60}\n"
        f"train.py FAILED\n{'-' * 60}\nFailures:\n"
    )
    rest = [rank for rank in codes if rank != first]
    said += "".join(row(number + 1, rank, codes[rank]) for number, rank in enumerate(rest))
    return f"{said}{'-' * 60}\nRoot Cause (first observed failure):\n{row(0, first, codes[first])}{'=' * 60}\n"


def row(number, rank, code):
    return (
        f"[{number}]:\n  time      : 2026-11-30_10:20:33\n  host      : n1\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: {100 + rank}) ({ {-6: 'SIGABRT', -15: 'SIGTERM', -9: 'SIGKILL'}[code] })\n"
        f"  error_file: <N/A>\n  traceback : Signal {-code} received by PID {100 + rank}\n"
    )


def verdict(folder, text):
    (folder / "job.log").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


@pytest.mark.parametrize("prefix", ["[rank{}]:", "[default{}]:", ""])
def test_the_rank_that_did_not_time_out_is_the_late_one(tmp_path, prefix):
    """Also where a log has no prefix of PyTorch's: in the default group the rank is the job's."""
    said = "".join(timed_out(rank).replace(f"[rank{rank}]:", prefix.format(rank)) for rank in (0, 1, 3))
    said = f"{prefix.format(2)}step 100\n{said}"
    found = verdict(tmp_path, said + agent(rank0=-6, rank1=-6, rank2=-15, rank3=-6))
    assert (found.kind, found.ranks, found.victims) == ("hang", (2,), (0, 1, 3))


def test_where_all_timed_out_nobody_is_accused(tmp_path):
    said = "".join(map(timed_out, range(4)))
    found = verdict(tmp_path, said + agent(rank0=-6, rank1=-6, rank2=-6, rank3=-6))
    assert (found.kind, found.ranks, found.victims) == ("hang", (), (0, 1, 2, 3))


def test_ranks_of_other_groups_count_within_them(tmp_path):
    """Ranks 2 and 3 wait in a group of their own, as its ranks 0 and 1: neither is the job's rank 0 or 1."""
    said = timed_out(2, "7", 0) + timed_out(3, "7", 1)
    found = verdict(tmp_path, said + agent(rank0=-15, rank1=-15, rank2=-6, rank3=-6))
    assert (found.kind, found.ranks, found.victims) == ("hang", (), (2, 3))


def test_who_lost_a_peer_is_no_culprit_beside_one_that_was_killed(tmp_path):
    said = "".join(HIT.format(rank=rank, text=LOST) for rank in (0, 1, 3))
    found = verdict(tmp_path, said + agent(rank0=-6, rank1=-6, rank2=-9, rank3=-6))
    assert (found.kind, found.ranks, found.victims) == ("died", (2,), (0, 1, 3))


@pytest.mark.parametrize("call", ["NCCL AllReduce failed", "NCCL GroupEnd failed", "NCCL Async Error"])
def test_an_exception_on_a_peer_that_is_gone_accuses_nobody(tmp_path, call):
    frame = '  File "/x/site-packages/torch/distributed/distributed_c10d.py", line 4181, in all_reduce'
    lines = ["Traceback (most recent call last):", '  File "/w/train.py", line 9, in <module>', frame]
    lines.append(f"RuntimeError: {call}: {LOST} ")
    found = verdict(tmp_path, "".join(f"[rank1]: {line}\n" for line in lines) + timed_out(0))
    assert found.ranks == ()
    assert {0, 1} >= set(found.victims) >= {0}


def test_nccls_last_error_below_its_exception_names_the_device_that_failed(tmp_path):
    raised = "RuntimeError: NCCL AllReduce failed: unhandled cuda error (run with NCCL_DEBUG=INFO for details) "
    last = "NCCL Last Error: Cuda failure 700 'an illegal memory access was encountered'"
    lines = ["Traceback (most recent call last):", '  File "/w/train.py", line 9, in <module>', raised, last]
    found = verdict(tmp_path, "".join(f"[rank1]: {line}\n" for line in lines) + timed_out(0))
    assert (found.kind, found.ranks, found.victims) == ("died", (1,), (0,))
    assert "an illegal memory access" in found.cause


def test_a_device_that_reports_an_error_while_its_work_is_watched_is_named(tmp_path):
    text = "CUDA error during end event query: CUDA error: an illegal memory access was encountered\n"
    said = HEAD.format(rank=2) + f"WorkNCCL.cpp:131] [TC][rank=2][name=0] {text}" + timed_out(0) + timed_out(1)
    found = verdict(tmp_path, said + agent(rank0=-6, rank1=-6, rank2=-6))
    assert (found.kind, found.ranks, found.victims) == ("died", (2,), (0, 1))
