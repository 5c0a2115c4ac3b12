"""Horovod's reports of stalls, in the forms of its versions and behind the prefixes of its launchers."""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

SENTENCE = (
    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for "
    "remainder of ranks for more than 60 seconds. This may indicate that different ranks are trying to submit "
    "different tensors or that only subset of ranks is submitting tensors, which will cause deadlock. "
)
NEW = f"[2021-02-02 21:19:07.345988: W /tmp/pip-install-d/horovod/horovod/common/stall_inspector.cc:105] {SENTENCE}\n"
MIDDLE = "[2019-06-04 16:49:19.737850: W horovod/common/operations.cc:588] "


def verdict(folder, text):
    (folder / "job.log").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


BY_RANK = f"1/1 - 3s - loss: 0.3\n{NEW}Missing ranks:\n2: [DistributedSGD_Allreduce/cond/HorovodAllreduce_grads_0]\n"
BY_OPERATION = (
    f"{MIDDLE}{SENTENCE}\nStalled ops:Loss/HorovodAllreduce_mul_1_0 [missing ranks: 2]\n"
    f"{MIDDLE}Loss/HorovodAllreduce_mul_2_0 [missing ranks: 2]\n"
)
READY = (
    f"WARNING: {SENTENCE}Stalled ops: Logits/HorovodBroadcast_a_0 [ready ranks: 5, 6, 3, 1, 4, 0], "
    "Logits/HorovodBroadcast_b_0 [ready ranks: 5, 6, 3, 1, 4, 0], \n"
)


def behind(prefix, text):
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("prefix", ["", "[1,0]<stderr>:", "[0]<stderr>:", "0: ", "1469.worker.1  | "])
@pytest.mark.parametrize("text", [BY_RANK, BY_OPERATION, READY], ids=["by rank", "by operation", "ready ranks"])
def test_the_rank_that_is_missing_is_named_in_each_form(tmp_path, prefix, text):
    found = verdict(tmp_path, behind(prefix, text))
    assert (found.kind, found.ranks, found.sure) == ("hang", (2,), "likely")
    assert "rank 2 has not submitted" in found.cause
    assert found.operation in ("allreduce", "broadcast")


def test_of_ranks_that_miss_each_others_operations_nobody_is_accused(tmp_path):
    found = verdict(tmp_path, f"{NEW}Missing ranks:\n0: [allreduce.fc2.weight]\n1: [allreduce.fc1.weight]\n")
    assert (found.kind, found.ranks, found.victims) == ("collective_mismatch", (), (0, 1))
    assert "rank 0 is missing in allreduce.fc2.weight; rank 1 is missing in allreduce.fc1.weight" in found.cause


def test_lists_that_are_cut_and_differ_accuse_nobody(tmp_path):
    names = [f"allreduce.layer{number}" for number in range(12)]
    rows = f"0: [{', '.join(names[:6])} ...]\n1: [{', '.join(names[3:9])} ...]\n"
    assert verdict(tmp_path, f"{NEW}Missing ranks:\n{rows}").ranks == ()
    same = f"2: [{', '.join(names[:6])} ...]\n3!: [{', '.join(names[:6])} ...]\n"
    assert verdict(tmp_path, f"{NEW}Stalled ranks:\n{same}").ranks == (2, 3)


def test_a_rank_that_came_late_to_one_of_them_is_not_accused_beside_the_one_that_came_to_none(tmp_path):
    found = verdict(tmp_path, f"{NEW}Missing ranks:\n1: [allreduce.a, allreduce.b]\n2: [allreduce.b]\n")
    assert found.ranks == (1,)


def test_the_last_report_counts(tmp_path):
    earlier = f"{NEW}Missing ranks:\n0: [broadcast.x]\n\n"
    assert verdict(tmp_path, earlier + BY_RANK).ranks == (2,)


def test_a_stall_that_the_job_went_on_from_is_none(tmp_path):
    assert verdict(tmp_path, BY_RANK + "step 7 loss 0.1\n" * 20) is None
    shut_down = "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down.\n"
    assert verdict(tmp_path, BY_RANK + "step 7 loss 0.1\n" * 600 + shut_down).ranks == ()


def test_most_ranks_are_not_accused(tmp_path):
    rows = "".join(f"{rank}: [allreduce.extra]\n" for rank in range(1, 8))
    found = verdict(tmp_path, f"{NEW}Missing ranks:\n{rows}")
    assert (found.kind, found.ranks, found.sure) == ("hang", (), "unsure")
    assert "ranks 1-7 have not submitted allreduce.extra" in found.cause


def test_those_that_were_ready_are_no_culprits_where_nothing_names_another(tmp_path):
    found = verdict(tmp_path, f"WARNING: {SENTENCE}Stalled ops: a/HorovodAllgather_b_0 [ready ranks: 0, 1]\n")
    assert (found.kind, found.ranks, found.victims) == ("hang", (), (0, 1))


def test_a_rank_that_was_killed_is_dead_and_not_only_late(tmp_path):
    box = "--------\nmpirun noticed that process rank 2 with PID 90 on node n1 exited on signal 9 (Killed).\n--------\n"
    found = verdict(tmp_path, BY_RANK + box)
    assert (found.kind, found.ranks) == ("died", (2,))


def test_the_time_limit_that_ended_a_stall_is_not_its_cause(tmp_path):
    limit = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    assert verdict(tmp_path, BY_RANK + limit).ranks == (2,)


def test_a_list_that_a_labelled_task_prints_keeps_its_label(tmp_path):
    lines = "".join(f"{task}: [1, 2, 3]\n{task}: RuntimeError: bad batch\n" for task in (0, 1))
    trace = '1: Traceback (most recent call last):\n1:   File "/home/a/train.py", line 4, in step\n1: ValueError: x\n'
    assert verdict(tmp_path, lines.replace("1: RuntimeError: bad batch\n", "") + trace).ranks == (1,)
