"""The run queue: how long threads of this process have been runnable without a processor, as the kernel counts it.

Rule of this file: few reads, for each gives the interpreter's lock away. Files stay open in between, threads are looked
for ever more rarely, and there are never more than a handful of them.
"""

from __future__ import annotations

import os

#: What PyTorch calls the threads that launch a backward's kernels, one a device.
AUTOGRAD = "pt_autograd_"
#: Threads read beside the training thread, and at which readings they are looked for.
MOST = 8
_LOOKS = frozenset(5**power for power in range(10))


class RunQueue:
    """Reads ``/proc/self/task/…/schedstat`` of the thread with kernel id ``task``, and of those that work for it."""

    def __init__(self, task: int, tasks: str = "/proc/self/task") -> None:
        self._tasks = tasks
        self._task = str(task)
        #: An open file, and nanoseconds at its last reading, a thread.
        self._open: dict[str, tuple[int, int]] = {}
        self._waited = 0
        self._readings = 0
        #: Whether anything was ever read: what is opened later counts from then on.
        self._begun = False

    def read(self, *, on_device: bool = False) -> int | None:
        """Nanoseconds so far, of all threads together; None where the kernel does not count them.

        ``on_device``: autograd's threads, if there are any, count as well, each from when it is found.
        """
        if self._task not in self._open and not self._begin(self._task, whole=not self._begun):
            return None
        if on_device:
            self._readings += 1
            if self._readings in _LOOKS:
                self._look()
        for task in list(self._open):
            self._add(task)
        return self._waited if self._task in self._open else None

    def follow(self, task: int) -> None:
        """Read the thread with kernel id ``task`` from now on; what was read so far stays counted."""
        if str(task) == self._task:
            return
        self.close()
        self._task, self._readings = str(task), 0
        self._begin(self._task)

    def close(self) -> None:
        """Close the files."""
        for descriptor, _ in self._open.values():
            os.close(descriptor)
        self._open = {}

    def _begin(self, task: str, *, whole: bool = False) -> bool:
        """Open the file of ``task``; its time counts from now on, or from its own beginning (``whole``)."""
        try:
            descriptor = os.open(f"{self._tasks}/{task}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        self._open[task] = (descriptor, 0)
        before = self._waited
        self._add(task)
        if not whole:
            self._waited = before
        self._begun = self._begun or task in self._open
        return task in self._open

    def _add(self, task: str) -> None:
        """Add what ``task`` has waited since; one that has ended says no more, whoever has its number now."""
        descriptor, before = self._open[task]
        try:
            fields = os.pread(descriptor, 128, 0).split()
        except OSError:
            fields = []
        if len(fields) != 3 or not fields[1].isdigit():
            os.close(descriptor)
            del self._open[task]
            return
        now = int(fields[1])
        self._waited += max(now - before, 0)
        self._open[task] = (descriptor, now)

    def _look(self) -> None:
        try:
            tasks = os.listdir(self._tasks)
        except OSError:
            return
        for task in tasks:
            if len(self._open) <= MOST and task not in self._open and self._name(task).startswith(AUTOGRAD):
                self._begin(task)

    def _name(self, task: str) -> str:
        try:
            descriptor = os.open(f"{self._tasks}/{task}/comm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            return os.read(descriptor, 64).decode(errors="replace")
        except OSError:
            return ""
        finally:
            os.close(descriptor)
