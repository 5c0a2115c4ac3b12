"""Which ranks there are, from the lines that launchers and trainers write at the start.

What they assume: a list is of one node, or each rank writes its own line; the last list of a launcher counts.
"""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

DEEPSPEED = "[2026-11-20 10:01:02,123] [INFO] [launch.py:145:main] WORLD INFO DICT: "
ELASTIC = "I1120 10:00:00.0 3100 torch/distributed/elastic/agent/server/api.py:571] [default] Rendezvous complete\n"
RAISED = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/app/train.py", line 10, in step\n'
    "[rank{0}]: ValueError: bad label\n"
)
ABORTED = (
    "terminate called after throwing an instance of 'c10::Error'\n"
    "  what():  CUDA error: an illegal memory access was encountered\n"
)
RULE = "-" * 74
BOX = f"{RULE}\nmpirun noticed that process rank 11 with PID 123 on node gpu-2 exited on signal 6 (Aborted).\n{RULE}\n"


def timeouts(*ranks):
    """What PyTorch's watchdog writes at each of them."""
    return "".join(
        f"[rank{rank}]:[E1120 10:41:22.101 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=4821, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran "
        "for 600021 milliseconds before timing out.\n"
        for rank in ranks
    )


def elastic(*ranks):
    """What torchrun's agent writes when it starts the ranks of its node."""
    return f"{ELASTIC}  restart_count=0\n  group_rank=0\n  global_ranks=[{', '.join(map(str, ranks))}]\n"


def verdict(folder, text):
    (folder / "job.log").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


@pytest.mark.parametrize(
    "begun",
    [
        f"{DEEPSPEED}{{'worker-0': [0, 1, 2, 3]}}\n",
        f"{DEEPSPEED}{{'worker-0': [4, 5, 6, 7]}}\n",
        elastic(0, 1, 2, 3),
        elastic(*range(8)) + elastic(0, 1, 2, 3),
        "".join(f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/4\n" for rank in range(4)),
        "".join(f"Process rank: {rank}, device: cuda:{rank}, n_gpu: 1\n" for rank in range(4)),
    ],
    ids=["deepspeed", "other GPUs", "torchrun", "fewer ranks than before", "lightning", "transformers"],
)
def test_a_rank_that_never_says_anything_is_the_late_one(tmp_path, begun):
    """The others report that a collective timed out; which ranks there are, only the start says."""
    found = verdict(tmp_path, begun + timeouts(0, 1, 3) + "terminate called\n")
    assert (found.kind, found.ranks, found.sure) == ("hang", (2,), "likely")


@pytest.mark.parametrize(
    "begun",
    ["", f"{DEEPSPEED}{{'worker-0': [0, 1], 'worker-1': [0, 1]}}\n", "  global_ranks=[0, 1,, 2]\n", elastic(0, 1, 3)],
    ids=["no list", "several nodes", "no numbers", "all who wait"],
)
def test_where_the_ranks_are_not_known_none_is_named(tmp_path, begun):
    """As where the log of another node is not here."""
    found = verdict(tmp_path, begun + timeouts(0, 1, 3) + "terminate called\n")
    assert (found.kind, found.ranks, found.sure) == ("hang", (), "unsure")


@pytest.mark.parametrize(
    ("raised", "ranks", "sure"), [((0, 1, 2, 3), (), "certain"), ((0, 1, 3), (), "likely"), ((0, 3), (0, 3), "certain")]
)
def test_what_most_ranks_raise_is_the_programs(tmp_path, raised, ranks, sure):
    """The launcher ends the others before they come to it. What half of them raise is theirs."""
    found = verdict(tmp_path, elastic(0, 1, 2, 3) + "".join(RAISED.format(rank) for rank in raised))
    assert (found.kind, found.ranks, found.sure) == ("died", ranks, sure)


def test_an_abort_on_a_device_error_is_of_the_rank_that_the_launcher_saw_abort(tmp_path):
    """No Python catches it, so it is in no traceback."""
    found = verdict(tmp_path, ABORTED + BOX)
    assert (found.kind, found.ranks, found.sure) == ("died", (11,), "likely")
    assert "line" not in found.cause


def test_of_two_device_errors_either_may_be_that_ranks(tmp_path):
    found = verdict(tmp_path, 2 * ABORTED + BOX)
    assert found.ranks == ()
