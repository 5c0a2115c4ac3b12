"""Numbers that are not finite, as Megatron's own checks say; and whom torchrun's agent kills 30 s after a failure.

What they assume: Megatron's words of 2023 to 2026; its check runs before ranks exchange anything, so the rank that it
names had the number itself; agents write the time at which they noticed an exit.
"""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

CHECK = "found NaN in local grad norm in backward pass before data-parallel communication collective"
OLD = "AssertionError: Rank {}: found NaN in local grad norm in backwards pass. Device: 3, node: n-{}.mt\n"
MACHINE = "ERROR:megatron.core.rerun_state_machine:"
NOTED = f"{MACHINE}Unexpected result nan on rank 5 at iteration #1203 invocation #2 (message='{CHECK}')\n"
OTHER = f"{MACHINE}Rank 5, node gpu-17, device 5, iteration #1203: "
RAISED = (
    "[rank255]: Traceback (most recent call last):\n"
    '[rank255]:   File "/opt/Megatron-LM/pretrain_gpt.py", line 225, in loss_func\n'
    '[rank255]:   File "/opt/Megatron-LM/megatron/core/rerun_state_machine.py", line 508, in validate_result\n'
    "[rank255]: RuntimeError: Rank 255, node p-71, device 7, iteration 2: Unexpected result nan (message='x')\n"
)


def verdict(folder, text):
    (folder / "job.log").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


@pytest.mark.parametrize("before", ["", "Traceback (most recent call last):\n", "step 1\n[rank0]: step 1\n"])
def test_the_rank_is_the_one_that_the_line_names(tmp_path, before):
    """Whoever's voice it is in, also without a frame."""
    found = verdict(tmp_path, before + OLD.format(3, 1))
    assert (found.kind, found.ranks) == ("died", (3,))


def test_all_ranks_that_are_known_are_the_programs(tmp_path):
    """As where a weight is not finite."""
    assert verdict(tmp_path, OLD.format(9, 1) + OLD.format(11, 2)).ranks == ()


def test_the_line_is_the_users_and_not_that_of_the_check(tmp_path):
    """Megatron runs from its own checkout."""
    found = verdict(tmp_path, RAISED)
    assert (found.ranks, found.line) == ((255,), "/opt/Megatron-LM/pretrain_gpt.py:225 loss_func")


def test_the_exit_that_follows_does_not_hide_it(tmp_path):
    """Megatron saves a checkpoint and leaves with 16."""
    left = "".join(
        f"[rank5]: {line}\n"
        for line in ("Traceback (most recent call last):", '  File "/m/t.py", line 12, in f', "SystemExit: 16")
    )
    found = verdict(tmp_path, NOTED + left)
    assert (found.kind, found.ranks) == ("died", (5,))


@pytest.mark.parametrize("how", ["transient", "persistent"])
def test_another_result_of_the_same_calculation_is_the_devices(tmp_path, how):
    """The rerun says more than the number."""
    found = verdict(tmp_path, f"{NOTED}{OTHER}Possible {how} error!!\n")
    assert (found.kind, found.ranks) == ("device_fault", (5,))


@pytest.mark.parametrize(
    "said",
    [
        f"{MACHINE}Unexpected result 11.25 on rank 5 at iteration #3 invocation #2 (message='Spiky loss')\n",
        "Loading shards found in local cache of Rank 3\n",
    ],
)
def test_what_ends_no_job_is_no_failure(tmp_path, said):
    """A loss that is only large is reported, and training goes on."""
    assert verdict(tmp_path, said) is None


def row(rank, code, clock):
    return (
        f"  time      : 2026-09-07_{clock}\n  host      : n1\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: {500 + rank})\n  error_file: <N/A>\n"
    )


@pytest.mark.parametrize(
    ("killed", "ranks"),
    [("13:03:29", ()), ("13:03:03", (0,)), ("13:02:50", (0,)), ("some time", (0,))],
    ids=["31 s later", "in the same round", "before", "no time"],
)
def test_a_kill_half_a_minute_after_a_failure_is_the_agents(tmp_path, killed, ranks):
    """It waits 30 s for those whom it has sent SIGTERM."""
    table = f"Failures:\n[1]:\n{row(0, -9, killed)}-----\nRoot Cause (first observed failure):\n[0]:\n"
    found = verdict(tmp_path, f"{table}{row(1, 1, '13:02:58')}=====\n")
    assert found.ranks == ranks
