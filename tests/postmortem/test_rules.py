"""The rules, each with variations of its own: other launchers, versions, missing files, misleading first speakers."""

import json

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read
from postmortem.reading.prefixes import unwrapped

GLOO = "/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"


def verdict(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
    return decide(read([str(folder)], 1 << 30).statements)


def traceback(rank, error, file="/app/train.py", line=10, function="step", prefix="[rank{}]: "):
    head = prefix.format(rank)
    place = f'  File "{file}", line {line}, in {function}'
    lines = ["Traceback (most recent call last):", place, "    work()", error]
    return "".join(f"{head}{one}\n" for one in lines)


def closed(rank, peer="[10.0.0.1]:1234", **options):
    return traceback(rank, f"RuntimeError: [{GLOO}pair.cc:561] Connection closed by peer {peer}.", line=30, **options)


def timed_out(rank, seq=7, operation="ALLREDUCE", numel=10, group="0(default_pg)", numel_out=None):
    out = numel if numel_out is None else numel_out
    return (
        f"[rank{rank}]:[E1206 18:44:12.7 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID {group} Rank {rank}] "
        "Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType={operation}, NumelIn={numel}, NumelOut={out}, "
        "Timeout(ms)=600000) ran for 600061 milliseconds before timing out.\n"
    )


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank{0}]: ",
        "[default{0}]:[rank{0}]: ",
        "{0}: ",
        "[1,{0}]<stderr>:",
        "[1,{0}]<stderr>:[rank{0}]: ",
        "(RayTrainWorker pid=70{0}, ip=10.0.0.3) [rank{0}]: ",
        "[pod/llm-worker-{0}/pytorch] [rank{0}]: ",
        "2026-11-20T09:13:57.123456789Z stderr F [rank{0}]: ",
        "\x1b[31m[rank{0}]: \x1b[0m",
        "2026-11-20 09:13:57,123 [rank{0}]: ",
        "[2026-11-20 09:13:57] [rank{0}]: ",
        "2026-11-20T09:13:57+01:00 {0}: ",
        "Nov 20 09:13:57 [rank{0}]: ",
        "[09:13:57.123] [default{0}]:[rank{0}]: ",
        "[default{0}]:09:13:57 [rank{0}]: ",
        "[8074{0}] [rank{0}]: ",
        "2025-02-18 12:54 [rank{0}]: ",
        "dinov2-giant.cn-d004 [stderr] [default{0}]:[rank{0}]: ",
        "node-1: [rank{0}]: ",
        "[1,mpirank:{0},algo-1]<stderr>:",
        "[Rank {0}] ",
        "[rank={0}] ",
        "[rank {0}/4] ",
        "[R{0}] ",
        "rank{0}: ",
        "Rank {0}: ",
        "(rank {0}) ",
        "worker-{0}  | [rank{0}]: ",
    ],
)
def test_an_exception_of_one_rank_is_named_whatever_the_launcher_puts_before_it(tmp_path, prefix):
    log = closed(0, prefix=prefix) + traceback(2, "ValueError: bad label", prefix=prefix) + closed(1, prefix=prefix)
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks, found.victims, found.line) == ("died", (2,), (0, 1), "/app/train.py:10 step")


@pytest.mark.parametrize(
    "prefix",
    [
        "worker-{0}  | ",
        "llm_worker_{0}    | ",
        "llm-worker-{0} pytorch ",
        "llm-worker-{0} pytorch > ",
        "train/{0} ",
        "10.0.0.{0}: ",
    ],
)
def test_what_names_no_rank_keeps_the_speakers_apart(tmp_path, prefix):
    """Compose, stern, TorchX and pdsh name a container or a node: which rank runs there nothing says. Lines may mix."""
    logs = [closed(0, prefix=prefix), traceback(2, "ValueError: bad label", prefix=prefix), closed(1, prefix=prefix)]
    mixed = [line for lines in zip(*(log.splitlines(keepends=True) for log in logs), strict=True) for line in lines]
    for log in (logs, mixed):
        found = verdict(tmp_path, **{"job.log": "".join(log)})
        assert (found.kind, found.ranks, found.sure, found.line) == ("died", (), "unsure", "/app/train.py:10 step")
        assert f"it is of {prefix.format(2).split()[0].rstrip(':')}, and no file says which rank that is" in found.cause


@pytest.mark.parametrize("said", ["rank 3: loss 0.1", "shard-3 model ready", "step 1/3 Value", "a-1 | b", "Rank 2 | x"])
def test_a_sentence_is_no_prefix(said):
    assert unwrapped(said).rank is None
    assert unwrapped(said).text in (said, "b")


def test_records_of_a_log_driver_are_read(tmp_path):
    lines = (closed(0) + traceback(2, "ValueError: bad label")).splitlines(keepends=True)
    log = "".join(
        json.dumps({"log": line, "stream": "stderr", "time": "2026-11-20T09:13:57Z"}) + "\n" for line in lines
    )
    assert verdict(tmp_path, **{"job.log": log}).ranks == (2,)


@pytest.mark.parametrize(
    "record",
    [
        lambda line: {"jsonPayload": {"message": line}, "severity": "ERROR"},
        lambda line: {"textPayload": line, "resource": {"type": "k8s_container"}},
        lambda line: {"_source": {"kubernetes": {"pod": "a"}, "log": line}},
        lambda line: {"Timestamp": "2026-11-27T10:00:00Z", "Body": line, "Resource": {"k8s.pod.name": "a"}},
        lambda line: {"event": "line", "data": line + "\n", "pipe": "stderr"},
    ],
)
def test_records_whose_text_lies_deeper_are_read(tmp_path, record):
    """As clouds and searches give them."""
    lines = (closed(0) + traceback(2, "ValueError: bad label")).splitlines()
    log = "".join(json.dumps(record(line)) + "\n" for line in lines)
    assert verdict(tmp_path, **{"job.log": log}).ranks == (2,)


def test_a_log_in_utf_16_is_read(tmp_path):
    """As a PowerShell writes what it redirects."""
    log = (closed(0) + traceback(2, "ValueError: bad label")).replace("\n", "\r\n").encode("utf-16")
    assert verdict(tmp_path, **{"job.log": log}).ranks == (2,)


def test_carriage_returns_and_bytes_that_are_no_utf_8_hide_nothing(tmp_path):
    log = ("  3%|#   | 1/30\r" + traceback(2, "ValueError: bad l\xe4bel")).replace("\n", "\r\n").encode("latin-1")
    assert verdict(tmp_path, **{"job.log": log}).ranks == (2,)


def test_interleaved_tracebacks_keep_apart(tmp_path):
    one, other = closed(0).splitlines(), traceback(3, "KeyError: 'x'", line=44).splitlines()
    log = "\n".join(line for pair in zip(one, other, strict=True) for line in pair) + "\n"
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.ranks, found.line) == ((3,), "/app/train.py:44 step")


def test_the_same_exception_at_all_ranks_accuses_nobody(tmp_path):
    log = "".join(traceback(rank, f"RuntimeError: no file /data/{rank}") for rank in range(4))
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks, found.victims) == ("died", (), (0, 1, 2, 3))


def test_two_different_exceptions_are_both_named_and_unsure(tmp_path):
    log = traceback(1, "ValueError: a") + traceback(2, "KeyError: 'b'") + closed(0)
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.ranks, found.sure) == ((1, 2), "unsure")


@pytest.mark.parametrize("reason", ["TIME LIMIT", "PREEMPTION", "NODE FAILURE"])
def test_ended_by_slurm_accuses_nobody_though_ranks_fail_afterwards(tmp_path, reason):
    log = f"slurmstepd: error: *** JOB 4711 ON node-3 CANCELLED AT 2026-11-20T09:00:00 DUE TO {reason} ***\n"
    log += (
        closed(0)
        + traceback(1, "KeyboardInterrupt")
        + traceback(2, "RuntimeError: DataLoader worker (pid 9) is killed by signal: Terminated. ")
    )
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks) == ("died", ())
    assert found.nodes == ()  # It is node-3 that writes this, so that lives.


def test_the_node_whose_syslog_tells_of_a_node_failure_is_not_named(tmp_path):
    line = "May 12 10:00:00 node-3 slurmstepd[77]: error: *** STEP 4.0 ON node-3 CANCELLED AT x DUE TO NODE FAILURE ***"
    found = verdict(tmp_path, **{"job.log": f"step 10\n{line}\n"})
    assert (found.kind, found.ranks, found.nodes) == ("died", (), ())


@pytest.mark.parametrize(
    "cancelled",
    ["", "slurmstepd: error: *** STEP 4242.0 ON node-1 CANCELLED AT 2026-11-20T09:00:00 DUE TO NODE FAILURE ***\n"],
)
def test_the_node_that_srun_says_has_failed_is_named(tmp_path, cancelled):
    log = f"srun: error: Node failure on node-7\n{cancelled}srun: error: node-1: tasks 0-7: Killed\n"
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks, found.nodes) == ("died", (), ("node-7",))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("=>> PBS: job killed: walltime 3607 exceeded limit 3600", "the time limit of the job"),
        ("=>> PBS: job killed: mem 12345678kb exceeded limit 12000000kb", "the memory limit of the job"),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "the time limit of the job"),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "the memory limit of the job"),
        ("TERM_OWNER: job killed by owner.", "cancelled"),
        ("TERM_PREEMPT: job killed after preemption.", "preemption"),
    ],
)
def test_what_pbs_and_lsf_have_ended_is_nobodys(tmp_path, line, reason):
    found = verdict(tmp_path, **{"job.log": f"step 10\n{line}\n{closed(0)}{traceback(1, 'KeyboardInterrupt')}"})
    assert (found.kind, found.ranks) == ("died", ())
    assert f"ended from outside: {reason}" in found.cause


def test_a_failure_before_the_time_limit_is_still_the_cause(tmp_path):
    log = (
        traceback(1, "ValueError: a")
        + "slurmstepd: error: *** JOB 4711 ON n CANCELLED AT 2026-11-20T09:00:00 DUE TO TIME LIMIT ***\n"
    )
    assert verdict(tmp_path, **{"job.log": log}).ranks == (1,)


def test_a_rank_without_a_timeout_is_late_whoever_speaks_first(tmp_path):
    log = "[rank3]: step 12\n" + "".join(timed_out(rank) for rank in (2, 0, 1)) + "terminate called\n"
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks, found.victims, found.seq) == ("hang", (3,), (0, 1, 2), 7)


def test_a_sub_group_whose_members_nobody_tells_accuses_nobody(tmp_path):
    log = "".join(f"[rank{rank}]: step 12\n" for rank in range(8)) + "".join(
        timed_out(rank, group="3(tp)") for rank in (0, 1, 2)
    )
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks, found.group) == ("hang", (), "tp")


def test_three_silent_ranks_are_too_many_to_accuse(tmp_path):
    log = "".join(f"[rank{rank}]: step 12\n" for rank in range(8)) + "".join(timed_out(rank) for rank in range(5))
    assert verdict(tmp_path, **{"job.log": log}).ranks == ()


@pytest.mark.parametrize("operations", [("RECV", "RECV", "SEND"), ("RECV", "COALESCED", "COALESCED")])
@pytest.mark.parametrize("seq", [30, -1])
def test_a_send_and_its_receive_are_no_mismatch(tmp_path, operations, seq):
    """Neighbours in a pipeline that all wait for the silent rank 3."""
    log = "[rank3]: step 12\n" + "".join(
        timed_out(rank, seq, operation).replace("SeqNum=-1, ", "") for rank, operation in enumerate(operations)
    )
    found = verdict(tmp_path, **{"job.log": log + "terminate called\n"})
    assert (found.kind, found.ranks, found.victims) == ("hang", (3,), (0, 1, 2))


def test_a_pair_in_a_send_and_its_receive_does_not_call_different_collectives(tmp_path):
    """Two ranks alone."""
    log = timed_out(0, 1, "RECV") + timed_out(1, 1, "SEND")
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks) == ("hang", ())


def test_a_timeout_in_another_operation_of_the_same_number_is_a_mismatch(tmp_path):
    log = "".join(timed_out(rank) for rank in range(3)) + timed_out(3, operation="ALLGATHER")
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks, found.seq) == ("collective_mismatch", (3,), 7)


def in_a_stage(rank, group):
    """A rank that waits with its neighbour, in the operation of its stage of the pipeline."""
    operation = "ALLREDUCE" if rank < 4 else "_ALLGATHER_BASE"
    return timed_out(rank, 20, operation, group=group).replace(f"Rank {rank}]", f"Rank {rank % 2}]")


@pytest.mark.parametrize("names", ["345", "111"])
@pytest.mark.parametrize("described", ["tp", "undefined"])
def test_groups_of_one_description_are_not_taken_for_one(tmp_path, names, described):
    """Each stage of a pipeline has such a group; those of one split share their name, too."""
    log = "".join(in_a_stage(rank, f"{names[rank // 2]}({described})") for rank in range(6))
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks, found.victims) == ("hang", (), (0, 1, 2, 3, 4, 5))


@pytest.mark.parametrize(
    "said", ["PG 0", "PG ID 0 PG GUID 0(default_pg)", "PG ID 0 PG GUID 0", "PG ID 0 PG GUID 0(undefined)"]
)
def test_the_default_group_is_one_whatever_a_rank_calls_it(tmp_path, said):
    """A rank's later line says which group it spoke of, and the others have none: they were killed before."""
    later = f"[rank3]:[E ProcessGroupNCCL.cpp:1] [{said} Rank 3] Timeout at NCCL work: 7, last enqueued NCCL work: 7, "
    log = "".join(timed_out(rank) for rank in (1, 2)) + timed_out(3, operation="BROADCAST")
    found = verdict(tmp_path, **{"job.log": f"{log}{later}last completed NCCL work: 6.\n"})
    assert (found.kind, found.ranks, found.seq) == ("collective_mismatch", (3,), 7)


def ended(rank, last, enqueued):
    return (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Timeout at NCCL work: "
        f"{last + 1}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {last}.\n"
    )


def test_the_rank_that_has_not_ended_what_all_others_have_is_named(tmp_path):
    """All timed out, it alone in an earlier collective: only where the others say that they ended that."""
    waits = [timed_out(rank, seq=6 if rank == 2 else 7) for rank in range(4)]
    said = [ended(rank, 5 if rank == 2 else 6, 7) for rank in range(4)]
    found = verdict(tmp_path, **{"job.log": "".join(waits + said)})
    assert (found.kind, found.ranks, found.victims, found.sure) == ("hang", (2,), (0, 1, 3), "likely")
    assert found.cause.startswith("rank 2 has not ended allreduce 6, which the others have")
    for unknown in (said[:2], said[2:3], []):
        found = verdict(tmp_path, **{"job.log": "".join([*waits, *unknown])})
        assert (found.kind, found.ranks) == ("hang", ())


def test_the_process_that_has_the_memory_of_a_full_device_is_named(tmp_path):
    said = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.10 "
        "GiB of which 1.06 GiB is free. Process 3713 has 54.00 GiB memory in use. Including non-PyTorch memory, this "
        "process has 24.03 GiB memory in use."
    )
    found = verdict(tmp_path, **{"job.log": traceback(1, said)})
    assert found.ranks == (1,)
    assert "2.00 GiB; process 3713 has 54.00 GiB of that device" in found.cause


def test_a_devices_fault_that_nccl_was_told_of_is_the_devices(tmp_path):
    """Its rank's own exception says no more than that CUDA failed."""
    log = traceback(3, "RuntimeError: NCCL Error 1: unhandled cuda error (run with NCCL_DEBUG=INFO for details)")
    log += "[rank3]: node7:1:2 [3] enqueue.cc:100 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'\n"
    found = verdict(tmp_path, **{"job.log": log + closed(0)})
    assert found.ranks == (3,)
    assert "uncorrectable ECC error" in found.cause


def table(*rows, root):
    def row(rank, code):
        return (
            f"[0]:\n  time      : 2026-11-26_12:12:57\n  host      : n1\n  rank      : {rank} (local_rank: {rank})\n"
            f"  exitcode  : {code} (pid: 5{rank})\n  error_file: <N/A>\n"
        )

    return (
        "Failures:\n"
        + "".join(row(*one) for one in rows)
        + "Root Cause (first observed failure):\n"
        + row(*root)
        + "=====\n"
    )


def test_a_rank_that_ended_with_0_is_in_no_table_and_left_early(tmp_path):
    log = "[rank2]: done\n" + closed(0) + closed(1) + closed(3) + table((1, 1), (3, 1), root=(0, 1))
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks, found.victims) == ("died", (2,), (0, 1, 3))
    assert "exit code 0" in found.cause


def test_a_hole_in_the_table_of_a_node_is_a_rank_that_ended_with_0(tmp_path):
    log = closed(0) + closed(1) + closed(3) + table((1, 1), (3, 1), root=(0, 1))
    assert verdict(tmp_path, **{"job.log": log}).ranks == (2,)


def test_a_killed_rank_is_named_and_not_the_root_cause_of_the_table(tmp_path):
    log = closed(0) + closed(1) + table((2, -9), (1, 1), root=(0, 1))
    found = verdict(tmp_path, **{"job.log": log})
    assert (found.kind, found.ranks, found.victims) == ("died", (2,), (0, 1))


def test_what_the_agent_killed_itself_is_no_cause(tmp_path):
    log = (
        closed(0) + "W1126 Unable to shutdown process 52 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL\n"
    )
    found = verdict(tmp_path, **{"job.log": log + table((2, -9), root=(0, 1))})
    assert 2 not in found.ranks


@pytest.mark.parametrize(
    ("error", "kind", "word"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity",
            "died",
            "device memory",
        ),
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 MiB. GPU 0 has a total capacty",
            "died",
            "device memory",
        ),
        (
            "RuntimeError: [enforce fail] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
            "died",
            "host memory",
        ),
        ("OSError: [Errno 28] No space left on device", "died", "disk"),
        ("RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0", "died", "disk"),
        ("RuntimeError: DataLoader worker (pid 99) is killed by signal: Bus error. It is possible", "died", "worker"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "device_fault", "device"),
        ("RuntimeError: CUDA error: device-side assert triggered", "died", "noticed"),
    ],
)
def test_each_cause_is_known_by_its_line(tmp_path, error, kind, word):
    found = verdict(tmp_path, **{"job.log": closed(0) + traceback(1, error) + closed(2)})
    assert (found.kind, found.ranks) == (kind, (1,))
    assert word in found.cause


def test_the_line_of_a_loader_s_exception_is_the_worker_s(tmp_path):
    log = traceback(1, "KeyError: Caught KeyError in DataLoader worker process 0.")
    log += "[rank1]: Original Traceback (most recent call last):\n"
    log += '[rank1]:   File "/app/data.py", line 54, in __getitem__\n'
    log += "[rank1]:     return self.x[i]\n[rank1]: KeyError: 'image'\n"
    found = verdict(tmp_path, **{"job.log": log + closed(0)})
    assert (found.ranks, found.line) == ((1,), "/app/data.py:54 __getitem__")


def test_an_error_file_names_its_rank(tmp_path):
    message = {
        "message": "ValueError: bad",
        "extraInfo": {"py_callstack": '  File "/app/t.py", line 3, in go\n', "timestamp": "1"},
    }
    found = verdict(
        tmp_path, **{"error_rank2.json": json.dumps({"message": message}), "job.log": closed(0) + closed(1)}
    )
    assert (found.ranks, found.line) == ((2,), "/app/t.py:3 go")


def test_a_file_that_says_nothing_gives_no_verdict(tmp_path):
    assert verdict(tmp_path, **{"job.log": "step 1\nstep 2\n", "notes.md": traceback(1, "ValueError: a")}) is None


def test_the_chain_of_names_ends_at_the_first(tmp_path):
    ports = {str(rank): [f"10.0.0.1:{4000 + rank}"] for rank in range(4)}

    def peer(rank):
        port = 4000 + rank
        return f"[10.0.0.1]:{(port & 255) << 8 | port >> 8}"

    log = closed(0, peer(1)) + closed(1, peer(2)) + closed(3, peer(2))
    found = verdict(tmp_path, **{"job.log": log, "ports.json": json.dumps(ports)})
    assert (found.kind, found.ranks, found.victims) == ("died", (2,), (0, 1, 3))


def test_a_circle_of_names_accuses_nobody(tmp_path):
    ports = {"0": ["10.0.0.1:257"], "1": ["10.0.0.1:514"]}
    log = closed(0, "[10.0.0.1]:514") + closed(1, "[10.0.0.1]:257")
    assert verdict(tmp_path, **{"job.log": log, "ports.json": json.dumps(ports)}).ranks == ()


@pytest.mark.slow
def test_ranks_4095_of_4096_that_wait_name_the_last(tmp_path):
    log = "[rank1777]: step 1\n" + "".join(timed_out(rank) for rank in range(4096) if rank != 1777)
    log += "terminate called\n"
    assert verdict(tmp_path, **{"job.log": log}).ranks == (1777,)


def test_the_rank_that_gloo_aborts_for_a_size_is_a_victim_though_others_name_it(tmp_path):
    ports = {"1": ["10.0.0.1:257"]}
    abort = f"terminate called\n  what():  [enforce fail at {GLOO}pair.cc:464] op.preamble.length <= op.nbytes. "
    log = (
        abort
        + "240 vs 236. Received data size doesn't match expected size.\n"
        + closed(0, "[10.0.0.1]:257")
        + closed(2)
    )
    files = {"job.log": log, "ports.json": json.dumps(ports), "exits.json": json.dumps({"0": 1, "1": -6, "2": 1})}
    found = verdict(tmp_path, **files)
    assert (found.kind, found.ranks) == ("collective_mismatch", ())
