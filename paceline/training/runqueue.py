"""The run queue: how long a thread of this process has been runnable without a processor, as the kernel counts it."""

import os


class RunQueue:
    """Reads ``/proc/self/task/…/schedstat`` of the thread with kernel id ``task``; the file stays open in between.

    Opening and closing it each time would give the interpreter's lock away twice more.
    """

    def __init__(self, task: int) -> None:
        self._path = f"/proc/self/task/{task}/schedstat"
        self._descriptor: int | None = None

    def read(self) -> int | None:
        """Nanoseconds so far; None where the kernel does not count them."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            fields = os.pread(self._descriptor, 128, 0).split()
        except OSError:
            return None
        return int(fields[1]) if len(fields) == 3 and fields[1].isdigit() else None

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
