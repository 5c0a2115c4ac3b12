"""The run queue: how long a thread of this process has been runnable without a processor, as the kernel counts it."""

import os


class RunQueue:
    """Reads ``/proc/self/task/…/schedstat`` of the thread with kernel id ``task``."""

    def __init__(self, task: int) -> None:
        self._path = f"/proc/self/task/{task}/schedstat"

    def read(self) -> int | None:
        """Nanoseconds so far; None where the kernel does not count them."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fields = os.read(descriptor, 128).split()
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return int(fields[1]) if len(fields) == 3 and fields[1].isdigit() else None
