"""Logs as people paste them: parts of a job's output, with line numbers, in several groups, without a rank's prefix."""

import re

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

RAYLET = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
    "problem, check the logs for the dead worker. RayTask ID: ff Worker ID: d8 Node ID: 84 "
    "Worker IP address: 10.0.0.7 Worker port: 10185 Worker PID: {pid} Worker exit type: {how} Worker exit detail: "
    "Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. "
    "(1) The process is killed by SIGKILL by OOM killer due to high memory usage.{more}\n"
)
LOST = (
    "(Worker pid=92234, ip=10.0.0.7) [rank1]:[E1224 13:23:05.48 ProcessGroupNCCL.cpp:542] [Rank 12] Collective "
    "WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=7, NumelOut=7, Timeout(ms)=1800000) raised the following async "
    "exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5\n"
)


def verdict(folder, text):
    (folder / "job.log").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


def timed_out(rank, seq=4, operation="BROADCAST", group="0(default_pg)", within=None, prefix=""):
    within = rank if within is None else within
    head = f"{prefix}[rank{rank}]:[E424 01:11:21.1608327{rank} ProcessGroupNCCL.cpp:629] "
    return (
        f"{head}[Rank {within}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType={operation}, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600010 milliseconds before timing "
        f"out.\n{head}[PG ID 0 PG GUID {group} Rank {within}]  failure detected by watchdog at work sequence id: "
        f"{seq} PG status: last enqueued work: {seq}, last completed work: {seq - 1}\n"
    )


def test_ranks_that_timed_out_in_different_calls_are_listed_by_call(tmp_path):
    text = "".join(timed_out(rank) for rank in range(1, 7)) + timed_out(0, 5, "ALLREDUCE")
    found = verdict(tmp_path, text)
    assert found.ranks == ()
    assert "ranks 1-6 waited in broadcast 4, rank 0 in allreduce 5 of group default_pg" in found.cause


def test_numbers_of_a_pager_before_each_line_hide_no_rank(tmp_path):
    """Lines as long as the longest are whole ones, though each begins with another number."""
    text = "".join(timed_out(rank, 4, "BROADCAST" if rank else "ALLREDUCE") for rank in range(4))
    lines = [f"[{80746 + number}] {line}\n" for number, line in enumerate(text.splitlines())]
    numbered, plain = verdict(tmp_path, "".join(lines)), verdict(tmp_path, text)
    assert (numbered.kind, numbered.ranks, numbered.cause) == (plain.kind, plain.ranks, plain.cause)
    assert plain.ranks == (0,)


def test_lines_that_a_terminal_padded_with_blanks_and_a_paste_made_one_are_read(tmp_path):
    lines = [
        "`Loading checkpoint shards:   0%|          | 0/2 [00:00<?, ?it/s]",
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 899505 closing signal SIGTERM",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 4 (pid: 899509) of "
        "binary: /opt/bin/python",
        "Traceback (most recent call last):",
        '  File "/opt/bin/torchrun", line 33, in <module>',
        "    sys.exit(load_entry_point('torch==2.0.1'))",
    ]
    found = verdict(tmp_path, "".join(line.ljust(160) for line in lines) + "\n")
    assert (found.kind, found.ranks) == ("died", ())
    assert "local rank 4 (pid 899509) was killed (SIGKILL)" in found.cause
    assert "no file says which rank that is" in found.cause


def test_deepspeed_says_how_a_process_ended_and_the_command_of_its_last_local_rank(tmp_path):
    """It is the last one's whichever has failed: no rank is accused for it."""
    head = "[2023-07-10 04:26:05,876] [{}] [launch.py:318:sigkill_handler] "
    text = "".join(head.format("INFO") + f"Killing subprocess {pid}\n" for pid in (94984, 94985))
    text += head.format("ERROR") + "['/opt/bin/python3', '-u', 'train.py', '--local_rank=1', '--deepspeed', 'ds.json'] "
    found = verdict(tmp_path, text + "exits with return code = -11\n")
    assert (found.kind, found.ranks) == ("died", ())
    assert "a process of the job crashed (SIGSEGV); no file says which rank that is" in found.cause
    assert verdict(tmp_path, text + "exits with return code = 1\n").kind == "insufficient_data"


def test_a_watchdog_that_was_stuck_accuses_its_rank_only_beside_others(tmp_path):
    stuck = (
        "[rank144]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 144] ProcessGroupNCCL's watchdog got stuck for 600 seconds "
        "without making progress in monitoring enqueued collectives.\n"
    )
    alone = verdict(tmp_path, stuck)
    assert (alone.kind, alone.ranks, alone.victims) == ("hang", (), (144,))
    assert "lines of no other rank" in alone.cause
    assert verdict(tmp_path, stuck + "[rank7]: step 12 loss 2.5\n[rank7]:[W socket.cpp:1] slow\n").ranks == (144,)


@pytest.mark.parametrize("pid", [899505, 899506])
def test_a_local_rank_that_its_launcher_ended_did_not_die_first(tmp_path, pid):
    api = "torch.distributed.elastic.multiprocessing.api:"
    text = f"WARNING:{api}Unable to shutdown process 899505 via 15, forcefully exiting via 9 (SIGKILL)\n"
    text += f"ERROR:{api}failed (exitcode: -9) local_rank: 1 (pid: {pid}) of binary: /opt/bin/python\n"
    assert (verdict(tmp_path, text).kind == "died") is (pid != 899505)


def test_a_rank_is_the_jobs_and_not_its_number_in_a_group_behind_any_prefix(tmp_path):
    text = timed_out(13, 216, "ALLTOALL_BASE", "119", 1, "2025-02-18 12:54 ")
    text += timed_out(15, 57, "ALLREDUCE", "112", 0, "2025-02-18 12:54 ")
    found = verdict(tmp_path, text)
    assert found.victims == (13, 15)
    assert "rank 15 waited in allreduce 57 of group 112" in found.cause
    assert "rank 13 waited in alltoall_base 216 of group 119" in found.cause


def test_the_smallest_number_that_timed_out_is_the_one_that_did_not_end(tmp_path):
    text = "".join(timed_out(rank, seq) for rank in (1, 2, 3) for seq in (9, 7, 8))
    assert verdict(tmp_path, text).seq == 7


def test_a_sentence_that_names_a_rank_is_no_prefix(tmp_path):
    text = "Restarting after an error on [rank3]: see below\n" + timed_out(1) + timed_out(2)
    assert 3 not in verdict(tmp_path, text).victims


def test_ranks_whose_watchdog_was_stuck_are_listed_where_nobody_is_accused(tmp_path):
    stuck = "".join(
        f"[rank{rank}]:[E626 05:14:36.39 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring\n"
        for rank in (7, 5, 0, 1, 3, 4, 6)
    )
    found = verdict(tmp_path, stuck + timed_out(2, 120049, "_ALLGATHER_BASE"))
    assert found.ranks == ()
    assert "the watchdog of ranks 0, 1 and 3-7 was stuck itself" in found.cause


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("slurmstepd: error: Detected 2 oom-kill event(s) in step 3756240.batch cgroup.", "do not say"),
        (
            "/var/spool/slurmd/job00191/slurm_script: line 28:  8156 Killed                  python3 main.py --epochs 4"
            "\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup. Some of your processes may "
            "have been killed by the cgroup out-of-memory handler.",
            "pid 8156",
        ),
        ("srun: error: node107: tasks 0-3,9: Out Of Memory", "one of ranks 0-3 and 9"),
    ],
)
def test_a_kill_for_memory_is_reported_where_no_line_says_of_whom(tmp_path, line, who):
    found = verdict(tmp_path, f"Epoch 3: loss 0.2\n{line}\n")
    assert (found.kind, found.ranks) == ("died", ())
    assert "out of host memory" in found.cause
    assert who in found.cause


def test_one_task_that_slurm_says_was_out_of_memory_is_the_one(tmp_path):
    found = verdict(tmp_path, "srun: error: node107: task 5: Out Of Memory\n")
    assert (found.kind, found.ranks) == ("died", (5,))


def test_a_failure_of_a_ranks_own_counts_before_a_kill_for_memory_of_anyone(tmp_path):
    text = (
        '[rank2]: Traceback (most recent call last):\n[rank2]:   File "/app/train.py", line 10, in step\n'
        "[rank2]:     work()\n[rank2]: ValueError: bad label\n"
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.13.\n"
    )
    assert verdict(tmp_path, text).ranks == (2,)


def test_the_process_that_a_raylet_lost_is_reported_with_its_node(tmp_path):
    found = verdict(tmp_path, RAYLET.format(pid=90738, how="SYSTEM_ERROR", more="") + LOST)
    assert found.ranks == ()
    assert "pid 90738 on 10.0.0.7" in found.cause


def test_the_only_process_that_a_raylet_lost_went_first(tmp_path):
    found = verdict(tmp_path, RAYLET.format(pid=90738, how="SYSTEM_ERROR", more=""))
    assert found.kind == "died"
    assert "pid 90738 on 10.0.0.7" in found.cause


def test_a_line_that_ray_printed_for_several_processes_does_not_single_one_out(tmp_path):
    found = verdict(tmp_path, RAYLET.format(pid=90738, how="SYSTEM_ERROR", more=" [repeated 5x across cluster]"))
    assert found.kind == "insufficient_data"


def test_a_worker_that_ended_on_purpose_is_not_lost(tmp_path):
    assert verdict(tmp_path, RAYLET.format(pid=7, how="INTENDED_USER_EXIT", more="")) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "host-1:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.3.1.59<44206> with "
            "status=12 opcode=129 len=65536 vendor err 129 (Recv) localGid ::ffff:29.8.8.18 remoteGids::ffff:29.8.4.2",
            "host-1 to 10.3.1.59",
        ),
        (
            "gh-37:7038:7053 [0] ib_plugin.c:1007 NCCL WARN NET/IB : Got completion from peer 10.1.32.3<54891> with "
            "error 5, opcode 0, len 0, vendor err 249",
            "gh-37 to 10.1.32.3",
        ),
        ("NET/IBP:Got completion from peer 7.6.13.83<36315> with status=12 opcode=3 len=3 vendor err 129", "7.6.13.83"),
    ],
)
def test_a_broken_connection_is_reported_with_both_its_ends(tmp_path, line, words):
    found = verdict(tmp_path, line + "\n")
    assert found.kind == "network"
    assert re.search(rf"connection (of|to) {re.escape(words)}", found.cause)


PORT = "{clock}{node}:34050:34121 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : {device}Got async event : {event}\n"
RETRIES = (
    "n51:7307:7318 [4] transport/net_ib.cc:1238 NCCL WARN NET/IB : Got completion from peer n48<3794> with error 12\n"
)


@pytest.mark.parametrize(
    ("clock", "device", "event"),
    [
        ("", "", "port error"),
        ("2019-06-02T16:13:44.884Z: [1,12]<stdout>:", "", "local catastrophic error"),
        ("", "mlx5_0:1 ", "port error"),
    ],
)
def test_a_node_whose_own_port_failed_is_named(tmp_path, clock, device, event):
    """The other end of the connection only sees retries that are exhausted."""
    said = PORT.format(clock=clock, node="n48", device=device, event=event)
    newer = said.replace("Got async event : ", "Got non-fatal async event: ").replace(event, f"{event}(10)")
    for text in (said, said + RETRIES, newer):
        found = verdict(tmp_path, text)
        assert (found.kind, found.ranks, found.nodes, found.sure) == ("network", (), ("n48",), "likely")
        assert f"NCCL on n48 reports a {event} of its own {device.partition(':')[0] or 'adapter'}" in found.cause


def test_where_ports_of_several_nodes_failed_none_is_named(tmp_path):
    """A switch, or the fabric."""
    said = "".join(PORT.format(clock="", node=f"n{number}", device="", event="port error") for number in (1, 2, 3))
    found = verdict(tmp_path, said)
    assert (found.kind, found.nodes) == ("network", ())
    assert "3 nodes" in found.cause


@pytest.mark.parametrize("event", ["port active", "GID table change", "client reregistration"])
def test_other_events_of_an_adapter_are_no_fault(tmp_path, event):
    assert verdict(tmp_path, PORT.format(clock="", node="n48", device="mlx5_0:1 ", event=event)) is None


OLD = "[E ProcessGroupNCCL.cpp:566] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(OpType={}, Time)"


def test_timeouts_without_numbers_are_told_by_their_operations(tmp_path):
    """Before PyTorch 2.0; where these differ, no rank is said to have stayed away."""
    same = "".join(f"{OLD.format(rank, 'ALLREDUCE')} ran\n" for rank in (0, 1, 3))
    found = verdict(tmp_path, f"{same}[rank2]: epoch 1\n[rank0]: epoch 1\n")
    assert found.seq is None
    assert "ranks 0, 1 and 3 waited in allreduce of group default_pg" in found.cause
    found = verdict(tmp_path, f"{same}{OLD.format(2, 'BROADCAST')} ran\n")
    assert found.ranks == ()
    assert "ranks 0, 1 and 3 waited in allreduce, rank 2 in broadcast" in found.cause
    assert "their calls differ" in found.cause


LOADS = """Thread 0x7FA6E7C01740 (idle): "MainThread"
    wait (threading.py:302)
    get (queue.py:170)
    __next__ (data/iterators.py:648)
    train (train.py:274)
"""
WAITS = """Thread 0x7F6E53AEB740 (active+gil): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:1322)
    sync (train.py:480)
    train (train.py:278)
"""


@pytest.mark.parametrize("head", ["", "Process 77: python -u train.py\n"])
def test_a_part_of_a_stack_dump_is_read(tmp_path, head):
    """People leave out its first lines, or the one with the version."""
    for rank in range(4):
        (tmp_path / f"rank{rank}.txt").write_text(head + (WAITS if rank else LOADS))
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks, found.line) == ("hang", (0,), "data/iterators.py:648 __next__")
    assert found.others_line == "train.py:480 sync"


def test_of_stacks_whose_ranks_no_file_says_the_places_are_listed(tmp_path):
    text = "".join(f"Process {pid}: python train.py\n{part}" for pid, part in ((70, WAITS), (71, LOADS)))
    found = verdict(tmp_path, text)
    assert (found.kind, found.ranks) == ("insufficient_data", ())
    assert "pid 70 (train.py:480 sync); pid 71 (data/iterators.py:648 __next__)" in found.cause
    again = verdict(tmp_path, text + f"Process 70: python train.py\n{LOADS}")
    assert "pid 70 (data/iterators.py:648 __next__); pid 71 (data/iterators.py:648 __next__)" in again.cause
    unnumbered = verdict(tmp_path, WAITS + LOADS)
    assert "a process (train.py:480 sync); a process (data/iterators.py:648 __next__)" in unnumbered.cause
    assert verdict(tmp_path, LOADS.replace("get (queue.py:170)", "work (data/own.py:1)")) is None


@pytest.mark.parametrize(
    "line",
    [
        '[W1229 22:06:38.48 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0 Rank {}] Failed to check the "should dump" '
        "flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe",
        "[W1229 22:06:38.55 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=67, addr=[a]:1): Broken pipe",
    ],
)
def test_ranks_that_lost_the_store_only_lost_a_peer(tmp_path, line):
    text = "".join(f"[rank{rank}]:{line.format(rank)}\n" for rank in (1, 2, 3))
    found = verdict(tmp_path, text)
    assert (found.kind, found.ranks, found.victims) == ("insufficient_data", (), (1, 2, 3))


def horovod(head):
    """Rank 2 raises, and rank 0 is told so by Horovod; ``head`` is what their launcher puts before a line."""

    def raised(rank, error):
        place = f'  File "/app/train.py", line {20 + rank}, in step'
        return "".join(f"{head(rank)}{line}\n" for line in ("Traceback (most recent call last):", place, error))

    shut = "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an exception"
    return raised(2, "ValueError: bad label") + raised(0, f"{shut} on one of the ranks.")


@pytest.mark.parametrize(
    "head",
    [
        lambda rank: f"[1,{rank}]<stderr>:",
        lambda rank: f"[{rank}]<stderr>:",
        lambda rank: f"<>        [2021-12-07 10:43:0{rank}] 087c0ee7 || [1,{rank}]<stderr>:",
        lambda rank: f"<info>    [2021-12-07 10:43:0{rank}] 087c0ee7 [rank={rank}] || ",
    ],
    ids=["mpirun", "horovodrun", "determined", "determined ranks"],
)
def test_who_is_shut_down_by_horovod_only_lost_a_peer(tmp_path, head):
    found = verdict(tmp_path, horovod(head))
    assert (found.kind, found.ranks, found.victims) == ("died", (2,), (0,))
    assert found.line == "/app/train.py:22 step"


@pytest.mark.parametrize(("code", "kind"), [(-9, "died"), (1, "insufficient_data")])
def test_lightning_says_how_a_process_ended_and_not_whose_it_was(tmp_path, code, kind):
    text = (
        f"Child process with PID 652 terminated with code {code}. Forcefully terminating all other processes to avoid"
    )
    found = verdict(tmp_path, text + " zombies\n")
    assert (found.kind, found.ranks) == (kind, ())


def test_an_agent_that_lost_its_rendezvous_has_only_lost_it(tmp_path):
    text = (
        "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'b_3427_0' has failed to send a "
        "keep-alive heartbeat to the rendezvous 'test' due to an error of type RendezvousConnectionError.\n"
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 3494 closing signal SIGTERM\n"
    )
    found = verdict(tmp_path, text)
    assert (found.kind, found.ranks) == ("insufficient_data", ())
