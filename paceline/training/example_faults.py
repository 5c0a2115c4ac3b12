"""What makes the demo's chosen rank slow: each fault really does the thing that it is named for.

Rule of this file: a fault changes the rank it runs in and nothing else, and ends what it has started.
"""

import gc
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

#: What the faults add to a step, about.
EXTRA_S = 0.12
#: How long a rank that hangs does so: less than gloo's own time limit in the demo.
HANG_S = 60.0
#: Environment variable with the command that makes the rank's link slow; the demo sets it.
LINK_COMMAND_VARIABLE = "PACELINE_EXAMPLE_LINK_COMMAND"


class Fault:
    """A fault: ``begin`` once after the warm-up, ``each_step`` from then on, ``end`` when the run is over."""

    what: ClassVar[str] = ""

    def begin(self, network: Any, data: Any, batch: int) -> None:
        """Turn slow."""

    def each_step(self) -> None:
        """What has to happen at the end of every step."""

    def end(self) -> None:
        """Undo what outlives the process."""


class Compute(Fault):
    """Forward and backward are done three times over."""

    what = "compute: its forward and backward do three times the work"

    def begin(self, network: Any, data: Any, batch: int) -> None:
        """Multiply the passes."""
        network.passes = 3


class Input(Fault):
    """Each sample takes a while to read."""

    what = "input: its dataset is slow to read"

    def begin(self, network: Any, data: Any, batch: int) -> None:
        """Slow the dataset down."""
        data.read_s = EXTRA_S / batch


class Cpu(Fault):
    """Other processes want the same core."""

    what = "cpu: it shares one core with busy processes"

    def __init__(self) -> None:
        self._hogs: list[subprocess.Popen[bytes]] = []

    def begin(self, network: Any, data: Any, batch: int) -> None:
        """Stay on one core, and start processes that keep it busy."""
        core = min(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
        hogs = 6 if (os.cpu_count() or 1) <= 4 else 3
        # A hog ends by itself when its parent has gone: nothing may stay behind.
        code = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        for _ in range(hogs):
            self._hogs.append(subprocess.Popen([sys.executable, "-ISc", code], env=environ))  # noqa: S603

    def end(self) -> None:
        """End the busy processes."""
        for hog in self._hogs:
            hog.kill()
            hog.wait()


class Garbage(Fault):
    """Every step collects garbage among many live objects."""

    what = "gc: it keeps many objects and collects garbage each step"

    def __init__(self) -> None:
        self._cache: list[list[object]] = []

    def begin(self, network: Any, data: Any, batch: int) -> None:
        """Fill the cache until a collection takes long."""
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline and _seconds(gc.collect) < EXTRA_S:
            self._cache.extend([index] for index in range(100_000))

    def each_step(self) -> None:
        """Make a few cycles, and collect."""
        for _ in range(100):
            cycle: list[object] = []
            cycle.append(cycle)
        gc.collect()


class Link(Fault):
    """The rank's network interface turns slow."""

    what = "link: its network interface turns slow"

    def begin(self, network: Any, data: Any, batch: int) -> None:
        """Run the command that the demo prepared."""
        command = os.environ.get(LINK_COMMAND_VARIABLE, "")
        if command:
            subprocess.run(shlex.split(command), check=True)  # noqa: S603 - from the demo


class Hang(Fault):
    """The rank does not come to the next collective, for a minute."""

    what = "hang: it waits for a minute before its next collective"

    def begin(self, network: Any, data: Any, batch: int) -> None:
        """Wait for a lock that nobody releases."""
        lock = threading.Lock()
        with lock:
            lock.acquire(timeout=HANG_S)


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


FAULTS: dict[str, type[Fault]] = {
    "compute": Compute,
    "input": Input,
    "cpu": Cpu,
    "gc": Garbage,
    "link": Link,
    "hang": Hang,
}
