"""What JAX's coordinator and NVIDIA's monitors of ranks say of processes that they miss. Who says so only waited."""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

TASK = "/job:jax_worker/replica:0/task:{}"
FATAL = (
    "F1130 09:20:32.075587 4711 client.h:77] Terminating process because the JAX distributed service detected fatal "
    "errors. This most likely indicates that another task died; see the other task logs for more details. absl::Status:"
    " UNAVAILABLE: "
)
SILENT = "The following tasks are unhealthy (stopped sending heartbeats):"
OVER = "The tasks have crashed. Check the task logs for an earlier error, or scheduler events to debug further.\n"
LOST = f"{FATAL}Failed to send RPC to coordination service. Either the leader task died or restarted.\n"
RAISED = (
    'Traceback (most recent call last):\n  File "/app/train.py", line 75, in save\n'
    '    client.wait_at_barrier("checkpoint", 600000)\njaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: '
)
BARRIERS = {
    "since 2024": "Barrier timed out. Id: checkpoint.0.1. This usually happens because a task triggered the barrier "
    "too early or too slowly. Please look at the task logs.\n# of tasks that reached the barrier: 7/8.\n"
    "The first task at the barrier: /job:jax_worker/replica:0/task:5. Some timed out task names:\n",
    "before": "Barrier timed out. Barrier_id: checkpoint.0.1. Timed out task names:\n",
}


def verdict(folder, text):
    (folder / "job.log").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


def tasks(*numbers):
    return "".join(f"{TASK.format(number)}\n" for number in numbers)


def labelled(rank, text):
    return "".join(f"{rank}: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "said",
    [
        f"{FATAL}{SILENT}\n{tasks(3)}{OVER}",
        f"{FATAL}{SILENT} {tasks(3)}{OVER}",
        f"2026-11-30 09:20:31.140058: E xla/coordination_service.cc:954] {TASK.format(3)} has been set to ERROR in "
        f"coordination service: UNAVAILABLE: Task {TASK.format(3)} heartbeat timeout. This indicates that the remote "
        "task has failed, got preempted, or crashed unexpectedly.\n",
    ],
    ids=["a list", "in one line", "older"],
)
@pytest.mark.parametrize("rank", [None, 0])
def test_the_process_without_a_heartbeat_is_named(tmp_path, said, rank):
    found = verdict(tmp_path, said if rank is None else labelled(rank, said))
    assert (found.kind, found.ranks, found.sure) == ("died", (3,), "likely")
    assert "no heartbeat of process 3: dead, preempted, or too busy" in found.cause


def test_one_that_reports_its_own_death_was_alive(tmp_path):
    """A busy process sends no heartbeat, and ends when the coordinator says that it is dead."""
    said = f"{FATAL}{SILENT}\n{tasks(3)}{OVER}"
    found = verdict(tmp_path, labelled(0, said) + labelled(3, said))
    assert (found.kind, found.ranks, found.victims, found.sure) == ("hang", (3,), (0,), "unsure")
    assert "was alive, and too busy to send any" in found.cause


def test_one_that_lost_its_peers_does_not_report_its_own_death(tmp_path):
    lost = labelled(
        3, f"{FATAL}Failed to send RPC to coordination service. Either the leader task died or restarted.\n"
    )
    found = verdict(tmp_path, lost + labelled(0, f"{FATAL}{SILENT}\n{tasks(3)}{OVER}"))
    assert (found.kind, found.ranks) == ("died", (3,))
    assert "alive" not in found.cause


@pytest.mark.parametrize("said", [f"{FATAL}{SILENT}\n{tasks(1, 2)}{OVER}", RAISED + BARRIERS["before"] + tasks(1)])
def test_a_process_whose_end_is_reported_says_more(tmp_path, said):
    """Also behind a barrier that timed out long before."""
    crashed = "srun: error: node-1: task 2: Segmentation fault (core dumped)\n"
    found = verdict(tmp_path, said + "step\n" * 900 + crashed)
    assert (found.kind, found.ranks) == ("died", (2,))


def test_the_process_with_the_coordinator_is_named_where_all_others_lost_it(tmp_path):
    found = verdict(tmp_path, labelled(0, "step 1\n") + labelled(1, LOST) + labelled(2, LOST))
    assert (found.kind, found.ranks, found.victims, found.sure) == ("died", (0,), (1, 2), "unsure")
    assert "processes 1 and 2 no longer reached JAX's coordinator" in found.cause


@pytest.mark.parametrize("rank", [None, 0])
def test_it_is_not_where_it_reports_the_same_or_nobody_is_known(tmp_path, rank):
    """Its own network may be gone; and without ranks it may be its own line."""
    assert verdict(tmp_path, LOST if rank is None else labelled(0, LOST) + labelled(1, LOST)).ranks == ()


def test_of_many_none_is_accused(tmp_path):
    found = verdict(tmp_path, f"{FATAL}{SILENT}\n{tasks(3, 4, 5)}{OVER}")
    assert (found.ranks, found.victims) == ((), (3, 4, 5))


def test_its_own_exception_says_more(tmp_path):
    own = labelled(3, 'Traceback (most recent call last):\n  File "/app/train.py", line 9, in step\nValueError: bad\n')
    found = verdict(tmp_path, own + labelled(0, f"{FATAL}{SILENT}\n{tasks(3)}{OVER}"))
    assert (found.kind, found.ranks, found.line) == ("died", (3,), "/app/train.py:9 step")


@pytest.mark.parametrize("version", BARRIERS)
@pytest.mark.parametrize("prefix", ["", "[rank2]: ", " 2: "])
def test_who_did_not_come_to_a_barrier_is_named_and_not_who_waited_there(tmp_path, version, prefix):
    said = f"{RAISED}{BARRIERS[version]}{tasks(6)}\nRPC: /tensorflow.CoordinationService/Barrier\n"
    found = verdict(tmp_path, "".join(f"{prefix}{line}\n" for line in said.splitlines()))
    assert (found.kind, found.ranks, found.sure) == ("hang", (6,), "likely")
    assert found.cause == "process 6 did not come to JAX's barrier checkpoint.0.1"
    assert found.others_line == "/app/train.py:75 save"


def test_where_many_did_not_come_none_is_accused(tmp_path):
    found = verdict(tmp_path, RAISED + BARRIERS["before"] + tasks(1, 4, 6))
    assert (found.kind, found.ranks, found.victims) == ("hang", (), (1, 4, 6))


def test_a_list_that_is_cut_off_or_of_something_else_is_no_harm(tmp_path):
    """The first at a barrier is no late one; lines behind the list are none of it."""
    cut = BARRIERS["since 2024"].rpartition("Some")[0]
    said = f"{RAISED}{cut}\n{tasks(1)}{FATAL}{SILENT}\nI1130 training goes on\n{tasks(2)}"
    found = verdict(tmp_path, said)
    assert found.ranks == ()


def test_who_waited_for_nccl_in_xla_is_not_accused(tmp_path):
    said = (
        'Traceback (most recent call last):\n  File "/app/train.py", line 9, in step\njaxlib.xla_extension.'
        "XlaRuntimeError: INTERNAL: NCCL operation ncclAllReduce(send, recv, count, dtype, op, comm, stream) failed: "
        "unhandled system error (run with NCCL_DEBUG=INFO for details).\n"
    )
    found = verdict(tmp_path, labelled(3, said))
    assert (found.ranks, found.victims) == ((), (3,))


MONITORS = ["[WARNING] [RankMonitorServer:{}]", "[2026-11-30 09:20:32,075] [WARNING] [RankMonServer4711@node-1:{}]"]


@pytest.mark.parametrize("monitor", MONITORS, ids=["older", "newer"])
def test_ranks_whose_monitors_had_no_heartbeat_are_listed_and_not_accused(tmp_path, monitor):
    """All ranks of a hang come to a stop, the one that the others wait for and those that wait."""
    said = "".join(
        f"{monitor.format(rank)} Did not get subsequent heartbeat. Waited 171.92 seconds.\n" for rank in (34, 58)
    )
    agent = (
        "W1130 09:20:33.075000 4700 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4711 closing "
        "signal SIGTERM\n"
    )
    found = verdict(tmp_path, said + agent)
    assert (found.kind, found.ranks, found.victims, found.sure) == ("hang", (), (34, 58), "unsure")
    assert "made no progress for 171.92 s" in found.cause
    own = labelled(58, 'Traceback (most recent call last):\n  File "/app/train.py", line 9, in step\nValueError: bad\n')
    assert verdict(tmp_path, own + said + agent).ranks == (58,)
