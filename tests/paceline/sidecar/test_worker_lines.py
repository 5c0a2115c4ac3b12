"""Where the workers of a data loader hang, and what is said where that cannot be read."""

import json
import subprocess
import sys

import msgspec
import pytest

from paceline.sidecar.look_verdict import ProcessLook, WorkerLine
from paceline.sidecar.looks import Looks
from paceline.sidecar.worker_lines import (
    FAILED,
    LONGEST_S,
    MOST_WAITING_RANKS,
    MOST_WORKERS,
    NO_PY_SPY,
    NOT_ALLOWED,
    Dump,
    WorkerLines,
    worker_line,
)
from paceline.training.look_messages import LONGEST_FRAME, Looked

JOB = ("train", 0)
LOOP = ("_worker_loop", "/env/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", 375)
FETCH = ("fetch", "/env/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", 54)
WAITS = ("wait", "/usr/lib/python3.11/multiprocessing/connection.py", 947)
READS = ("Images.__getitem__", "/home/u/job/dataset.py", 54)


def dump(*frames):
    return json.dumps(
        [{"pid": 7, "frames": [{"name": name, "filename": file, "line": line} for name, file, line in frames]}]
    ).encode()


HANGS = dump(READS, FETCH, LOOP)


class Reads:
    """One py-spy that ends when told to."""

    def __init__(self, pid):
        self.pid, self.ended, self.killed, self.lingers = pid, None, False, False

    def result(self):
        return self.ended

    def kill(self):
        self.killed = True

    def is_gone(self):
        return self.killed and not self.lingers


@pytest.fixture
def started():
    return []


@pytest.fixture
def workers(tmp_path, started):
    """Of a rank with the process 40, whose workers are 41 and 42."""
    (folder := tmp_path / "40" / "task" / "40").mkdir(parents=True)
    (folder / "children").write_text("41 42 ")

    def start(program, pid):
        started.append(Reads(pid))
        return started[-1]

    return WorkerLines("py-spy", tmp_path, start)


class TestLine:
    def test_it_is_the_innermost_of_the_users_own_code(self):
        assert worker_line(HANGS, "/home/u/job") == "dataset.py:54 Images.__getitem__"
        assert worker_line(HANGS) == "/home/u/job/dataset.py:54 Images.__getitem__"

    def test_a_worker_that_waits_for_work_has_none(self):
        assert worker_line(dump(WAITS, LOOP)) == ""
        below = ("<module>", "/home/u/job/train.py", 8)
        assert worker_line(dump(WAITS, LOOP, below)) == "", "what its rank was at when it started the worker"
        assert worker_line(dump(READS, LOOP, below)).startswith("/home/u/job/dataset.py:54")

    def test_a_child_that_is_no_worker_has_none(self):
        """A resource tracker, or a program that the script started."""
        assert worker_line(dump(READS)) == ""
        assert worker_line(b"[]") == ""

    @pytest.mark.parametrize(
        "words", [b"", b"{}", b"[", b'[{"frames": 3}]', b"\xff", b'[{"frames": [{"line": 1e99}]}]']
    )
    def test_what_is_no_dump_raises(self, words):
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            worker_line(words)

    def test_long_and_odd_names_are_cut_and_visible(self):
        for odd in ((READS[0], "/a" * 900, 1), ("f" * 900, "/x.py", 1), ("f\n\x1b", "/x\n\x1b.py", 1)):
            line = worker_line(dump(odd, LOOP))
            assert 0 < len(line) <= LONGEST_FRAME
            assert line.isprintable()


class TestLooks:
    def test_workers_are_read_one_after_the_other_until_one_has_a_line(self, workers, started):
        assert workers.ask(40) == WorkerLine()
        workers.turn(0.0)
        workers.turn(0.1)
        assert [one.pid for one in started] == [41]
        started[0].ended = 0, dump(WAITS, LOOP)
        workers.turn(0.2)
        started[1].ended = 0, HANGS
        workers.turn(0.3)
        assert [one.pid for one in started] == [41, 42]
        assert workers.ask(40) == WorkerLine("/home/u/job/dataset.py:54 Images.__getitem__")

    def test_a_line_is_not_lost_to_a_worker_that_has_none(self, workers, started):
        workers.ask(40)
        for _ in range(3):
            workers.turn(0.0)
            started[-1].ended = 0, HANGS if len(started) == 1 else dump(WAITS, LOOP)
        workers.ask(40)
        workers.turn(1.0)
        started[-1].ended = 1, b"no such process"
        workers.turn(2.0)
        assert workers.ask(40).line

    @pytest.mark.parametrize(
        ("ended", "unseen"),
        [
            ((1, b"Permission Denied: Try running again with elevated permissions"), NOT_ALLOWED),
            ((1, b"Error: Failed to find a python interpreter"), FAILED),
            ((0, b"Process 41: python"), FAILED),
        ],
    )
    def test_what_cannot_be_read_is_said(self, workers, started, ended, unseen):
        workers.ask(40)
        workers.turn(0.0)
        started[0].ended = ended
        workers.turn(0.1)
        assert workers.ask(40) == WorkerLine(unseen=unseen)

    def test_one_that_takes_too_long_is_ended(self, workers, started):
        workers.ask(40)
        workers.turn(0.0)
        workers.turn(LONGEST_S - 0.1)
        assert not started[0].killed
        workers.turn(LONGEST_S)
        assert (started[0].killed, workers.ask(40).unseen) == (True, FAILED)
        workers.close()
        assert started[-1].killed

    def test_one_that_cannot_be_killed_is_not_waited_for(self, workers, started):
        """It is in the kernel: the ranks of the node are served all the same, and there is no second one meanwhile."""
        workers.ask(40)
        workers.turn(0.0)
        started[0].lingers = True
        workers.turn(LONGEST_S)
        workers.turn(LONGEST_S + 60.0)
        assert [one.pid for one in started] == [41]
        started[0].lingers = False
        workers.turn(LONGEST_S + 61.0)
        assert [one.pid for one in started] == [41, 42]
        workers.close()

    def test_without_py_spy_that_is_said_and_nothing_is_started(self, tmp_path):
        workers = WorkerLines(None, tmp_path)
        assert workers.ask(40) == WorkerLine(unseen=NO_PY_SPY)
        workers.turn(0.0)

    @pytest.mark.slow
    def test_what_cannot_be_started_is_said(self, tmp_path, workers):
        broken = WorkerLines(str(tmp_path / "none"), workers._proc)
        broken.ask(40)
        broken.turn(0.0)
        assert broken.ask(40).unseen == FAILED

    def test_a_rank_that_goes_on_is_forgotten(self, workers, started):
        workers.ask(40)
        workers.forget(40)
        workers.turn(0.0)
        assert started == []

    def test_ranks_and_workers_beyond_any_node_are_not_read(self, tmp_path, workers):
        for pid in range(100, 100 + 2 * MOST_WAITING_RANKS):
            (folder := tmp_path / str(pid) / "task" / str(pid)).mkdir(parents=True)
            (folder / "children").write_text(" ".join(map(str, range(50))))
            workers.ask(pid)
        assert len(workers._waiting) == MOST_WAITING_RANKS * MOST_WORKERS

    def test_only_a_rank_that_waits_for_its_loader_twice_is_asked_about(self, workers, started):
        """The line is in the look after."""
        looks = Looks(lambda pid, task: ProcessLook("S"), workers)
        looks.join((JOB, 0), 40, 0.0)
        seen = []
        for now_s in range(60):
            for who, number in looks.wishes(float(now_s)):
                looks.answer(who, Looked(number, 0, True, "train.py:9 f", ["torch/utils/data/dataloader.py:1 g"]))
            if started:
                started[-1].ended = 0, HANGS
            seen += looks.drain(float(now_s), 1e9).get(JOB, [])
        assert [(one.doing, bool(one.worker_line)) for one in seen[:3]] == [
            ("waiting_for_loader", False),
            ("waiting_for_loader", False),
            ("waiting_for_loader", True),
        ]


@pytest.mark.slow
def test_a_real_program_is_read_and_ended(tmp_path, until):
    """In place of py-spy: a script that prints what it is asked, and one that never ends."""
    (program := tmp_path / "py-spy").write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
    program.chmod(0o700)
    read = Dump(str(program), 41)
    assert until(read.result) == (0, b"['dump', '--nonblocking', '--json', '--pid', '41']\n")
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(900)\n")
    slow = Dump(str(program), 41)
    assert slow.result() is None
    slow.kill()
    until(slow.is_gone)
    assert isinstance(slow._child, subprocess.Popen)
    assert slow._child.returncode == -9
