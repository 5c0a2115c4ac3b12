"""What launchers write of their processes: boxes of mpirun and prterun, errors in the log of Ray's driver."""

import json
import re

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

RULE = "-" * 74 + "\n"
STEPS = "".join(f"step {step} loss 0.{step}\n" for step in range(20))
RAISED = 'Traceback (most recent call last):\n  File "/app/train.py", line 10, in step\nValueError: bad label\n'
LOST = (
    'Traceback (most recent call last):\n  File "/app/train.py", line 30, in step\n'
    "RuntimeError: [/g/gloo/transport/tcp/pair.cc:561] Connection closed by peer [10.0.0.2]:1234\n"
)
REMOTE = (
    '  File "/app/train.py", line 22, in fn\n    step()\n'
    '  File "/app/train.py", line 10, in step\nValueError: bad label\n'
)
DRIVER = (
    'Traceback (most recent call last):\n  File "/app/driver.py", line 40, in <module>\n    ray.get(refs)\n'
    '  File "/opt/venv/lib/python3.11/site-packages/ray/_private/worker.py", line 2782, in get\n'
    "    values, debugger_breakpoint = worker.get_objects(object_refs, timeout=timeout)\n"
    "            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    '  File "/opt/venv/lib/python3.11/site-packages/ray/_private/worker.py", line 929, in get_objects\n'
    "    raise value.as_instanceof_cause()\n"
)
LISTED = f"{DRIVER}ray.train.WorkerGroupError: Training failed due to worker errors:\n"
STARTED = "(TorchTrainer pid=47169) Started distributed worker processes: \n" + "".join(
    f"(TorchTrainer pid=47169) - (node_id=f67b, ip=10.0.0.3, pid=701{rank}) world_rank={rank}, local_rank={rank}, "
    "node_rank=0\n"
    for rank in range(4)
)


def remote(pid=7012, kind="ValueError", repr_="<train.RankWorker object at 0x7f1c>", what="ray::RankWorker.fn()"):
    return (
        f"ray.exceptions.RayTaskError({kind}): {what} (pid={pid}, ip=10.0.0.3, actor_id=3e1d01000000, repr={repr_})\n"
    )


def died(pid=7012, name="RayActorError", why="Worker unexpectedly exits with a connection error code 2. End of file."):
    return (
        f"{DRIVER}ray.exceptions.{name}: The actor died unexpectedly before finishing this task.\n"
        f"\tclass_name: RankWorker\n\tactor_id: 8c22c88e\n\tpid: {pid}\n\tname: trainer_0\n\tnamespace: 880e7111\n"
        "\tip: 10.0.0.3\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker "
        f"exit detail: {why} There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer "
        "due to high memory usage. (2) ray stop --force is called.\n"
    )


def verdict(folder, text, name="job.log"):
    (folder / name).write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


@pytest.mark.parametrize(("name", "prefix"), [("rank0.log", ""), ("job.log", "[rank0]: ")])
def test_an_actor_that_died_is_the_process_that_is_named_not_the_rank_that_says_so(tmp_path, name, prefix):
    """The driver's words may stand in the file of a rank, or behind its prefix."""
    said = "".join(f"{prefix}{line}\n" for line in died(pid=7012).splitlines())
    found = verdict(tmp_path, STARTED + said, name=name)
    assert (found.kind, found.ranks) == ("died", (2,))


@pytest.mark.parametrize(
    "said",
    [
        "{0} noticed that process rank 2 with PID 4711 on node node-3 exited on signal 9 (Killed).\n",
        "{0} noticed that process rank 2 with PID 4711 on node node-3 exited on\nsignal 9 (Killed).\n",
        "{0} noticed that process rank 2 with PID 0 on node\nnode-3 exited on signal 9 (Killed).\n",
        "{0} noticed that process rank 2 with PID 4711 on node node-3\nexited\non signal 9\n(Killed).\n",
        "{0} noticed that process rank 2 with PID\n4711 on node node-3 exited on signal\n9 (Killed).\n",
    ],
)
@pytest.mark.parametrize("prefix", ["", "1: ", "2026-11-20 09:00:00 "])
@pytest.mark.parametrize("launcher", ["mpirun", "prterun", "mpiexec"])
def test_a_box_whose_lines_are_wrapped_names_the_process(tmp_path, launcher, prefix, said):
    box = RULE + said.format(launcher) + RULE
    found = verdict(tmp_path, STEPS + "".join(f"{prefix}{line}\n" for line in box.splitlines()))
    assert (found.kind, found.ranks, found.nodes) == ("died", (2,), ("node-3",))
    assert "SIGKILL" in found.cause


EXITED = {
    "Open MPI 4": "{0} detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n  Process name: [[5872,1],2]\n  Exit code:    3\n",
    "Open MPI 5": "{0} detected that one or more processes exited with non-zero status,\n"
    "thus causing the job to be terminated. The first process to do so was:\n\n"
    "   Process name: [prterun-node-1-257891@1,2]\n   Exit code:    3\n",
}


@pytest.mark.parametrize("version", EXITED)
@pytest.mark.parametrize("launcher", ["mpirun", "prterun"])
def test_the_process_that_mpirun_saw_exit_has_the_only_exception(tmp_path, launcher, version):
    found = verdict(tmp_path, STEPS + RAISED + RULE + EXITED[version].format(launcher) + RULE)
    assert (found.kind, found.ranks, found.line) == ("died", (2,), "/app/train.py:10 step")
    assert found.sure == "likely"


@pytest.mark.parametrize("others", [RAISED, LOST, RAISED.replace("bad label", "other")])
def test_the_process_that_mpirun_saw_exit_may_be_a_victim(tmp_path, others):
    """Its own words are not known among those of several."""
    found = verdict(tmp_path, STEPS + RAISED + others + RULE + EXITED["Open MPI 5"].format("prterun") + RULE)
    assert found.ranks == ()


def test_a_process_of_a_spawned_job_is_no_rank(tmp_path):
    box = EXITED["Open MPI 4"].format("mpirun").replace("5872,1", "5872,2")
    assert verdict(tmp_path, STEPS + RAISED + RULE + box + RULE).ranks == ()


@pytest.mark.parametrize("node", ["", " on node node-3"])
def test_a_box_that_breaks_off_accuses_no_rank(tmp_path, node):
    said = f"{RULE}prterun noticed that process rank 2 with PID 4711{node}\n{RULE}{RAISED}"
    found = verdict(tmp_path, said)
    assert (found.ranks, found.line) == ((), "/app/train.py:10 step")


NAMED = {
    "a line of the trainer": STARTED,
    "a rank in a line of that process": "(RankWorker pid=7012, ip=10.0.0.3) [rank2]:[W1120 x.cpp:1] gloo\n",
    "the world of the process": "(RankWorker pid=7012) Setting up process group for: env:// [rank=2, world_size=4]\n",
}


@pytest.mark.parametrize("how", NAMED)
def test_an_exception_in_rays_driver_is_the_workers_with_its_line(tmp_path, how):
    found = verdict(tmp_path, STEPS + NAMED[how] + DRIVER + remote() + REMOTE)
    assert (found.kind, found.ranks, found.line) == ("died", (2,), "/app/train.py:10 step")
    assert "ValueError: bad label" in found.cause


@pytest.mark.parametrize(
    "shown", ["RankWorker(rank=2)", "<RankWorker rank 2 of 4>", "<RankWorker(world_rank=2, local_rank=0)>"]
)
def test_the_rank_that_a_worker_shows_of_itself_is_its_rank(tmp_path, shown):
    found = verdict(tmp_path, STEPS + DRIVER + remote(repr_=shown) + REMOTE)
    assert (found.ranks, found.line) == ((2,), "/app/train.py:10 step")


@pytest.mark.parametrize(
    "shown", ["<train.RankWorker object at 0x7f1c>", "Worker(local_rank=2)", "Worker(node_rank=2)"]
)
def test_a_worker_of_ray_without_a_rank_is_not_named(tmp_path, shown):
    found = verdict(tmp_path, STEPS + DRIVER + remote(repr_=shown) + REMOTE)
    assert (found.kind, found.ranks, found.line) == ("died", (), "/app/train.py:10 step")
    assert "pid 7012 on 10.0.0.3" in found.cause


def test_the_pid_of_another_node_is_another_process(tmp_path):
    found = verdict(
        tmp_path, NAMED["a rank in a line of that process"].replace("0.3", "0.4") + DRIVER + remote() + REMOTE
    )
    assert found.ranks == ()


def test_a_worker_within_a_worker_is_the_one_that_raised(tmp_path):
    """Ray Tune's trial holds the trainer's words, which hold the worker's."""
    outer = remote(99, what="ray::_Inner.train()", repr_="TorchTrainer")
    trial = '  File "/opt/venv/lib/python3.11/site-packages/ray/tune/trainable/trainable.py", line 331, in train\n'
    found = verdict(tmp_path, STARTED + DRIVER + outer + trial + remote() + REMOTE)
    assert (found.ranks, found.line) == ((2,), "/app/train.py:10 step")


def test_what_ray_prints_of_an_error_that_no_driver_handled_is_read(tmp_path):
    said = (
        "2026-11-20 09:00:00,001\tERROR worker.py:405 -- Unhandled error (suppress with "
        "'RAY_IGNORE_UNHANDLED_ERRORS=1'): "
    )
    found = verdict(tmp_path, STARTED + said + remote().partition(": ")[2] + REMOTE)
    assert (found.ranks, found.line) == ((2,), "/app/train.py:10 step")


def test_the_creation_of_a_worker_that_fails_is_its_own_exception(tmp_path):
    said = "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, "
    found = verdict(
        tmp_path, STARTED + DRIVER + said + remote(what="ray::RankWorker.__init__()").partition(": ")[2] + REMOTE
    )
    assert (found.ranks, found.line) == ((2,), "/app/train.py:10 step")


@pytest.mark.parametrize("head", ["", "Traceback (most recent call last):\n"])
def test_ray_trains_list_of_errors_names_the_rank(tmp_path, head):
    found = verdict(
        tmp_path,
        f"{LISTED}[Rank 2 Error Snippet]:\n{head}{REMOTE}",
    )
    assert (found.ranks, found.line) == ((2,), "/app/train.py:10 step")


def test_ray_trains_list_of_several_errors_tells_own_from_following(tmp_path):
    lost = LOST.removeprefix("Traceback (most recent call last):\n")
    found = verdict(
        tmp_path,
        f"{LISTED}[Rank 0,1,3 Error Snippet]:\n{lost}[Rank 2 Error Snippet]:\n{REMOTE}",
    )
    assert (found.ranks, found.victims, found.line) == ((2,), (0, 1, 3), "/app/train.py:10 step")


def test_the_same_error_of_all_ranks_in_ray_trains_list_accuses_none(tmp_path):
    found = verdict(tmp_path, f"{STARTED}{LISTED}[Rank 0,1,2,3 Error Snippet]:\n{REMOTE}")
    assert (found.ranks, found.line) == ((), "/app/train.py:10 step")


@pytest.mark.parametrize("name", ["RayActorError", "ActorDiedError"])
def test_the_process_of_an_actor_that_died_is_named_without_rays_guesses(tmp_path, name):
    found = verdict(tmp_path, STARTED + died(name=name))
    assert (found.kind, found.ranks, found.sure) == ("died", (2,), "likely")
    assert "memory" not in found.cause
    assert "7012" in found.cause


def test_an_actor_that_died_without_a_rank_is_named_by_its_process(tmp_path):
    found = verdict(tmp_path, died())
    assert (found.kind, found.ranks, found.sure) == ("died", (), "unsure")
    assert "pid 7012 on 10.0.0.3" in found.cause


def test_an_actor_that_its_own_watchdog_ended_is_no_cause(tmp_path):
    waited = (
        "(RankWorker pid=7012, ip=10.0.0.3) [rank2]:[E1120 09:13:57.12 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID "
        "0(default_pg) Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
        "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
    )
    assert verdict(tmp_path, STARTED + waited + died()).ranks != (2,)


def test_of_several_actors_that_died_none_is_accused(tmp_path):
    assert verdict(tmp_path, STARTED + died() + died(7010)).ranks == ()


def test_a_worker_that_ray_killed_for_memory_is_named(tmp_path):
    said = (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Memory on the node (IP: 10.0.0.3, ID: 6416) where the task (actor ID: 4f48, name=RankWorker.fn, pid=7012, "
        "memory used=23.49GB) was running was 718.15GB / 755.24GB (0.950882), which exceeds the memory usage threshold "
        "of 0.95.\n"
    )
    found = verdict(tmp_path, STARTED + DRIVER + said)
    assert (found.kind, found.ranks) == ("died", (2,))
    assert "out of host memory" in found.cause


def test_the_file_of_a_rays_worker_is_of_its_process(tmp_path):
    (tmp_path / "worker-7c3e00ff-01000000-7012.err").write_text(f":job_id:01000000\n:actor_name:RankWorker\n{RAISED}")
    found = verdict(tmp_path, STARTED + LOST)
    assert (found.ranks, found.line) == ((2,), "/app/train.py:10 step")


def error_file(kind, text, line=10):
    stack = f'Traceback (most recent call last):\n  File "/app/train.py", line {line}, in step\n{kind}: {text}\n'
    return json.dumps(
        {"message": {"message": f"{kind}: {text}", "extraInfo": {"py_callstack": stack, "timestamp": "1"}}}
    )


def agents_table(rank, folder):
    return (
        f"{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n  <NO_OTHER_FAILURES>\n{'-' * 60}\n"
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-20_09:00:00\n  host      : gpu-b\n"
        f"  rank      : {rank} (local_rank: 1)\n  exitcode  : 1 (pid: 4121)\n  error_file: {folder}/1/error.json\n"
        f"  traceback : see the file\n{'=' * 60}\n"
    )


def test_an_error_file_is_of_the_rank_whose_table_names_it(tmp_path):
    place = "none_a1b2/attempt_0"
    for local, said in enumerate(
        (
            error_file("RuntimeError", "Connection closed by peer [10.0.0.2]:1", 30),
            error_file("ValueError", "bad label"),
        )
    ):
        path = tmp_path / "tmp" / place / str(local) / "error.json"
        path.parent.mkdir(parents=True)
        path.write_text(said)
    found = verdict(tmp_path, agents_table(5, f"/tmp/torchelastic_xyz/{place}"))
    assert (found.ranks, found.line) == ((5,), "/app/train.py:10 step")


def test_an_error_file_of_another_run_is_not_of_that_rank(tmp_path):
    path = tmp_path / "none_zzzz" / "attempt_0" / "1" / "error.json"
    path.parent.mkdir(parents=True)
    path.write_text(error_file("ValueError", "bad label"))
    found = verdict(tmp_path, agents_table(5, "/tmp/torchelastic_xyz/none_a1b2/attempt_0"))
    assert found.line == "/app/train.py:10 step"
    assert found.ranks == ()


def test_an_error_file_without_a_table_is_of_a_local_rank(tmp_path):
    path = tmp_path / "none_zzzz" / "attempt_0" / "1" / "error.json"
    path.parent.mkdir(parents=True)
    path.write_text(error_file("ValueError", "bad label"))
    found = verdict(tmp_path, STEPS)
    assert found.ranks == ()
    assert re.search("local rank 1 of its node", found.cause)


def composer(first, code, errors):
    """What Composer's launcher prints at the end of four ranks; ``errors``: what each has written."""
    text = (
        f"ERROR:composer.cli.launcher:Rank {first} crashed with exit code {code}.\n"
        "Waiting up to 30 seconds for all training processes to terminate. Press Ctrl-C to exit immediately.\n"
    )
    for rank in range(4):
        for kind, said in (("STDOUT", STEPS), ("STDERR", errors.get(rank, ""))):
            head = f"Global rank {rank} (PID {700 + rank}) exited with code {code if rank == first else -9}\n"
            text += f"{head}----------Begin global rank {rank} {kind}----------\n{said}"
            text += f"----------End global rank {rank} {kind}----------\n"
    return text + f"ERROR:composer.cli.launcher:Global rank 0 (PID 700) exited with code {-9 if first else code}\n"


def test_the_rank_that_composers_launcher_saw_crash_is_named_and_none_that_it_ended_itself(tmp_path):
    (tmp_path / "job.log").write_text(composer(2, -7, {}))
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks) == ("died", (2,))
    assert "SIGBUS" in found.cause


def test_what_composers_launcher_quotes_is_of_the_rank_in_its_title(tmp_path):
    (tmp_path / "job.log").write_text(composer(3, 1, {1: LOST, 3: RAISED}))
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks, found.line) == ("died", (3,), "/app/train.py:10 step")


@pytest.mark.parametrize(
    ("name", "daemons"),
    [
        ("ORTE", ("[[5234,0],0]", "[[5234,0],2]")),
        ("PRTE", ("[prterun-head-123@0,0]", "[prterun-head-123@0,2]")),
    ],
)
def test_the_node_that_mpirun_has_lost_is_named(tmp_path, name, daemons):
    head, remote_one = daemons
    text = (
        f"{RULE}{name} has lost communication with a remote daemon.\n\n  HNP daemon   : {head} on node head\n"
        f"  Remote daemon: {remote_one} on node worker-2\n\nThis is usually due to a failure of the TCP network\n"
        f"connection to the node, or possibly an internal failure of\nthe daemon itself. We cannot recover.\n{RULE}"
    )
    (tmp_path / "job.log").write_text(STEPS + text)
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks, found.nodes) == ("died", (), ("worker-2",))


def test_the_node_that_ray_has_given_up_is_named(tmp_path):
    text = (
        "(raylet) The node with node id: 8a7f and address: 10.0.0.7 and node name: 10.0.0.7 has been marked dead "
        "because the detector has missed too many heartbeats from it.\n"
    )
    (tmp_path / "job.log").write_text(text + RAISED.replace("ValueError: bad label", "ConnectionResetError: peer"))
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks, found.nodes) == ("died", (), ("10.0.0.7",))


def test_of_an_exception_group_the_exception_in_it_counts(tmp_path):
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/app/train.py", line 50, in main\n  |     raise ExceptionGroup("batch", errors)\n'
        "  | ExceptionGroup: batch (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
        '    | Traceback (most recent call last):\n    |   File "/app/train.py", line 44, in load\n'
        '    |     raise ValueError("bad shard")\n    | ValueError: bad shard\n    +-----------------------------\n'
    )
    (tmp_path / "job.log").write_text("".join(f"[rank1]: {line}\n" for line in text.splitlines()))
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks, found.line) == ("died", (1,), "/app/train.py:44 load")


def test_pdsh_puts_its_nodes_name_before_the_exception_as_well(tmp_path):
    """Of two nodes the one that raises is told with its line; what DeepSpeed's launcher says of it adds nothing."""
    text = "".join(f"worker-2: {line}\n" for line in RAISED.splitlines())
    killed = "worker-2: [2024-03-01 10:00:05,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 512\n"
    (tmp_path / "job.log").write_text(f"worker-1: step 10\n{text}{killed}")
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.line) == ("died", "/app/train.py:10 step")


@pytest.mark.parametrize(
    "said",
    [
        "subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.",
        "command terminated with exit code 137",
    ],
)
def test_a_command_that_a_signal_ended_is_told(tmp_path, said):
    (tmp_path / "job.log").write_text(f"{STEPS}{said}\n")
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks) == ("died", ())
    assert "was killed (SIGKILL)" in found.cause
    (tmp_path / "job.log").write_text(f"{STEPS}{said.replace('137', '1').replace('SIGKILL: 9', 'SIGTERM: 15')}\n")
    again = decide(read([str(tmp_path)], 1 << 30).statements)
    assert again is None or again.kind == "insufficient_data"


def test_a_node_of_ray_that_has_a_name_in_place_of_an_address(tmp_path):
    """As pods of Kubernetes have: the worker that raised is told with its node and process."""
    node = "train-worker-0.train.team.svc.cluster.local"
    text = (
        f"{DRIVER}ray.exceptions.RayTaskError(ValueError): ray::RankWorker.fn() (pid=7012, ip={node}, actor_id=3e, "
        f"repr=RankWorker(rank=2))\n{REMOTE}"
    )
    (tmp_path / "job.log").write_text(text)
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks, found.line) == ("died", (2,), "/app/train.py:10 step")


GLOO = (
    "terminate called after throwing an instance of 'gloo::IoException'\n"
    "  what():  [/g/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:54168\n"
)


def horovodrun(spoken, when=""):
    return "".join(f"{when}[{rank}]<stderr>:{line}\n" for rank, text in spoken.items() for line in text.splitlines())


@pytest.mark.parametrize("when", ["", "Fri Sep 11 07:07:20 2020", "Tue Sep  1 17:07:20 2020"])
def test_of_horovodruns_ranks_the_one_that_was_killed_is_named(tmp_path, when):
    """Who lost it aborts; it prints how each ended, and its lines have the time where it was asked for."""
    ended = "".join(f"Process {rank} exit with status code {code}.\n" for rank, code in ((0, 137), (2, 134), (1, 134)))
    found = verdict(tmp_path, horovodrun({0: "step 7", 1: GLOO, 2: GLOO}, when) + ended)
    assert (found.kind, found.ranks, found.sure) == ("died", (0,), "likely")
    found = verdict(tmp_path, horovodrun({0: "step 7", 1: RAISED, 2: GLOO}, when))
    assert (found.ranks, found.line, found.sure) == ((1,), "/app/train.py:10 step", "certain")


HOROVOD = (
    'Traceback (most recent call last):\n  File "/opt/bin/horovodrun", line 8, in <module>\n    sys.exit(run())\n'
    '  File "/opt/lib/python3.11/site-packages/horovod/runner/gloo_run.py", line 318, in launch_gloo\n'
    "    .format(name=name, code=exit_code))\n"
    "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be "
    "terminated. The first process to do so was:\n"
)


def test_whom_horovodrun_saw_end_first_is_named_and_its_own_traceback_is_none_of_a_ranks(tmp_path):
    found = verdict(tmp_path, f"{horovodrun({1: GLOO})}{HOROVOD}Process name: 3\nExit code: 137\n")
    assert (found.kind, found.ranks) == ("died", (3,))
    assert "SIGKILL" in found.cause
    found = verdict(tmp_path, f"{HOROVOD}Process name: worker-1[2]\nExit code: 137\n")
    assert (found.kind, found.ranks, found.line) == ("died", (), None)
    assert found.cause.startswith("local rank 2 on worker-1 was killed (SIGKILL)")


def test_what_accelerates_test_prints_of_its_launcher_is_read(tmp_path):
    """It puts the stream's name before each line."""
    table = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2023-08-03_06:35:35\n  host      : n1\n"
        "  rank      : 2 (local_rank: 2)\n  exitcode  : -7 (pid: 1318)\n  error_file: <N/A>\n"
        "  traceback : Signal 7 (SIGBUS) received by PID 1318\n=====\n"
    )
    found = verdict(tmp_path, "".join(f"stderr: {line}\n" for line in table.splitlines()))
    assert (found.kind, found.ranks) == ("died", (2,))


@pytest.mark.parametrize("speaks", ["[1,{0}]<stdout>:", "[rank{0}]: ", ""])
def test_ranks_that_have_chosen_one_gpu_are_the_programs_fault(tmp_path, speaks):
    """NCCL refuses it at each; what a rank raises then is no failure of its own."""
    said = "smc-gpu-03:2988{0}:30398 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank {0} and rank {1} both on "
    pairs = ((2, 0), (4, 0), (0, 1))
    log = "".join(speaks.format(one) + said.format(one, other) + "CUDA device 1000\n" for one, other in pairs)
    raised = RAISED.replace("ValueError: bad label", "RuntimeError: ncclCommInitRank failed: invalid usage")
    found = verdict(tmp_path, log + "".join(f"{speaks.format(0)}{line}\n" for line in raised.splitlines()))
    assert (found.kind, found.ranks, found.victims, found.sure) == ("died", (), (0, 1, 2, 4), "likely")
    assert "ranks 0-2 and 4 of a group have chosen one GPU (1000, by PCI bus)" in found.cause


ENDS = "srun: launch/slurm: _step_signal: Terminating StepId=812.0\n"
CANCELLED = "slurmstepd: error: *** STEP 812.0 ON node-1 CANCELLED AT 2026-11-30T09:20:00 ***\n"


@pytest.mark.parametrize("others", ["Killed", "Terminated"])
@pytest.mark.parametrize(
    "stop", [ENDS, "", "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"]
)
def test_tasks_that_srun_ended_did_not_crash_first(tmp_path, stop, others):
    """It kills the others once one has crashed, by SIGKILL where they do not end."""
    crashed = "srun: error: node-1: task 3: Segmentation fault (core dumped)\n"
    found = verdict(tmp_path, f"{crashed}{stop}srun: error: node-1: tasks 0-2: {others}\n")
    assert (found.kind, found.ranks, found.victims, found.nodes) == ("died", (3,), (0, 1, 2), ("node-1",))


def test_a_task_that_was_killed_before_srun_ended_the_others_is_named(tmp_path):
    killed = "srun: error: node-1: task 3: Killed\n"
    found = verdict(tmp_path, f"{killed}{ENDS}srun: error: node-1: tasks 0-2: Killed\n")
    assert (found.kind, found.ranks) == ("died", (3,))
    assert verdict(tmp_path, f"{ENDS}srun: error: node-1: tasks 0-2: Killed\n{killed}").ranks == ()


def test_the_first_task_that_failed_is_reported_though_not_why_it_did(tmp_path):
    """Slurm says that the step was cancelled: by srun, because of that task."""
    exited = "srun: error: node-1: task 3: Exited with exit code 1\n"
    found = verdict(tmp_path, f"{exited}{ENDS}{CANCELLED}srun: error: node-1: tasks 0-2: Terminated\n")
    assert (found.kind, found.ranks) == ("insufficient_data", ())
    assert "rank 3 ended with exit code 1 before the launcher ended the others" in found.cause
    assert "rank 3" in found.next
    alone = verdict(tmp_path, f"{CANCELLED}srun: error: node-1: tasks 0-3: Terminated\n")
    assert "ended from outside: cancelled" in alone.cause


@pytest.mark.parametrize(
    ("first", "last", "ranks"),
    [
        ("died from signal 11 and dumped core", "died from signal 15", (96,)),
        ("died from signal 11", "died from signal 9", (96,)),
        ("died from signal 9", "died from signal 15", (96,)),
        ("died from signal 6", "died from signal 15", ()),
        ("exited with code 1", "died from signal 15", ()),
    ],
)
@pytest.mark.parametrize("host", ["x3102c0s25b1n0.hsn.example.org: ", ""])
def test_hpes_mpiexec_says_which_process_ended_first(tmp_path, host, first, last, ranks):
    """An abort, or an exit code of Python's, may follow from another rank's end; the last one is ended by mpiexec."""
    found = verdict(tmp_path, f"{STEPS}{host}rank 96 {first}\n{host}rank 99 {last}\n")
    assert found.ranks == ranks
    assert "rank 96" in found.cause
    assert found.nodes == (("x3102c0s25b1n0.hsn.example.org",) if host and ranks else ())


def test_a_task_whose_signal_only_its_nodes_daemon_reports_is_named(tmp_path):
    found = verdict(tmp_path, f"{STEPS}slurmstepd: error: get_exit_code task 3 died by signal: 9\n")
    assert (found.kind, found.ranks) == ("died", (3,))


@pytest.mark.parametrize("signal", ["1", "Signals.SIGHUP"])
def test_a_closed_terminal_is_said_as_such(tmp_path, signal):
    agent = (
        f"WARNING:torch.distributed.elastic.agent.server.api:Received {signal} death signal, shutting down workers\n"
    )
    found = verdict(tmp_path, STEPS + agent)
    assert (found.kind, found.ranks) == ("died", ())
    assert "SIGHUP, as when the terminal" in found.cause
    assert "nohup" in found.next


def test_a_cancel_by_its_user_is_one_though_srun_ends_the_step_before_it_is_reported(tmp_path):
    """As Slurm 22.05 writes it: nobody had failed before."""
    aborted = "srun: Job step aborted: Waiting up to 12 seconds for job step to finish.\n"
    found = verdict(tmp_path, f"{STEPS}{aborted}{CANCELLED}srun: error: node-1: tasks 0-2: Killed\n")
    assert found.ranks == ()
    assert "ended from outside: cancelled" in found.cause


@pytest.mark.parametrize(("signal", "word"), [(11, "SIGSEGV"), (9, "SIGKILL")])
def test_mpichs_box_says_how_a_process_ended_and_not_which(tmp_path, signal, word):
    """Its process may be one that it has killed itself: the code is that one's."""
    name = {11: "Segmentation fault", 9: "Killed"}[signal]
    box = (
        f"\n{'=' * 83}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 14411 RUNNING AT node-1\n"
        f"=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES\n"
        f"{'=' * 83}\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: {name} (signal {signal})\n"
    )
    found = verdict(tmp_path, STEPS + box)
    assert (found.kind, found.ranks, found.sure) == ("died", (), "unsure")
    assert f"a process of the job {'crashed' if signal == 11 else 'was killed'} ({word})" in found.cause
    assert "14411" not in found.cause


def test_the_first_that_mpirun_saw_end_is_reported_with_its_code(tmp_path):
    found = verdict(tmp_path, STEPS + RULE + EXITED["Open MPI 4"].format("mpirun") + RULE)
    assert found.ranks == ()
    assert "rank 2 ended with exit code 3 before the launcher ended the others" in found.cause


def test_the_first_that_failed_stands_before_the_others_and_lost_no_peer(tmp_path):
    """Else it is one of them, for all that the log says."""
    exited, ended = (
        "srun: error: node-1: task 3: Exited with exit code 1\n",
        "srun: error: node-1: tasks 0-2: Terminated\n",
    )
    lost = "".join(f"3: {line}\n" for line in LOST.splitlines())
    for log in (ended + exited, lost + exited + ended):
        found = verdict(tmp_path, log)
        assert "before the launcher" not in found.cause
        assert found.ranks == ()


@pytest.mark.parametrize(
    "killed",
    [
        "slurmstepd: error: get_exit_code task 1 died by signal: 9\n",
        "x1.hsn: rank 1 died from signal 9\nx1.hsn: rank 0 died from signal 15\n",
        "srun: error: node-1: task 1: Killed\n",
    ],
)
def test_what_is_killed_behind_a_cancel_is_not_accused(tmp_path, killed):
    found = verdict(tmp_path, STEPS + CANCELLED + killed)
    assert found.ranks == ()
    assert "ended from outside: cancelled" in found.cause


def test_no_launcher_runs_out_of_memory_for_a_task(tmp_path):
    counted = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=812.0. Some of the step tasks have been OOM Killed.\n"
    )
    tasks = "srun: error: node-1: task 3: Out Of Memory\nsrun: error: node-1: tasks 0-2: Terminated\n"
    found = verdict(tmp_path, counted + ENDS + tasks)
    assert (found.kind, found.ranks) == ("died", (3,))
    assert "out of host memory" in found.cause


def test_a_crash_of_another_program_or_in_an_earlier_step_excuses_no_kill(tmp_path):
    shell = "run.sh: line 3:  4242 Segmentation fault      (core dumped) nvtop --once > /tmp/before.txt\n"
    assert verdict(tmp_path, f"{shell}{STEPS}srun: error: node-1: task 3: Killed\n").ranks == (3,)
    failed = f"srun: error: node-1: task 0: Exited with exit code 1\n{ENDS}"
    again = f"{STEPS}srun: error: node-1: task 3: Killed\n{ENDS.replace('812.0', '812.1')}"
    over = f"{CANCELLED}srun: error: node-1: tasks 1-3: Terminated\nsrun: Force Terminated StepId=812.0\n"
    assert verdict(tmp_path, f"{failed}{over}{again}srun: error: node-1: tasks 0-2: Terminated\n").ranks == (3,)
    found = verdict(tmp_path, f"{failed}{again}srun: error: node-1: tasks 0-2: Killed\n")
    assert "rank 0 ended with exit code 1 before" not in found.cause
    assert found.ranks == ()


def test_a_rank_that_torchrun_saw_end_seconds_before_another_is_the_first(tmp_path):
    """Its table lists the first one last, and with its time."""
    table = "".join(
        f"{head}\n[{number}]:\n  time      : 2026-11-30_12:00:{second}\n  host      : node-1\n"
        f"  rank      : {number} (local_rank: {number})\n  exitcode  : {code} (pid: {100 + number})\n"
        "  error_file: <N/A>\n"
        for head, number, second, code in (
            ("Failures:", 0, "09", -11),
            ("-" * 60 + "\nRoot Cause (first observed failure):", 1, "00", -9),
        )
    )
    found = verdict(tmp_path, f"{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\n{table}{'=' * 60}\n")
    assert (found.kind, found.ranks, found.victims) == ("died", (1,), (0,))
    found = verdict(tmp_path, f"{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\n{table.replace('00:09', '00:00')}{'=' * 60}\n")
    assert (found.ranks, found.sure) == ((0, 1), "unsure")
    assert "rank 0 crashed (SIGSEGV); rank 1 was killed (SIGKILL)" in found.cause


@pytest.mark.parametrize("ended", [-12, 1])
def test_a_limit_that_lsf_reports_below_the_output_decides(tmp_path, ended):
    agent = (
        f"E1130 12:00:00.200000 900 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {ended}) "
        "local_rank: 0 (pid: 100) of binary: /usr/bin/python\n"
    )
    found = verdict(tmp_path, f"{STEPS}{agent}TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n")
    assert "the time limit of the job" in found.cause
