"""A job that was started again: its last attempt counts, and those before only where that says nothing.

What it assumes: torchrun's agent writes one line an attempt of the rank that failed, with the number of its process
(PyTorch 2.4 and newer); a rank introduces itself once an attempt; each attempt has a folder of its own.
"""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

LOST = "RuntimeError: [/g/gloo/transport/tcp/pair.cc:561] Connection closed by peer [10.0.0.2]:1234."


def raised(rank, error="ValueError: first", line=10, prefix="[default{0}]:[rank{0}]: "):
    said = ["Traceback (most recent call last):", f'  File "/app/train.py", line {line}, in step', "    work()", error]
    return "".join(f"{prefix.format(rank)}{one}\n" for one in said)


def agent(local, pid, number=7500, code=1):
    """What torchrun's agent writes of the first rank of its node to fail."""
    return (
        f"E1127 07:19:27.975000 {number} torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        f"(exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /opt/venv/bin/python\n"
    )


def table(*rows, host="node-0"):
    """Torchrun's table; the last row is the first exit."""

    def row(rank, code, pid):
        return (
            f"[0]:\n  time      : 2026-11-27_07:19:41\n  host      : {host}\n"
            f"  rank      : {rank} (local_rank: {rank})\n"
            f"  exitcode  : {code} (pid: {pid})\n  error_file: <N/A>\n  traceback : none\n"
        )

    rule = "-" * 60
    others, first = "".join(row(*one) for one in rows[:-1]), row(*rows[-1])
    title = f"{'=' * 60}\njob.py FAILED\n{rule}\nFailures:\n"
    return f"{title}{others}{rule}\nRoot Cause (first observed failure):\n{first}{'=' * 60}\n"


FIRST = raised(1) + raised(0, LOST, 30) + agent(1, 7632)
SECOND = raised(3, "KeyError: 'second'", 20) + raised(0, LOST, 30) + agent(3, 7801)


def verdict(folder, text="", **files):
    for name, said in files.items() if files else [("job.log", text)]:
        path = folder / name.replace("__", "/")
        path = path if path.suffix else path.with_name(f"{path.name}.log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said)
    return decide(read([str(folder)], 1 << 30).statements)


@pytest.mark.parametrize("end", ["", table((0, -15, 7798), (3, 1, 7801))], ids=["no table", "table"])
def test_the_last_attempt_counts(tmp_path, end):
    found = verdict(tmp_path, FIRST + SECOND + end)
    assert (found.kind, found.ranks, found.line, found.sure) == ("died", (3,), "/app/train.py:20 step", "certain")
    assert "first" not in found.cause


def test_where_the_last_attempt_says_too_little_that_before_is_told_beside_it(tmp_path):
    """Its rank is not accused of how the last one ended."""
    lost = raised(0, LOST, 30) + raised(2, LOST, 30) + agent(0, 7798)
    found = verdict(tmp_path, FIRST + lost)
    assert (found.kind, found.ranks) == ("insufficient_data", ())
    assert "the attempt before ended so: rank 1: ValueError: first at /app/train.py:10 step" in found.cause


def test_where_the_last_attempt_went_well_the_one_before_is_named(tmp_path):
    said = f"{FIRST}[default] Worker group FAILED. 1/1 attempts left; will restart worker group\n" + "step 1\n" * 9
    found = verdict(tmp_path, said)
    assert (found.kind, found.ranks, found.line) == ("died", (1,), "/app/train.py:10 step")
    assert "started again" in found.cause


@pytest.mark.parametrize(
    "mark",
    [
        "[default] Worker group FAILED. 1/1 attempts left;  will restart worker group\n",
        "[default] Detected 1 new nodes from group_rank=0; will restart worker group\n",
    ],
)
def test_what_the_agent_says_divides_attempts(tmp_path, mark):
    """Its line of the failed rank has no number before PyTorch 2.4."""
    old = "[2026-11-20 10:00:00,123] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1) "
    first = f"{raised(1)}{old}local_rank: 1 (pid: 7632) of binary: /usr/bin/python\n"
    assert verdict(tmp_path, first + mark + SECOND).ranks == (3,)


def test_two_agents_in_one_log_are_one_attempt(tmp_path):
    """Two nodes: each agent has a number of its own, and either rank may be the first."""
    first = raised(1) + agent(1, 7632, number=7500)
    found = verdict(tmp_path, first + raised(3, "KeyError: 'second'", 20) + agent(1, 7632, number=8100))
    assert (found.ranks, found.sure) == ((1, 3), "unsure")


def test_an_agents_line_that_the_log_has_twice_is_one(tmp_path):
    said = "".join(f"{line}\n{line}\n" for line in (raised(1) + agent(1, 7632)).splitlines())
    found = verdict(tmp_path, said)
    assert (found.ranks, "again" in found.cause) == ((1,), False)


@pytest.mark.parametrize(("pid", "ranks"), [(9001, (3,)), (7601, (1, 3))], ids=["another process", "the same"])
def test_a_rank_that_is_listed_as_ended_with_another_process_was_started_again(tmp_path, pid, ranks):
    """As by a loop around torchrun, whose agents have numbers of their own."""
    first = raised(1) + table((0, -15, 7600), (1, 1, 7601))
    second = raised(3, "KeyError: 'second'", 20) + table((0, -15, 7600 if pid == 7601 else 9000), (1, -15, pid))
    assert verdict(tmp_path, first + second).ranks == ranks


@pytest.mark.parametrize("ends", [raised(0, "KeyError: 'x'"), "*** JOB 7 ON n1 CANCELLED AT T DUE TO PREEMPTION ***\n"])
@pytest.mark.parametrize(
    "own", ["Initializing distributed: GLOBAL_RANK: {0}, MEMBER: {1}/2", "Process rank: {0}, device: cuda:{0}"]
)
def test_ranks_that_introduce_themselves_once_more_were_started_again(tmp_path, ends, own):
    """As where the scheduler started the job again, and its log goes on."""
    begun = "".join(f"{own.format(rank, rank + 1)}\n" for rank in range(2))
    found = verdict(tmp_path, begun + ends + begun + raised(1, prefix="[rank{0}]: "))
    assert (found.kind, found.ranks) == ("died", (1,))


def test_a_rank_that_introduces_itself_twice_before_anything_failed_is_in_one_attempt(tmp_path):
    begun = "Process rank: 0, device: cuda:0\n" * 2
    found = verdict(tmp_path, begun + raised(1) + "Process rank: 1, device: cuda:1\n" + raised(0, "KeyError: 'x'"))
    assert (found.ranks, found.sure) == ((0, 1), "unsure")


def test_of_the_folders_of_a_run_the_last_attempt_counts(tmp_path):
    """Another run's folder has attempts of its own."""
    said = {
        "logs__a_x1__attempt_0__1__stderr": raised(1, prefix="[rank{0}]: "),
        "logs__a_x1__attempt_1__3__stderr": raised(3, "KeyError: 'second'", 20, prefix="[rank{0}]: "),
        "logs__b_x2__attempt_0__0__stderr": raised(4, LOST, prefix="[rank{0}]: "),
    }
    found = verdict(tmp_path, **said)
    assert (found.ranks, found.victims) == ((3,), (4,))


def test_what_other_files_say_is_of_the_last_attempt(tmp_path):
    """A kernel's log has no attempts; the processes of those before are not the last one's ranks."""
    first = raised(0, LOST, 30) + agent(1, 7632) + "\n"
    kernel = "[1.0] Memory cgroup out of memory: Killed process 9001 (python) total-vm:1kB\n"
    said = first + raised(0, LOST, 30) + agent(1, 9001, code=-9) + table((0, -15, 9000), (1, -9, 9001))
    found = verdict(tmp_path, **{"job.log": said, "node-0.kernel.log": kernel})
    assert (found.kind, found.ranks, found.sure) == ("died", (1,), "certain")
