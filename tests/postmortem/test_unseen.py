"""Ranks whose silence proves nothing: the log breaks off before their turn, or their output is not in it.

What it assumes: a launcher, or a rank that is being ended, writes below those who waited; with torchrun's ``--tee``
each line has its local rank in front.
"""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read
from tests.postmortem.test_attempts import table
from tests.postmortem.test_started import elastic, timeouts

GLOO = "RuntimeError: [/g/gloo/unbound_buffer.cc:119] Timed out waiting 8000ms for recv operation to complete"
ENDED = {
    "a rank that is ended": "terminate called after throwing an instance of 'c10::DistBackendError'\n",
    "the agent": "W1127 07:18:42.087000 6873 torch/x.py:1028] Sending process 6915 closing signal SIGTERM\n",
    "srun": "srun: error: n1: tasks 0-3: Exited with exit code 1\n",
}


def gloo(*ranks, prefix="[default{0}]:[rank{0}]: "):
    """What ranks raise when gloo waits in vain."""
    said = ["Traceback (most recent call last):", '  File "/app/train.py", line 30, in step', "    work()", GLOO]
    return "".join(f"{prefix.format(rank)}{line}\n" for rank in ranks for line in said)


def verdict(folder, **files):
    for name, said in files.items():
        (folder / f"{name}.log").write_text(said)
    return decide(read([str(folder)], 1 << 30).statements)


@pytest.mark.parametrize("begun", [elastic(0, 1, 2, 3), "".join(f"[rank{rank}]: step 1\n" for rank in range(4))])
@pytest.mark.parametrize("waited", [timeouts(0, 1, 3), gloo(0, 1, 3, prefix="[rank{0}]: ")], ids=["nccl", "gloo"])
def test_a_log_that_breaks_off_below_the_waiters_names_no_rank(tmp_path, begun, waited):
    """The next line may have been the fourth rank's."""
    found = verdict(tmp_path, job=begun + waited)
    assert (found.kind, found.ranks, found.victims) == ("hang", (), (0, 1, 3))
    assert "breaks off" in found.cause


@pytest.mark.parametrize("ended", ENDED)
def test_a_log_that_goes_on_to_its_end_names_the_silent_rank(tmp_path, ended):
    found = verdict(tmp_path, job=elastic(0, 1, 2, 3) + timeouts(0, 1, 3) + ENDED[ended])
    assert (found.kind, found.ranks) == ("hang", (2,))


def test_an_end_above_the_last_waiter_is_no_end(tmp_path):
    said = elastic(0, 1, 2, 3) + timeouts(0) + ENDED["a rank that is ended"] + timeouts(1, 3)
    assert verdict(tmp_path, job=said).ranks == ()


def test_a_rank_with_a_log_of_its_own_had_its_turn(tmp_path):
    found = verdict(tmp_path, job=timeouts(0, 1, 3), rank2="step 1\n")
    assert (found.kind, found.ranks) == ("hang", (2,))


def test_a_rank_that_speaks_below_the_waiters_had_its_turn(tmp_path):
    own = (
        "[rank2]:[E1120 10:41:23.1 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump "
        "signal due to a collective timeout from rank 0. Last enqueued NCCL work: 4820, last completed NCCL work: "
        "4820.\n"
    )
    assert verdict(tmp_path, job=elastic(0, 1, 2, 3) + timeouts(0, 1, 3) + own).ranks == (2,)


TABLE = table((0, 1, 70), (2, -15, 72), (3, 1, 73), (1, 1, 71))


@pytest.mark.parametrize(("shown", "ranks"), [((0, 1, 3), ()), ((0, 1, 2, 3), (2,)), ((), ())])
def test_a_rank_whose_output_is_filtered_out_is_not_named(tmp_path, shown, ranks):
    """Its local rank is in front of no line, where that of each other is."""
    begun = "".join(f"[default{local}]:step 1\n" for local in shown)
    found = verdict(tmp_path, job=begun + gloo(0, 1, 3) + TABLE)
    assert (found.kind, found.ranks, found.victims) == ("hang", ranks, (0, 1, 3))
    assert ("--local-ranks-filter" in found.cause) == (not ranks)


def test_without_local_ranks_in_front_nothing_is_filtered(tmp_path):
    """Torchrun filters only what it copies."""
    assert verdict(tmp_path, job=gloo(0, 1, 3, prefix="[rank{0}]: ") + TABLE).ranks == (2,)
