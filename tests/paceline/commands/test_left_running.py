"""Which Pythons a command has left running, by what they were started with."""

from itertools import count
from pathlib import Path

import pytest

from paceline.commands.left_running import left_running, sentence

SOCKET = Path("/tmp/paceline-1/ranks")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Two of ours, one told of another socket, a shell, one of another user's, and what is no process."""
    for pid, told, program in (
        (4711, SOCKET, "python3.11"),
        (4712, SOCKET, "python3.9"),
        (4713, Path("/tmp/paceline-2/ranks"), "python3.11"),
        (4714, Path(f"{SOCKET}.old"), "python3.11"),
        (4715, SOCKET, "bash"),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (python) train) S 1 {pid} {pid} 0 -1")
        (tmp_path / str(pid) / "environ").write_bytes(f"HOME=/root\0PACELINE_SOCKET={told}\0LANG=C\0".encode())
        (tmp_path / str(pid) / "exe").symlink_to(f"/usr/bin/{program}")
        (tmp_path / str(pid) / "cmdline").write_bytes(f"{program}\0train.py\0--token\0secret\0".encode())
    (tmp_path / "4716").mkdir()
    (tmp_path / "self").mkdir()
    return tmp_path


def test_those_that_were_told_of_this_socket_are_found(proc: Path) -> None:
    assert left_running(SOCKET, proc) == {4711, 4712}


@pytest.mark.parametrize("state", ["D", "Z"])
def test_one_that_sleeps_in_the_kernel_or_has_ended_is_passed_over(proc: Path, state: str) -> None:
    """To read its environment could take as long as it sleeps."""
    (proc / "4712" / "stat").write_text(f"4712 (python) train) {state} 1 4712 4712 0 -1")
    assert left_running(SOCKET, proc) == {4711}


def test_where_there_is_no_proc_none_is(tmp_path: Path) -> None:
    assert left_running(SOCKET, tmp_path / "proc") == set()


def test_a_node_with_many_processes_is_not_searched_to_its_end(proc: Path) -> None:
    """The command's end does not wait for it."""
    clock = count()
    assert left_running(SOCKET, proc, lambda: float(next(clock)), 5.0) == {4712}


def test_they_are_named_without_what_may_be_secret(proc: Path) -> None:
    assert "python3.11 train.py (pid 4711), which it started, goes on untimed" in sentence([4711], proc)
    said = sentence([4715, 4711, 4712, 4713], proc)
    assert "(pid 4711), python3.9 train.py (pid 4712), python3.11 train.py (pid 4713) and 1 more" in said
    assert "go on untimed" in said
    assert "secret" not in said
