"""Files as they come: packed, cut, through a pipe."""

import gzip
import os
import random
import sys

import pytest
import zstandard

from postmortem.deciding.decide import decide
from postmortem.reading.file_names import node_in_name, rank_in_name
from postmortem.reading.files import read

DIED = (
    "[rank2]: Traceback (most recent call last):\n"
    '[rank2]:   File "/app/train.py", line 10, in step\n'
    "[rank2]: ValueError: bad label\n"
)
NOISE = "".join(f"[rank{n % 4}]: step {n} loss {random.Random(n).random()}\n" for n in range(9000))


@pytest.fixture
def standard_input(monkeypatch, tmp_path):
    (tmp_path / "given").touch()
    with (tmp_path / "given").open() as source:
        monkeypatch.setattr("sys.stdin", source)
        yield (tmp_path / "given").write_bytes


@pytest.mark.long
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_standard_input_is_read_packed_or_not(standard_input, pack):
    standard_input(pack((NOISE + DIED).encode()))
    found = read(["-"], 1 << 30)
    assert decide(found.statements).ranks == (2,)
    assert found.notes == []
    assert os.fstat(sys.stdin.fileno()).st_size  # It is still open.


def test_standard_input_may_be_a_stack(standard_input):
    """Whatever a file may be, not only a log."""
    standard_input(
        b"Process 7: python train.py\nPython v3.11.7 (/usr/bin/python)\n\n"
        b'Thread 7 (idle): "MainThread"\n    load (/app/train.py:9)\n'
    )
    (stack, *_) = read(["-"], 1 << 30).statements
    assert stack.pid == 7


@pytest.mark.long
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_packed_log_that_is_cut_says_what_comes_before_the_cut(tmp_path, pack):
    packed = pack((DIED + NOISE).encode())
    (tmp_path / f"job.log{'.gz' if packed[:1] == bytes([31]) else '.zst'}").write_bytes(packed[: len(packed) // 2])
    found = read([str(tmp_path)], 1 << 30)
    assert decide(found.statements).ranks == (2,)
    if pack is gzip.compress:
        (note,) = found.notes
        assert "cut off" in note


@pytest.mark.long
@pytest.mark.parametrize("nuls", [1, 8192, 70_000, 1 << 17])
def test_a_log_that_was_emptied_while_its_job_wrote_on_is_read(tmp_path, nuls):
    """As logrotate's copytruncate does: where the job's next line goes there are NULs before it."""
    (tmp_path / "job.log").write_bytes(b"\x00" * nuls + DIED.encode())
    found = read([str(tmp_path)], 1 << 30)
    assert (decide(found.statements).ranks, found.notes) == ((2,), [])


def test_binary_files_are_left_out_and_that_is_noted(tmp_path):
    """In one note, however many there are."""
    for name in ("a.db", "b.db", "c.db"):
        (tmp_path / name).write_bytes(b"SQLite format 3\x00" * 9)
    (tmp_path / "job.log").write_text(DIED)
    found = read([str(tmp_path)], 1 << 30)
    assert (decide(found.statements).ranks, found.files) == ((2,), 1)
    assert found.notes == [f"{tmp_path / 'a.db'} and 2 other files: binary, no log; left out"]


def test_a_bomb_is_read_to_the_bound_and_says_so(tmp_path):
    (tmp_path / "job.log.gz").write_bytes(gzip.compress((DIED + NOISE).encode()))
    found = read([str(tmp_path)], 300_000)
    assert decide(found.statements).ranks == (2,)
    assert "--most-unpacked" in found.notes[0]


@pytest.mark.slow
def test_a_silent_rank_among_4096_is_known_from_its_lines_before(tmp_path):
    """All write into one log, so that each one's first line may come late in it."""
    steps = "".join(f"[rank{rank}]: step {step} loss 0.5 {'.' * 100}\n" for step in range(2) for rank in range(4096))
    waited = (
        "[rank{0}]:[E1120 09:13:57.12 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
    )
    (tmp_path / "job.log").write_text(
        steps + "".join(waited.format(rank) for rank in range(4096) if rank != 4090) + "terminate called\n"
    )
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks) == ("hang", (4090,))


@pytest.mark.slow
@pytest.mark.parametrize("pid", [0, 4242])
@pytest.mark.parametrize("launcher", ["mpirun", "orterun"])
def test_the_process_that_mpirun_saw_killed_is_named(tmp_path, launcher, pid):
    steps = "".join(f"[1,{rank}]<stdout>:step 10\n" for rank in range(4)) * 9000
    (tmp_path / "job.log").write_text(
        f"{steps}{'-' * 74}\n{launcher} noticed that process rank 1 with PID {pid} on node node-4 exited on signal 9 "
        f"(Killed).\n{'-' * 74}\n"
    )
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.kind, found.ranks, found.nodes) == ("died", (1,), ("node-4",))
    assert "SIGKILL" in found.cause


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.log", 3),
        ("node1_rank9.log", 9),
        ("local_rank1.log", None),
        ("node_rank1.log", None),
        ("group-rank2", None),
    ],
)
def test_a_number_on_a_node_or_of_a_node_is_no_rank(name, rank):
    assert rank_in_name(f"logs/{name}") == rank


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("dmesg-node-3.txt", "node-3"),
        ("dmesg_node-3.txt", "node-3"),
        ("node-3.dmesg.txt", "node-3"),
        ("journal-gpu-07.log", "gpu-07"),
        ("kern-gpu07.log", "gpu07"),
        ("slurmd.node-3.log", "node-3"),
        ("messages-20261120.txt", ""),
        ("slurm-llama7b-70.out", ""),
        ("kernel.log", ""),
    ],
)
def test_the_kind_of_a_nodes_log_is_no_part_of_its_name(name, node):
    """As the documentation calls one, and as a job's own output is called."""
    assert node_in_name(f"logs/{name}") == node


def test_a_kill_in_the_kernels_log_of_a_node_is_that_of_its_rank(tmp_path):
    """The launcher's table and the file's name say the same node."""
    table = "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-20_09:13:57\n  host      : node-3\n"
    table += "  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 41377)\n  error_file: <N/A>\n" + "=" * 60
    (tmp_path / "job.log").write_text(f"{table}\n")
    (tmp_path / "dmesg-node-3.txt").write_text("[9.1] Out of memory: Killed process 41377 (python) total-vm:1kB\n")
    found = decide(read([str(tmp_path)], 1 << 30).statements)
    assert (found.ranks, found.nodes, found.sure) == ((1,), ("node-3",), "certain")
