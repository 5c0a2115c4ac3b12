"""Waiting for a processor: of the training thread, and of the threads that launch a backward for it."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.training.runqueue import AUTOGRAD, MOST, RunQueue
from tests.patience import PATIENCE_S


class Tasks:
    """A folder as ``/proc/self/task``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.add("1", "python", 100)

    def add(self, task: str, name: str, waited: int) -> None:
        (self.folder / task).mkdir()
        (self.folder / task / "comm").write_text(f"{name}\n")
        self.wait(task, waited)

    def wait(self, task: str, waited: int) -> None:
        (self.folder / task / "schedstat").write_text(f"5 {waited} 7\n")

    def end(self, task: str) -> None:
        """As the kernel has it: an open file says nothing any more, and its number may be another's."""
        (self.folder / task / "schedstat").write_text("")
        (self.folder / task / "schedstat").unlink()
        (self.folder / task / "comm").unlink()
        (self.folder / task).rmdir()


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    return Tasks(tmp_path)


@pytest.fixture
def queue(tasks: Tasks) -> Iterator[RunQueue]:
    made = RunQueue(1, str(tasks.folder))
    yield made
    made.close()


def on_device(queue: RunQueue, readings: int = 1) -> int | None:
    for _ in range(readings - 1):
        queue.read(on_device=True)
    return queue.read(on_device=True)


def test_autograds_threads_count_from_when_they_are_found(tasks: Tasks, queue: RunQueue) -> None:
    """What they waited before belongs to no step that is open; a loader's thread never counts."""
    tasks.add("2", AUTOGRAD + "0", 1000)
    tasks.add("3", "pt_data_pin", 1000)
    assert on_device(queue) == 100
    tasks.wait("1", 110)
    tasks.wait("2", 1005)
    tasks.wait("3", 9000)
    assert on_device(queue) == 115


def test_on_a_host_only_the_training_thread_counts(tasks: Tasks, queue: RunQueue) -> None:
    """There it runs backward itself, and nothing is looked for."""
    tasks.add("2", AUTOGRAD + "0", 1000)
    assert queue.read() == 100
    tasks.wait("2", 2000)
    assert queue.read() == 100


def test_threads_that_come_later_are_found(tasks: Tasks, queue: RunQueue) -> None:
    """They are looked for ever more rarely: autograd makes them in the first backward."""
    assert on_device(queue) == 100
    tasks.add("2", AUTOGRAD + "0", 1000)
    assert on_device(queue, 4) == 100
    tasks.wait("2", 1007)
    assert on_device(queue) == 107


def test_the_sum_never_falls(tasks: Tasks, queue: RunQueue) -> None:
    """A thread that ends has waited all the same, and another that is given its number is not taken for it."""
    tasks.add("2", AUTOGRAD + "0", 0)
    on_device(queue)
    tasks.wait("2", 50)
    assert on_device(queue) == 150
    tasks.end("2")
    tasks.add("2", "pt_data_pin", 9999)
    assert on_device(queue, 30) == 150
    tasks.wait("1", 90)  # no kernel counts backwards
    assert on_device(queue) == 150


def test_there_are_never_more_than_a_handful(tasks: Tasks, queue: RunQueue) -> None:
    """Files stay open: a process with a thousand threads named so keeps its descriptors."""
    for number in range(2, 60):
        tasks.add(str(number), f"{AUTOGRAD}{number}", 0)
    before = len(os.listdir("/proc/self/fd"))
    on_device(queue, 30)
    assert len(os.listdir("/proc/self/fd")) - before == MOST + 1
    queue.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_kernel_that_does_not_count_says_none(tasks: Tasks, queue: RunQueue) -> None:
    """Not measured is not zero; and a training thread that has ended is none that waits."""
    tasks.wait("1", 1)
    assert queue.read() == 1
    tasks.end("1")
    assert queue.read() is None
    assert RunQueue(7, str(tasks.folder)).read(on_device=True) is None


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel counts no waiting for a processor")
def test_a_real_thread_of_that_name_is_found() -> None:
    """The kernel's own files."""
    named, over = threading.Event(), threading.Event()

    def launch() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(AUTOGRAD + "0")
        named.set()
        over.wait(PATIENCE_S)

    thread, queue = threading.Thread(target=launch), RunQueue(threading.get_native_id())
    thread.start()
    try:
        assert named.wait(PATIENCE_S)
        before = len(os.listdir("/proc/self/fd"))
        assert queue.read(on_device=True) is not None
        assert len(os.listdir("/proc/self/fd")) == before + 2
    finally:
        over.set()
        thread.join()
    while Path(f"/proc/self/task/{thread.native_id}").exists():  # the kernel ends it a moment later
        os.sched_yield()
    queue.read(on_device=True)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    queue.close()


def test_another_thread_is_followed_from_then_on(tasks: Tasks, queue: RunQueue) -> None:
    """What it had waited before counts for nobody, what the first had waited stays."""
    assert queue.read() == 100
    tasks.add("2", "python", 5_000)
    queue.follow(2)
    tasks.wait("1", 900)
    tasks.wait("2", 5_030)
    assert queue.read() == 130


def test_a_thread_that_could_not_be_read_for_a_while_counts_from_then_on(tasks: Tasks, queue: RunQueue) -> None:
    """What it had waited before was counted, or is of another thread with the same number."""
    assert queue.read() == 100
    tasks.end("1")
    assert queue.read() is None
    tasks.add("1", "python", 9000)
    assert queue.read() == 100
    tasks.wait("1", 9005)
    assert queue.read() == 105
