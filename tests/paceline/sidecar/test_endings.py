"""How a node's ranks end, by what they say and what the kernel says."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.events import OpenCollective
from paceline.sidecar.endings import BROKEN_S, EARLY_S, LATE_S, Endings, Kernel, time_limit_s
from paceline.sidecar.process_end import (
    Exit,
    Handle,
    ends_by_status,
    oom_events,
    oom_kills,
    process_exit,
    process_start,
)
from paceline.training.failure_messages import Failed
from tests.kernel_release import EXITS_STAY

JOB = ("job", 0)
WHO = (JOB, 2)
FAILED = Failed(raised_s=90.0, error="ValueError", message="bad", line="train.py:88 step")


class Processes:
    """Processes that run until they are given an exit."""

    def __init__(self):
        self.exits = {}
        self.kills = 0

    def kernel(self):
        return Kernel(
            lambda pid: 7, lambda pid, *_: self.exits.get(pid), lambda _: Path("events"), lambda _: self.kills
        )


@pytest.fixture
def processes():
    return Processes()


@pytest.fixture
def endings(processes):
    made = Endings(processes.kernel())
    made.join(WHO, 4002)
    return made


@pytest.fixture
def small_group(until):
    """A control group of 64 MiB, of whichever version has the memory here."""
    name = f"paceline-test-{os.getpid()}"
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root) / name
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / limit).is_file():
            break
        group.rmdir()
    else:
        pytest.skip("no control group with a limit of memory can be made here: it takes root")
    (group / limit).write_text(str(64 << 20))
    yield group
    until(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def ended(endings, now_s=0.0):
    return [end for ends in endings.drain(now_s, 100.0).values() for end in ends]


def test_a_rank_that_runs_has_not_ended(endings):
    assert ended(endings) == []


def test_a_rank_that_was_killed_ends_with_its_signal_and_its_collective(endings, processes):
    standing = OpenCollective(rank=2, group="world", group_size=4, seq=9, operation="all_reduce", start_s=1.0)
    processes.exits[4002] = Exit(-9)
    endings.leave(WHO, 0.0, standing, bye=False)
    (end,) = ended(endings)
    assert (end.rank, end.how, end.status, end.pid, end.time_s) == (2, "lost", -9, 4002, 100.0)
    assert (end.group, end.seq, end.operation) == ("world", 9, "all_reduce")
    assert ended(endings) == [], "it is reported once"


def test_an_exit_that_was_seen_before_the_connection_ended_is_kept(endings, processes):
    processes.exits[4002] = Exit(-11)
    endings.look(WHO)
    processes.exits[4002] = Exit(None)
    endings.leave(WHO, 0.0, None, bye=False)
    assert ended(endings)[0].status == -11


def test_a_rank_whose_parent_was_faster_ends_with_what_its_handle_has(tmp_path):
    """A rank that comes again under the same number is another process, with a handle of its own."""

    def process_exits(pid, started, handle):
        return process_exit(pid, started, handle, tmp_path)

    endings = Endings(Kernel(lambda _: 7, process_exits, lambda _: None, lambda _: 0))
    endings.join(WHO, 4001, Reaped(0))
    endings.join(WHO, 4002, Reaped(11))
    endings.leave(WHO, 0.0, None, bye=False)
    (end,) = ended(endings)
    assert (end.how, end.status, end.pid) == ("lost", -11, 4002)


def test_a_rank_that_says_goodbye_has_ended_once_its_process_has(endings, processes):
    """It may destroy its group, and go on for an hour."""
    endings.leave(WHO, 0.0, None, bye=True)
    endings.leave(WHO, 0.1, None, bye=False)
    assert ended(endings, 3600.0) == []
    processes.exits[4002] = Exit(0)
    (end,) = ended(endings, 3601.0)
    assert (end.how, end.status) == ("exit", 0)


def test_a_process_that_goes_on_though_its_connection_broke_has_not_ended(endings, processes):
    endings.leave(WHO, 0.0, None, bye=False)
    assert ended(endings, BROKEN_S) == []
    processes.exits[4002] = Exit(0)
    assert ended(endings, BROKEN_S + 1) == []


def test_its_exception_is_told_with_the_time_at_which_it_was_raised(endings, processes):
    endings.fail(WHO, FAILED)
    endings.leave(WHO, 0.0, None, bye=True)
    processes.exits[4002] = Exit(1)
    (end,) = ended(endings)
    assert (end.how, end.error, end.line, end.time_s) == ("exception", "ValueError", "train.py:88 step", 90.0)


@pytest.mark.parametrize(("status", "told"), [(1, None), (3, 3), (-11, -11)])
def test_a_worker_that_ray_ends_has_no_exit_status_of_its_own(processes, status, told):
    """Ray Train ends workers that have finished by ray.kill, which is exit status 1: nothing died of it."""
    endings = Endings(processes.kernel()._replace(of_ray=lambda pid: pid == 4002))
    endings.join(WHO, 4002)
    processes.exits[4002] = Exit(status)
    endings.leave(WHO, 0.0, None, bye=False)
    assert [end.status for end in ended(endings)] == [told]


def test_an_exception_in_a_worker_of_rays_is_told(processes):
    endings = Endings(processes.kernel()._replace(of_ray=lambda _: True))
    endings.join(WHO, 4002)
    endings.fail(WHO, FAILED)
    endings.leave(WHO, 0.0, None, bye=True)
    processes.exits[4002] = Exit(1)
    (end,) = ended(endings)
    assert (end.how, end.error) == ("exception", "ValueError")


def test_a_worker_of_rays_is_known_by_its_title(tmp_path):
    for pid, line in ((1, b"ray::RayTrainWorker\0"), (2, b"python\0train.py\0ray::x")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes(line)
    assert [ends_by_status(pid, tmp_path) for pid in (1, 2, 3)] == [True, False, False]


def test_an_exception_of_another_thread_does_not_say_how_the_rank_ended(endings, processes):
    endings.fail(WHO, Failed(raised_s=90.0, error="ValueError", message="", thread="reader"))
    endings.leave(WHO, 0.0, None, bye=True)
    processes.exits[4002] = Exit(0)
    (end,) = ended(endings)
    assert (end.how, end.thread, end.time_s) == ("exit", "reader", 100.0)


@pytest.mark.parametrize(("status", "error"), [(1, "ValueError"), (0, ""), (None, "ValueError")])
def test_an_exception_that_the_script_may_have_handled_did_not_end_a_process_that_succeeds(
    endings, processes, status, error
):
    endings.fail(WHO, Failed(raised_s=90.0, error="ValueError", message="", handled=True))
    endings.leave(WHO, 0.0, None, bye=True)
    processes.exits[4002] = Exit(status)
    (end,) = ended(endings)
    assert (end.error, end.how) == (error, "exception" if status else "exit")


@pytest.mark.parametrize(
    ("after_s", "late"), [(-EARLY_S - 1, False), (-EARLY_S, True), (0, True), (LATE_S, True), (LATE_S + 1, False)]
)
def test_an_end_at_the_time_limit_of_its_job_is_told_as_that(processes, after_s, late):
    """A limit that was raised meanwhile is none any longer."""
    endings = Endings(processes.kernel(), limit_s=1000.0)
    endings.join(WHO, 4002)
    processes.exits[4002] = Exit(-9)
    endings.leave(WHO, 0.0, None, bye=False)
    (ends,) = endings.drain(0.0, 1000.0 + after_s).values()
    assert [end.out_of_time for end in ends] == [late]


@pytest.mark.parametrize("word", ["", "-1", "0", "tomorrow", "1e99", "9" * 400, "Unknown"])
def test_a_time_limit_that_is_no_time_is_none(word):
    assert time_limit_s({"SLURM_JOB_END_TIME": word}) is None


def test_a_process_that_this_node_cannot_see_ends_with_its_connection(processes):
    endings = Endings(processes.kernel())
    endings.join(WHO, 0)
    endings.leave(WHO, 0.0, None, bye=True)
    (end,) = ended(endings)
    assert (end.how, end.status) == ("exit", None)


def test_kills_for_memory_count_from_when_the_rank_joined(processes):
    processes.kills = 3
    endings = Endings(processes.kernel())
    endings.join(WHO, 4002)
    processes.kills, processes.exits[4002] = 4, Exit(-9)
    endings.leave(WHO, 0.0, None, bye=False)
    assert ended(endings)[0].oom_kills == 1


def test_what_a_rank_says_is_cut_to_what_travels(endings, processes):
    long = Failed(raised_s=90.0, error="E" * 900, message="m" * 900, first="f" * 900, line="l" * 900, thread="t" * 900)
    endings.fail(WHO, long)
    processes.exits[4002] = Exit(1)
    endings.leave(WHO, 0.0, None, bye=True)
    (end,) = ended(endings)
    assert max(map(len, (end.error, end.line, end.thread))) <= 256
    assert max(map(len, (end.message, end.first))) <= 400


@pytest.mark.parametrize("who", [(JOB, 9), (("other", 0), 2)])
def test_a_rank_that_never_joined_is_ignored(endings, who):
    endings.fail(who, FAILED)
    endings.look(who)
    endings.leave(who, 0.0, None, bye=False)
    assert ended(endings) == []


class Reaped:
    """The handle of a process whose parent has asked for its exit."""

    def __init__(self, code):
        self.code = code

    def exit_code(self):
        return self.code


class TestKernel:
    @pytest.fixture
    def proc(self, tmp_path):
        """A process whose name is meant to confuse."""

        def of(state, code, started=77):
            fields = ["0"] * 50
            fields[0], fields[19], fields[49] = state, str(started), str(code)
            (tmp_path / "12").mkdir(exist_ok=True)
            (tmp_path / "12" / "stat").write_text(f"12 (a) Z (9) {' '.join(fields)}\n")
            return tmp_path

        return of

    @pytest.mark.parametrize(
        ("code", "status"), [(0, 0), (1 << 8, 1), (9, -9), (139, -11), (143 << 8, 143), (0x7F, None)]
    )
    def test_a_zombie_has_its_exit(self, proc, code, status):
        assert process_exit(12, 77, None, proc("Z", code)) == Exit(status)

    def test_a_process_that_runs_has_none(self, proc):
        assert process_exit(12, 77, None, proc("S", 9)) is None
        assert process_start(12, proc("S", 0)) == 77

    def test_another_process_of_that_number_is_not_it(self, proc):
        assert process_exit(12, 76, None, proc("S", 0)) == Exit(None)

    def test_another_users_zombie_has_its_failure_and_no_success(self, proc):
        """The kernel shows 0 to who may not know."""
        assert process_exit(12, 77, None, proc("Z", 9), user=os.geteuid() + 1) == Exit(-9)
        assert process_exit(12, 77, None, proc("Z", 0), user=os.geteuid() + 1) == Exit(None)

    @pytest.mark.parametrize(("code", "status"), [(0, 0), (139, -11), (0x7F, None), (None, None)])
    def test_of_one_that_its_parent_has_asked_for_the_handle_has_the_exit(self, tmp_path, proc, code, status):
        """Also where another process has its number by now."""
        assert process_exit(12, 77, Reaped(code), tmp_path) == Exit(status)
        assert process_exit(12, 76, Reaped(code), proc("S", 0)) == Exit(status)
        assert process_exit(12, 77, Reaped(code), proc("S", 0)) is None

    def test_a_handle_that_is_closed_or_of_no_process_says_nothing(self):
        handle = Handle(2**22 + 1)  # beyond every number of a process
        assert (handle.fd, handle.exit_code()) == (-1, None)
        own = Handle(os.getpid())
        assert own.exit_code() is None, "it runs"
        own.close()
        own.close()
        assert (own.fd, own.exit_code()) == (-1, None)

    def test_a_handle_whose_number_is_of_another_file_by_now_says_nothing(self, tmp_path):
        handle = Handle(2**22 + 1)
        with (tmp_path / "file").open("w") as file:
            handle.fd = file.fileno()
            assert handle.exit_code() is None

    @pytest.mark.slow
    @pytest.mark.parametrize(("sent", "status"), [(signal.SIGSEGV, -11), (signal.SIGKILL, -9), (signal.SIGTERM, -15)])
    def test_the_kernel_tells_the_exit_of_one_whose_parent_was_faster(self, sent, status):
        with subprocess.Popen(["sleep", "1000"]) as child:
            handle, started = Handle(child.pid), process_start(child.pid)
            if handle.fd < 0 or not EXITS_STAY:
                child.kill()
                pytest.skip("a kernel before Linux 6.15")
            child.send_signal(sent)
            child.wait()
            assert process_exit(child.pid, started, handle) == Exit(status)
            handle.close()

    def test_one_that_is_gone_says_nothing(self, tmp_path):
        assert process_exit(12, 77, None, tmp_path) == Exit(None)
        assert process_start(12, tmp_path) is None

    @pytest.mark.parametrize("text", ["", "12", "12 (x) Z", "12 (x) Z " + "a " * 60])
    def test_a_file_that_is_odd_says_nothing(self, tmp_path, text):
        (tmp_path / "12").mkdir()
        (tmp_path / "12" / "stat").write_text(text)
        assert process_exit(12, 77, None, tmp_path) == Exit(None)

    def test_kills_for_memory_are_those_of_its_own_group(self, tmp_path):
        group = tmp_path / "groups" / "job"
        group.mkdir(parents=True)
        (group / "memory.events").write_text("low 0\noom 4\noom_kill 2\n")
        (tmp_path / "12").mkdir()
        (tmp_path / "12" / "cgroup").write_text("1:cpu:/x\n0::/job\n")
        file = oom_events(12, tmp_path, tmp_path / "groups")
        assert oom_kills(file) == 2
        (tmp_path / "12" / "cgroup").write_text("0::/../../job\n")
        assert oom_events(12, tmp_path, tmp_path / "groups") is None
        assert oom_kills(None) == oom_kills(tmp_path / "none") == 0

    @pytest.mark.parametrize("lines", ["4:cpu,memory:/job\n0::/\n", "0::/\n4:memory:/job\n", "4:memory:/job\n"])
    def test_kills_where_version_1_has_the_memory(self, tmp_path, lines):
        """In hybrid set-ups there is a version 2, which counts none."""
        (group := tmp_path / "groups" / "memory" / "job").mkdir(parents=True)
        (tmp_path / "groups" / "memory.events").write_text("oom_kill 0\n")
        (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
        (tmp_path / "12").mkdir()
        (tmp_path / "12" / "cgroup").write_text(lines)
        assert oom_kills(oom_events(12, tmp_path, tmp_path / "groups")) == 3

    @pytest.mark.parametrize(
        "lines", ["4:memory:/../job\n", "4:memory\n", ":::\n", "4:memory:job\n", "4:memoryx:/job\n"]
    )
    def test_odd_lines_name_no_file(self, tmp_path, lines):
        """Outside of the tree, cut, or of something else."""
        (group := tmp_path / "groups" / "memory" / "job").mkdir(parents=True)
        (group / "memory.oom_control").write_text("oom_kill 3\n")
        (tmp_path / "12").mkdir()
        (tmp_path / "12" / "cgroup").write_text(lines)
        assert oom_events(12, tmp_path, tmp_path / "groups") is None

    @pytest.mark.slow
    def test_a_real_kill_for_memory_is_counted(self, small_group):
        """By the kernel, in a control group of 64 MiB."""
        eats = "input(); data = bytearray(512 << 20); print(len(data))"
        with subprocess.Popen([sys.executable, "-c", eats], stdin=subprocess.PIPE, text=True) as child:
            (small_group / "cgroup.procs").write_text(str(child.pid))
            endings = Endings()
            endings.join(WHO, child.pid)
            child.stdin.write("\n")
            child.stdin.flush()
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            endings.look(WHO)
            endings.leave(WHO, 0.0, None, bye=False)
            (end,) = ended(endings)
        assert (end.how, end.status, end.oom_kills) == ("lost", -signal.SIGKILL, 1)
