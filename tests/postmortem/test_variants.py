"""The same hangs as other launchers, versions and halves of the files show them: never a rank that only waited.

What it assumes: srun puts the task in front of every line; a stack of one moment does not show whether a rank moves.
"""

import json

import pytest

from tests.postmortem.test_attempts import agent, table
from tests.postmortem.test_attempts import verdict as of_files
from tests.postmortem.test_recorders import WAITS, dump, entry
from tests.postmortem.test_started import timeouts

STEPS = "".join(f"{rank}: step 100 loss 2.31\n" for rank in range(8))
ENDS = "srun: error: n0: task 0: Aborted (core dumped)\n"


def before_2_2(tasks, in_group, operation="_ALLGATHER_BASE", numel=(100, 800), seq=77):
    """What the watchdog of PyTorch 2.1 writes at srun's tasks: the rank is that within the group."""
    return "".join(
        f"{task}: [E ProcessGroupNCCL.cpp:475] [Rank {in_group(task)}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType={operation}, NumelIn={numel[0]}, NumelOut={numel[1]}, Timeout(ms)=1800000) ran "
        "for 1800061 milliseconds before timing out.\n"
        for task in tasks
    )


class TestTasks:
    """The number in front of srun's lines."""

    def test_a_task_that_only_wrote_other_lines_is_the_late_rank(self, tmp_path):
        late = before_2_2([0, 1, 2, 3, 4, 6, 7], lambda task: task)
        found = of_files(tmp_path, STEPS + late + ENDS)
        assert (found.kind, found.ranks, found.victims) == ("hang", (5,), (0, 1, 2, 3, 4, 6, 7))

    def test_ranks_of_small_groups_are_their_tasks(self, tmp_path):
        """Tasks 0 and 4 both say rank 0: of their groups of four."""
        shards = before_2_2([4, 6, 7], lambda task: task % 4, numel=(100, 400))
        replicas = before_2_2([0, 1, 2, 3], lambda task: task // 4, "ALLREDUCE", (100, 100), 31)
        found = of_files(tmp_path, STEPS + shards + replicas + ENDS)
        assert (found.ranks, found.victims) == ((), (0, 1, 2, 3, 4, 6, 7))

    def test_a_task_with_several_ranks_is_a_launcher(self, tmp_path):
        """Two nodes with a torchrun each: task 1 is no rank."""
        said = before_2_2([0, 0, 0], _numbers(0, 1, 3))
        found = of_files(tmp_path, "0: step 1\n1: step 1\n2: step 1\n" + said + ENDS)
        assert found.ranks == ()

    def test_numbers_of_the_program_s_own_lines_are_no_tasks(self, tmp_path):
        """Epochs, behind the task."""
        steps = "".join(f"{task}: {epoch}: loss 2.1\n" for task in range(8) for epoch in (8, 100))
        found = of_files(tmp_path, steps + before_2_2([0, 1, 2, 3, 4, 6, 7], lambda task: task) + ENDS)
        assert (found.ranks, found.victims) == ((5,), (0, 1, 2, 3, 4, 6, 7))

    def test_numbers_of_the_batch_script_are_no_tasks(self, tmp_path):
        found = of_files(
            tmp_path, "2026: run 4\n" + STEPS + before_2_2([0, 1, 2, 3, 4, 6, 7], lambda task: task) + ENDS
        )
        assert found.ranks == ()

    def test_numbers_that_are_not_the_tasks_own_say_nothing_of_silent_tasks(self, tmp_path):
        found = of_files(tmp_path, STEPS + before_2_2([0, 1, 2], lambda task: task + 1) + ENDS)
        assert found.ranks == ()

    def test_gloo_s_waiters_by_task_leave_the_silent_one(self, tmp_path):
        """Slurm then cancels the step, which ended nothing that was well."""
        raised = [
            "Traceback (most recent call last):",
            '  File "/app/train.py", line 25, in step',
            "RuntimeError: [/g/gloo/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete",
        ]
        said = "".join(f"{task}: {line}\n" for task in (0, 1) for line in raised) + "2: loading shard 4\n"
        ends = "slurmstepd: error: *** STEP 77.0 ON n0 CANCELLED AT 2026-11-26T12:12:57 ***\n"
        found = of_files(tmp_path, said + ends + "srun: error: n0: tasks 0-1: Exited with exit code 1\n")
        assert (found.kind, found.ranks, found.victims) == ("hang", (2,), (0, 1))


def _numbers(*numbers):
    given = iter(numbers)
    return lambda task: next(given)


def in_group(rank, group, number, guid, seq):
    """A timeout of PyTorch 2.8, with the group in the line below."""
    head = f"[rank{rank}]:[E1206 18:44:12.7 ProcessGroupNCCL.cpp:685]"
    return (
        f"{head} [Rank {number}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        "OpType=ALLREDUCE, NumelIn=10, NumelOut=10, Timeout(ms)=600000) ran for 600061 milliseconds before timing "
        f"out.\n{head} [PG ID {guid} PG GUID {guid}({group}) Rank {number}]  failure detected by watchdog at work "
        f"sequence id: {seq} PG status: last enqueued work: {seq + 1}, last completed work: {seq - 1}\n"
    )


class TestGroups:
    """Timeouts in several groups, and files of some of their ranks."""

    def test_ranks_that_wait_for_each_other_in_two_groups_accuse_nobody(self, tmp_path):
        said = "".join(in_group(rank, "default_pg", rank, 0, 16) for rank in (0, 1))
        said += "".join(in_group(rank, "second", rank, 1, 1) for rank in (2, 3))
        found = of_files(tmp_path, said + agent(0, 7500) + table((1, -6, 2), (2, -6, 3), (3, -6, 4), (0, -6, 7500)))
        assert (found.kind, found.ranks, found.victims) == ("hang", (), (0, 1, 2, 3))
        assert "ranks 2 and 3 waited in allreduce 1 of group second" in found.cause

    def test_of_two_that_are_silent_in_a_group_the_one_that_waits_elsewhere_is_not_late(self, tmp_path):
        said = "".join(in_group(rank, "default_pg", rank, 0, 16) for rank in (0, 1, 4))
        said += in_group(2, "second", 0, 1, 1)
        rows = [(rank, -15 if rank == 3 else -6, rank) for rank in (1, 2, 3, 4, 0)]
        found = of_files(tmp_path, said + agent(0, 0) + table(*rows))
        assert found.ranks == (3,)

    def test_all_of_a_group_that_waited_are_the_networks_victims(self, tmp_path):
        for rank in range(3):
            (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(dump(WAITS)))
        found = of_files(tmp_path, "".join(in_group(rank, "default_pg", rank, 0, 2) for rank in range(4)))
        assert (found.kind, found.ranks, found.victims) == ("hang", (), (0, 1, 2, 3))
        assert "all its ranks did: the network" in found.cause

    BEHIND = (
        "[rank{0}]:[E1206 18:44:13.1 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Received a "
        "dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last "
        "enqueued NCCL work: {1}, last completed NCCL work: {1}.\n"
    )

    @staticmethod
    def sharded(rank):
        shapes = "OpType=_REDUCE_SCATTER_BASE, NumelIn=80, NumelOut=10"
        return in_group(rank, "fsdp", rank, 1, 7753).replace("OpType=ALLREDUCE, NumelIn=10, NumelOut=10", shapes)

    @pytest.mark.parametrize("started", ["", "last started work: -1, ", "last started work: 11 (_ALLGATHER_BASE), "])
    def test_a_log_that_is_missing_leaves_the_rank_that_is_behind(self, tmp_path, started):
        """Eight members by the sizes, no file of rank 0: rank 5 is behind, so that it is named, as unsure. Newer
        versions of PyTorch say as well what has started."""
        behind = self.BEHIND.replace("last completed", f"{started}last completed")
        waited = [1, 2, 3, 4, 6, 7]
        files = {f"rank{rank}": self.sharded(rank) + behind.format(rank, 12) for rank in waited}
        found = of_files(tmp_path, **files, rank5=behind.format(5, 11))
        assert (found.ranks, found.sure, found.victims) == ((5,), "unsure", tuple(waited))
        assert "no line of 1 other rank of the group" in found.cause
        assert "only one" not in found.cause

    def test_a_log_that_is_missing_is_not_made_up_for_by_one_that_is_level(self, tmp_path):
        waited = [1, 2, 3, 4, 6, 7]
        files = {f"rank{rank}": self.sharded(rank) + self.BEHIND.format(rank, 12) for rank in waited}
        assert of_files(tmp_path, **files, rank5=self.BEHIND.format(5, 12)).ranks == ()


class TestDumps:
    """Recorders of all ranks but one."""

    @pytest.mark.parametrize(("code", "kind"), [(-9, "died"), (-11, "died"), (-15, "hang"), (-6, "hang")])
    def test_a_rank_without_a_dump_that_was_killed_died(self, tmp_path, code, kind):
        for rank in (0, 1, 3):
            (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(dump(WAITS)))
        found = of_files(tmp_path, table((0, -6, 10), (1, -6, 11), (2, code, 12), (3, -6, 13)))
        assert (found.kind, found.ranks) == (kind, (2,))

    def test_a_deadlock_of_two_ranks_reads_as_one(self, tmp_path):
        members = {"0": (0, 1), "1": (0, 1)}
        sides = [
            [entry(1), entry(2, done=False)],
            [entry(1), entry(1, "1", "second", done=False)],
        ]
        for rank, entries in enumerate(sides):
            (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(dump(entries, members)))
        found = of_files(tmp_path)
        assert found.kind == "order_deadlock"
        assert found.cause == ("rank 0 waits in group default_pg for rank 1, which waits in group second for rank 0")


def spy(pid, *frames):
    """A dump of py-spy's."""
    return (
        f'Process {pid}: python job.py\nPython v3.11.9 (/usr/bin/python3.11)\n\nThread {pid} (idle): "MainThread"\n'
        + ("".join(f"    {frame}\n" for frame in frames))
    )


BARRIER = spy(7, "barrier (torch/distributed/distributed_c10d.py:6614)", "main (job.py:82)")
ON_DEVICE = spy(7, "synchronize (torch/cuda/__init__.py:892)", "main (job.py:82)")
LOADS = spy(
    7,
    "poll (multiprocessing/connection.py:257)",
    "_try_get_data (torch/utils/data/dataloader.py:1133)",
    "main (job.py:60)",
)
WORK = {
    "checkpoint": ("save (torch/serialization.py:965)", "write_checkpoint (job.py:108)", "job.py:108 write_checkpoint"),
    "compiles": ("compile_to_fn (torch/_inductor/graph.py:9)", "step (job.py:60)", "job.py:60 step"),
    "model": ("_call_impl (torch/nn/modules/module.py:1750)", "evaluate (job.py:70)", "job.py:70 evaluate"),
}


def stacks(rank0, others=BARRIER, ranks=4, folder=""):
    """Files of the stacks of all ranks."""
    return {f"{folder}rank{rank}": rank0 if rank == 0 else others for rank in range(ranks)}


class TestStacks:
    """Where ranks are, at one moment or two."""

    @pytest.mark.parametrize("work", WORK)
    def test_one_look_at_a_rank_that_works_is_no_accusation(self, tmp_path, work):
        """It may go on for minutes, or be stuck there."""
        found = of_files(tmp_path, **stacks(spy(7, *WORK[work][:2], "main (job.py:81)")))
        assert (found.kind, found.ranks, found.slow, found.sure) == ("hang", (), (0,), "unsure")
        assert found.line == WORK[work][2]
        assert "once more" in found.next

    def test_two_looks_at_a_rank_that_works_show_that_it_moves(self, tmp_path):
        looks = [spy(7, f"write_checkpoint (job.py:{line})", "main (job.py:81)") for line in (108, 111)]
        found = of_files(tmp_path, **stacks(looks[0], folder="1__"), **stacks(looks[1], folder="2__"))
        assert (found.kind, found.ranks, found.slow, found.sure) == ("waiting", (), (0,), "likely")
        assert found.cause == "ranks 1-3 wait in barrier for rank 0, which is in write_checkpoint and moves"

    def test_two_looks_at_a_rank_that_stands_still_accuse_it(self, tmp_path):
        look = spy(7, "acquire (job.py:30)", "main (job.py:81)")
        found = of_files(tmp_path, **stacks(look, folder="1__"), **stacks(look, folder="2__"))
        assert (found.kind, found.ranks) == ("hang", (0,))

    def test_another_moment_of_waiting_for_the_loader_is_no_movement(self, tmp_path):
        later = LOADS.replace("poll (multiprocessing/connection.py:257)", "select (selectors.py:415)")
        found = of_files(tmp_path, **stacks(LOADS, folder="1__"), **stacks(later, folder="2__"))
        assert (found.kind, found.ranks) == ("hang", (0,))

    def test_looks_at_another_process_are_no_pair(self, tmp_path):
        """The job was started again between them."""
        looks = [spy(pid, f"f (job.py:{pid})", "main (job.py:81)") for pid in (7, 8)]
        found = of_files(tmp_path, **stacks(looks[0], folder="1__"), **stacks(looks[1], folder="2__"))
        assert found.kind == "hang"

    def test_looks_do_not_count_against_a_timeout_in_the_log(self, tmp_path):
        """A loop moves, too."""
        looks = [spy(7, f"spin (job.py:{line})", "main (job.py:81)") for line in (108, 111)]
        files = {**stacks(looks[0], folder="1__"), **stacks(looks[1], folder="2__")}
        found = of_files(tmp_path, **files, job=timeouts(1, 2, 3) + "terminate called\n")
        assert (found.kind, found.ranks) == ("hang", (0,))

    def test_ranks_that_wait_for_their_gpus_wait_for_the_one_elsewhere(self, tmp_path):
        found = of_files(tmp_path, **stacks(LOADS, ON_DEVICE))
        assert (found.kind, found.ranks, found.line) == ("hang", (0,), "job.py:60 main")

    def test_all_waiting_for_their_gpus_accuse_nobody(self, tmp_path):
        found = of_files(tmp_path, **stacks(ON_DEVICE, ON_DEVICE))
        assert (found.kind, found.ranks) == ("insufficient_data", ())

    def test_stacks_of_two_ranks_say_where_they_are_and_accuse_nobody(self, tmp_path):
        found = of_files(tmp_path, **stacks(LOADS, BARRIER, ranks=2))
        assert (found.kind, found.ranks) == ("insufficient_data", ())
        assert "input: rank 0 waits for its loader (job.py:60 main); rank 1 waits in barrier (job.py:82" in found.cause

    def test_stacks_of_ranks_that_wait_for_nothing_say_nothing(self, tmp_path):
        """A job that trains."""
        runs = spy(7, "step (job.py:9)", "main (job.py:82)")
        assert of_files(tmp_path, **stacks(runs, runs)) is None


def test_an_error_of_the_device_asks_for_the_kernels_log(tmp_path):
    """The line is only where the host noticed it."""
    said = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 131, in step',
        "RuntimeError: CUDA error: unspecified launch failure",
    ]
    found = of_files(tmp_path, "".join(f"[rank1]: {line}\n" for line in said))
    assert found.ranks == (1,)
    assert "Xid" in found.next


def xid(gpu, number, pid):
    return f"[Fri Apr  5 21:29:39 2024] NVRM: Xid (PCI:0000:{gpu}:00): {number}, pid={pid}, name=python3, Fault\n"


FAILS = "".join(
    f"[rank2]: {line}\n"
    for line in ("Traceback (most recent call last):", '  File "/app/a.py", line 9, in step', "ValueError: bad label")
)
LATER = "[Wed May  1 09:00:00 2024] eth0: renamed\n"


@pytest.mark.parametrize(
    "kernel",
    [
        xid("a1", 79, 100) + LATER,
        "2024-04-05T21:29:39.000000+00:00 n1 kernel: NVRM: Xid (PCI:0000:a1:00): 79, GPU is lost.\n"
        "2024-05-01T09:00:00.000000+00:00 n1 kernel: eth0: renamed\n",
        "[12345.678] NVRM: Xid (PCI:0000:a1:00): 79, GPU has fallen off the bus.\n",
        "Apr  5 21:29:39 n1 kernel: NVRM: Xid (PCI:0000:a1:00): 79, GPU has fallen off the bus.\n",
    ],
)
def test_a_fault_of_long_before_or_of_unknown_time_does_not_explain_an_exception(tmp_path, kernel):
    """A kernel's log reaches back for weeks, and without a year a date may be last year's."""
    found = of_files(tmp_path, job=FAILS, dmesg__n1=kernel)
    assert (found.kind, found.ranks) == ("died", (2,))


def test_a_fault_of_today_explains_an_exception(tmp_path):
    """However much the kernel wrote after it."""
    later = "[Fri Apr  5 22:00:00 2024] eth0: renamed\n" * 2000
    found = of_files(tmp_path, job=FAILS, dmesg__n1=xid("a1", 79, 100) + later)
    assert (found.kind, found.sure) == ("device_fault", "certain")


@pytest.mark.parametrize(("ended", "kind"), [("2024-04-06_09:00:00", "device_fault"), ("2024-04-20_09:00:00", "died")])
def test_a_fault_counts_by_when_the_jobs_processes_ended(tmp_path, ended, kind):
    """Not by when its kernel's log was collected, which may be days later."""
    table = f"Root Cause (first observed failure):\n[0]:\n  time      : {ended}\n  host      : n1\n"
    table += "  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 4121)\n  error_file: <N/A>\n" + "=" * 60 + "\n"
    assert of_files(tmp_path, job=FAILS + table, dmesg__n1=xid("a1", 79, 100) + LATER).kind == kind


def test_a_fault_of_unknown_time_is_likely_where_no_rank_failed_by_itself(tmp_path):
    """And of long before it is nothing."""
    found = of_files(tmp_path, dmesg__n1=xid("a1", 79, 100).replace("[Fri Apr  5 21:29:39 2024]", "[12345.678]"))
    assert (found.kind, found.ranks, found.sure) == ("device_fault", (), "likely")
    assert of_files(tmp_path, dmesg__n1=xid("a1", 79, 100) + LATER) is None


@pytest.mark.parametrize(
    ("lines", "gpus", "sure"),
    [
        ([("a1", 79, 100)], 1, "certain"),
        ([("a1", 74, 100), ("b1", 74, 101), ("c1", 74, 102)], 3, "likely"),
        ([("a1", 74, 100), ("b1", 79, 101), ("c1", 74, 102)], 1, "certain"),
        ([("a1", 63, 100), ("b1", 48, 101)], 1, "certain"),
        ([("a1", 79, 100), ("b1", 79, 101)], 2, "likely"),
    ],
)
def test_faults_of_several_gpus_at_a_time_accuse_none_of_them_for_sure(tmp_path, lines, gpus, sure):
    """Both ends of a link report it; a GPU that only records something goes on; what is worse counts."""
    found = of_files(tmp_path, dmesg__n1="".join(xid(*line) for line in lines))
    assert (found.kind, found.ranks, len(found.devices), found.sure) == ("device_fault", (), gpus, sure)
