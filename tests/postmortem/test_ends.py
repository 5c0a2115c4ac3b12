"""How processes ended, as launchers, kernels and PyTorch write it, where a wrong rank would be easy to name.

What it assumes: a table of torchrun's is written whole or cut, and may be mixed with another node's, line by line.
"""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read
from tests.postmortem.test_attempts import LOST, raised, table

RULE = "-" * 74 + "\n"
PREFIX = "[rank{0}]: "
CRASH = (
    "Fatal Python error: {0}\n\nCurrent thread 0x00007fd63dddbb80 (most recent call first):\n"
    '  File "/app/job.py", line 31 in work\n  File "/app/job.py", line 63 in <module>\n\nExtension modules: numpy\n'
)


def lost(*ranks):
    return "".join(raised(rank, LOST, 30, PREFIX) for rank in ranks)


def begun(*ranks, world=4):
    return "".join(f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{world}\n" for rank in ranks)


def verdict(folder, text="", **files):
    for name, said in {"job.log": text, **files}.items():
        (folder / name).write_text(said)
    return decide(read([str(folder)], 1 << 30).statements)


@pytest.mark.parametrize(
    "event",
    [
        "Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.",
        "Detected 1 oom-kill event(s) in StepId=77.0 cgroup. Some of your processes may have been killed.",
        "Detected 2 oom-kill event(s) in step 77.0 cgroup.",
    ],
)
def test_slurm_counts_kills_for_memory_in_the_words_of_every_version(tmp_path, event):
    found = verdict(tmp_path, f"{lost(0, 1)}slurmstepd: error: {event}\nsrun: error: node-3: task 5: Killed\n")
    assert (found.ranks, found.nodes) == ((5,), ("node-3",))
    assert "out of host memory" in found.cause


@pytest.mark.parametrize("words", ["Memory cgroup out of memory", "Out of memory"])
@pytest.mark.parametrize(
    "killed", ["Kill process {0} (python) score 900 or sacrifice child", "Killed process {0} (python)"]
)
def test_the_kernel_says_a_kill_for_memory_in_old_words_and_new(tmp_path, words, killed):
    kernel = f"[1.5] {words}: {killed.format(7601)} total-vm:1kB\n"
    found = verdict(tmp_path, lost(0) + table((0, 1, 7600), (1, -9, 7601)), **{"node-0.kernel.log": kernel})
    assert (found.ranks, found.sure) == ((1,), "certain")


def child(number, code):
    return (
        f"[rank: {number}] Child process with PID 4711 terminated with code {code}. Forcefully terminating all other "
        "processes to avoid zombies\n"
    )


@pytest.mark.parametrize(("said", "line"), [("", None), (raised(3, prefix=""), "/app/train.py:10 step")])
def test_the_process_that_lightning_saw_fail_is_named(tmp_path, said, line):
    found = verdict(tmp_path, begun(0, 1, 2, 3) + said + lost(0) + child(3, 1 if said else -9))
    assert (found.kind, found.ranks, found.line) == ("died", (3,), line)


def test_on_another_node_lightnings_number_is_no_rank(tmp_path):
    assert verdict(tmp_path, begun(4, 5, 6, 7, world=8) + lost(4) + child(3, -9)).ranks == ()


def test_deepspeeds_launcher_names_the_command_that_it_started_last(tmp_path):
    """Whichever process ended with that code."""
    said = (
        "[2026-11-20 10:02:03,456] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4121\n"
        "[2026-11-20 10:02:04,456] [ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', "
        "'--local_rank=7'] exits with return code = -9\n"
    )
    assert verdict(tmp_path, lost(0, 1) + said).ranks == ()


@pytest.mark.parametrize(
    "box",
    [
        f"{RULE}MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n\nNOTE: invoking\n",
        f"{RULE}MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\n  Proc: [[1234,1],3]\n  Errorcode: 1\n",
        "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3\n",
    ],
    ids=["Open MPI 4", "Open MPI 5", "MPICH"],
)
def test_the_rank_that_called_mpi_abort_has_the_only_exception(tmp_path, box):
    found = verdict(tmp_path, lost(0) + raised(3, prefix="") + box)
    assert (found.ranks, found.line, found.sure) == ((3,), "/app/train.py:10 step", "likely")


@pytest.mark.parametrize("of", ["MPI_COMM_SELF", "MPI COMMUNICATOR 3 SPLIT FROM 0"])
def test_a_number_within_another_communicator_is_no_rank(tmp_path, of):
    said = f"{RULE}MPI_ABORT was invoked on rank 3 in communicator {of}\nwith errorcode 1.\n{RULE}"
    assert verdict(tmp_path, raised(0, prefix="") + said).ranks == ()


def test_the_rank_that_intels_mpirun_saw_killed_is_named(tmp_path):
    said = (
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 3 PID 1234 RUNNING AT node-2\n"
        "=   KILLED BY SIGNAL: 9 (Killed)\n"
    )
    found = verdict(tmp_path, lost(0, 1) + said)
    assert (found.ranks, found.nodes) == ((3,), ("node-2",))


ALIKE = "".join(raised(rank, "RuntimeError: another rank has failed", 40, PREFIX) for rank in (0, 1, 2, 4, 5, 6, 7))


def test_of_exceptions_that_differ_the_only_odd_one_is_told(tmp_path):
    """The others' may be what follows from it."""
    found = verdict(tmp_path, ALIKE + raised(3, "KeyError: 'label'", prefix=PREFIX))
    assert (found.ranks, found.sure, found.line) == ((3,), "unsure", "/app/train.py:10 step")


def test_two_odd_exceptions_leave_it_open(tmp_path):
    """As many ranks as there are: none is told apart."""
    found = verdict(
        tmp_path, ALIKE + raised(3, "KeyError: 'x'", prefix=PREFIX) + raised(8, "OSError: y", prefix=PREFIX)
    )
    assert (len(found.ranks), found.sure) == (9, "unsure")


@pytest.mark.parametrize(
    ("title", "code", "ranks"),
    [
        ("Segmentation fault", -11, (1,)),
        ("Bus error", -7, (1,)),
        ("Aborted", -6, (1,)),
        ("Segmentation fault", -6, ()),
        ("Aborted", -15, ()),
    ],
)
def test_a_crash_without_a_rank_is_of_the_rank_that_ended_by_its_signal(tmp_path, title, code, ranks):
    found = verdict(tmp_path, CRASH.format(title) + lost(0, 2) + table((0, 1, 70), (2, 1, 72), (1, code, 71)))
    if ranks:
        assert (found.ranks, found.line) == (ranks, "/app/job.py:31 work")
    else:
        assert found.ranks == ()


@pytest.mark.parametrize(
    "stack",
    ['  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 9 in wait\n', ""],
)
def test_an_abort_within_pytorch_is_a_victims(tmp_path, stack):
    """Its watchdog aborts a rank that waited in vain; the rank's own frames are below."""
    said = CRASH.format("Aborted").replace("first):\n", f"first):\n{stack or '  <no Python frame>'}\n")
    assert verdict(tmp_path, "".join(f"[rank0]: {line}\n" for line in said.splitlines()) + lost(1)).ranks == ()


def test_an_exit_code_without_a_word_is_of_the_rank_that_the_launcher_saw_first(tmp_path):
    found = verdict(tmp_path, lost(0, 1) + table((0, -15, 70), (1, -15, 71), (2, -15, 72), (3, 7, 73)))
    assert (found.ranks, found.sure) == ((3,), "unsure")


@pytest.mark.parametrize("said", [lost(0, 1), ""], ids=["victims", "no words"])
@pytest.mark.parametrize("code", [1, -6])
def test_an_exit_code_that_has_words_elsewhere_accuses_no_rank(tmp_path, code, said):
    """An exception's or a victim's: its output is not in these files. Torchrun's first exit may be a victim's."""
    found = verdict(tmp_path, said + table((0, -15, 70), (1, -15, 71), (2, -15, 72), (3, code, 73)))
    assert found.ranks == ()


def test_a_table_that_is_cut_before_its_first_exit_lists_not_all(tmp_path):
    steps = "".join(f"[rank{rank}]: step 1\n" for rank in range(4))
    whole = table((0, -15, 70), (1, -15, 71), (3, 1, 73), (2, 1, 72))
    assert verdict(tmp_path, steps + lost(0, 1, 3) + whole.split("Root")[0]).ranks == ()


def test_a_rank_of_another_node_is_in_no_table_of_this_one(tmp_path):
    said = "[rank2]: step 1\n" + lost(0, 1, 3) + table((0, 1, 70), (1, 1, 71))
    assert verdict(tmp_path, said).ranks == ()


def test_a_local_rank_that_the_whole_table_leaves_out_left_early(tmp_path):
    """All that it wrote is a line behind the launcher's mark."""
    said = "[default3]:epoch 1\n" + lost(0, 2) + table((1, -15, 71), (2, -15, 72), (0, 1, 70))
    found = verdict(tmp_path, said)
    assert (found.ranks, "exit code 0" in found.cause) == ((3,), True)


def test_tables_of_two_nodes_that_are_mixed_line_by_line_swap_no_exits(tmp_path):
    one = table((0, -15, 70), (1, -9, 71), host="a").splitlines(keepends=True)
    other = table((2, -15, 80), (3, 1, 81), host="b").splitlines(keepends=True)
    found = verdict(tmp_path, lost(0, 2) + "".join(a + b for a, b in zip(one, other, strict=True)))
    assert found.ranks in ((), (1,))


def test_tables_of_two_nodes_one_after_the_other_are_both_read(tmp_path):
    found = verdict(tmp_path, lost(0, 2) + table((0, 1, 70), host="a") + table((2, 1, 80), (3, -9, 81), host="b"))
    assert found.ranks == (3,)


OPTIONS = "TensorDeviceTypes=TensorOptions(dtype=float (default), layout=Strided (default), memory=(nullopt))"


def fingerprint(rank, mine, other, theirs):
    def call(size):
        return f"CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, TensorShape=[{size}], {OPTIONS})"

    said = (
        f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
        f"{call(mine)}, but Rank {other} is running collective: "
        f"{call(theirs)}.Collectives differ in these"
    )
    return raised(rank, said, 10 + rank, PREFIX)


def test_fingerprints_whose_options_have_parentheses_name_the_odd_rank(tmp_path):
    said = "".join(fingerprint(rank, 500, 1, 501) for rank in (0, 2, 3)) + fingerprint(1, 501, 0, 500)
    found = verdict(tmp_path, said)
    assert (found.kind, found.ranks, found.line) == ("collective_mismatch", (1,), "/app/train.py:11 step")
    assert "[501]" in found.cause
    assert "layout" not in found.cause


def test_two_fingerprints_name_no_side(tmp_path):
    assert verdict(tmp_path, fingerprint(0, 500, 1, 501) + fingerprint(1, 501, 0, 500)).ranks == ()


def test_the_frames_of_a_chain_are_those_of_the_users_code(tmp_path):
    """A library raises the first exception of it within itself."""
    library = "/opt/venv/lib/python3.11/site-packages/torch/serialization.py"
    first = raised(0, "OSError: [Errno 28] No space left on device", prefix=PREFIX).replace("/app/train.py", library)
    chain = "[rank0]: \n[rank0]: During handling of the above exception, another exception occurred:\n[rank0]: \n"
    found = verdict(tmp_path, first + chain + raised(0, "RuntimeError: unexpected", 20, PREFIX) + lost(1))
    assert (found.ranks, found.line) == ((0,), "/app/train.py:20 step")
    assert "Errno 28" in found.cause


@pytest.mark.parametrize("name", ["job.log", "rank3.log"])
def test_a_log_in_which_a_stack_was_dumped_is_a_log(tmp_path, name):
    dumped = 'Timeout (0:01:00)!\nThread 0x00007f (most recent call first):\n  File "/app/train.py", line 9 in f\n'
    (tmp_path / name).write_text(f"step 1\n{dumped}step 2\n{raised(3, prefix=PREFIX)}")
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.ranks, found.line) == ((3,), "/app/train.py:10 step")


@pytest.mark.parametrize("number", [7, 12, 123456])
def test_lines_of_one_kind_are_not_put_together_for_their_equal_width(tmp_path, number):
    """Watchdogs before PyTorch 2.2 begin their lines without a rank in front."""
    waited = "".join(
        f"[E ProcessGroupNCCL.cpp:474] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum="
        f"{number}, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800932 milliseconds before timing out.\n"
        for rank in (0, 2, 3, 4)
    )
    said = f"Process rank: 1, device: cuda:1\n{waited}terminate called\n"
    found = verdict(tmp_path, said)
    assert (found.kind, found.ranks, found.victims) == ("hang", (1,), (0, 2, 3, 4))


def test_a_crash_that_open_mpis_handler_prints_is_told_with_node_and_process(tmp_path):
    lines = (
        "[gpu07:82362] *** Process received signal ***\n[gpu07:82362] Signal: Segmentation fault (11)\n"
        "[gpu07:82362] Signal code: Address not mapped (1)\n[gpu07:82362] Failing at address: 0x1d3fca368\n"
        "[gpu07:82362] *** End of error message ***\n"
    )
    found = verdict(tmp_path, lines)
    assert (found.kind, found.ranks, found.nodes) == ("died", (), ("gpu07",))
    assert "(pid 82362) on gpu07 crashed (SIGSEGV)" in found.cause


@pytest.mark.parametrize("text", ["uncorrectable NVLink error detected during the execution", "hardware stack error"])
def test_errors_that_a_device_itself_reports_are_device_faults(tmp_path, text):
    found = verdict(tmp_path, raised(3, f"RuntimeError: CUDA error: {text}", 30, PREFIX))
    assert (found.kind, found.ranks) == ("device_fault", (3,))


def test_nccls_own_failure_for_memory_is_the_ranks(tmp_path):
    """The exception says no more than that some CUDA call has failed."""
    failed = raised(2, "torch.distributed.DistBackendError: NCCL error in: a.cpp:94, unhandled cuda error", 20, PREFIX)
    last = "[rank2]: ncclUnhandledCudaError: Call to CUDA function failed.\n[rank2]: Last error:\n"
    found = verdict(tmp_path, f"{failed}{last}[rank2]: Cuda failure 2 'out of memory'\n{lost(0, 1)}")
    assert (found.kind, found.ranks) == ("died", (2,))
    assert "out of device memory" in found.cause


def test_a_fault_of_memory_on_an_amd_gpu_is_no_ranks_where_nothing_says_whose(tmp_path):
    line = "Memory access fault by GPU node-4 (Agent handle: 0x55d8) on address 0x7f1c5e000000. Reason: Unknown.\n"
    found = verdict(tmp_path, line + lost(0, 1))
    assert (found.kind, found.ranks) == ("died", ())
    assert "Memory access fault by GPU node-4" in found.cause
    assert verdict(tmp_path, f"[rank3]: {line}{lost(0, 1)}").ranks == (3,)


def test_an_amd_gpus_exception_is_of_the_process_that_it_names(tmp_path):
    """ROCm's runtime says the process and no rank; torchrun's table has both."""
    line = (
        ":0:rocdevice.cpp   :3586: 92087492418 us: [pid:17114 tid:0x7f12] Callback: Queue 0x772c40900000 aborting with "
        "error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016\n"
    )
    table = "Root Cause (first observed failure):\n  rank      : 3 (local_rank: 3)\n  exitcode  : -6 (pid: 17114)\n"
    found = verdict(tmp_path, line + table)
    assert (found.kind, found.ranks) == ("died", (3,))
    assert "HSA_STATUS_ERROR_EXCEPTION" in found.cause
    failed = raised(2, "torch.AcceleratorError: HIP error: unspecified launch failure", 20, PREFIX)
    assert "the line is only where the host noticed it" in verdict(tmp_path, failed).cause


def test_a_crash_that_rays_handler_prints_is_told(tmp_path):
    line = "*** SIGSEGV received at time=1700000000 on cpu 12 ***\n"
    found = verdict(tmp_path, line)
    assert (found.kind, found.ranks) == ("died", ())
    assert "the interpreter crashed" in found.cause
    assert verdict(tmp_path, line.replace("SIGSEGV", "SIGABRT")) is None


def test_a_request_that_efa_could_not_complete_is_the_networks(tmp_path):
    line = (
        "ip-10-0-1-17:2201:2301 [3] nccl_net_ofi_rdma.c:1234 NCCL WARN NET/OFI Request 0x7f completed with error. RC: "
        "122. Error: 4121 (Unresponsive receiver (reachable by EFA device but handshake failed)). Completed length: 0\n"
    )
    found = verdict(tmp_path, line + lost(0, 1))
    assert (found.kind, found.ranks) == ("network", ())
    assert "(status 122)" in found.cause
