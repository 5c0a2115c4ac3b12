"""What is done to the stack that must lose nothing: one function a fault, in a table.

Rule of this file: a fault strikes, lasts and is mended again before its function returns; what it needs of the machine
is said in the table, and where that is missing the fault is left out by name.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ..processes import RunError
from .cluster import Cluster
from .workers import COMPILER, Workers

#: A fault needs this to strike: of the machine, and why it is not there.
Need = Callable[["Stack"], str]


@dataclass
class Stack:
    """What can be hurt. ``isolated``: in a network and mounts of its own, where both may be touched."""

    cluster: Cluster
    workers: Workers
    isolated: bool
    small_disk: bool


#: What makes the network slow: the first that the kernel has. A packet that finds the queue full is lost.
SHAPERS = ("netem delay 20ms 5ms loss 0.2% rate 20mbit limit 10000", "tbf rate 6mbit burst 32kb latency 250ms")


def _last(draw: Random, low: float, high: float) -> None:
    """Let it last."""
    time.sleep(draw.uniform(low, high))


def broker_killed(stack: Stack, draw: Random) -> None:
    """One node: kill -9."""
    node = draw.choice(stack.cluster.nodes)
    node.kill()
    _last(draw, 3, 15)


def broker_stopped(stack: Stack, draw: Random) -> None:
    """One node stands still, its connections stay open: SIGSTOP."""
    node = draw.choice(stack.cluster.nodes)
    node.signal(signal.SIGSTOP)
    _last(draw, 5, 25)
    node.signal(signal.SIGCONT)


def most_brokers_killed(stack: Stack, draw: Random) -> None:
    """Two nodes: kill -9. Nothing can be written until one is back."""
    for node in draw.sample(stack.cluster.nodes, 2):
        node.kill()
    _last(draw, 10, 30)


def worker_killed(stack: Stack, draw: Random) -> None:
    """One worker: kill -9; another is started at once."""
    stack.workers.end(draw.choice(stack.workers.processes), signal.SIGKILL)
    stack.workers.start()
    _last(draw, 2, 8)


def all_workers_killed(stack: Stack, draw: Random) -> None:
    """All workers: kill -9; for some seconds there are none."""
    for process in list(stack.workers.processes):
        stack.workers.end(process, signal.SIGKILL)
    _last(draw, 5, 15)


def worker_stopped(stack: Stack, draw: Random) -> None:
    """One worker stands still for longer than its session lasts, and goes on as if it still had its partitions."""
    process = draw.choice(stack.workers.processes)
    stack.workers.signal(process, signal.SIGSTOP)
    _last(draw, 12, 30)
    stack.workers.signal(process, signal.SIGCONT)
    _last(draw, 5, 10)


def rebalance_storm(stack: Stack, draw: Random) -> None:
    """Workers come and go: every few seconds all partitions are dealt anew."""
    for _ in range(4):
        stack.workers.start()
        _last(draw, 1, 5)
        stack.workers.end(draw.choice(stack.workers.processes), draw.choice([signal.SIGKILL, signal.SIGTERM]))


def clock_steps(stack: Stack, draw: Random) -> None:
    """The workers' clock jumps: hours ahead, hours back."""
    for _ in range(3):
        stack.workers.set_clock(draw.choice([-86_400, -3_600, -30, 30, 3_600, 86_400]))
        _last(draw, 3, 8)


def slow_network(stack: Stack, draw: Random) -> None:
    """Everything on this network is slow, and some packets are lost."""
    if not any(_tc("add", shaper) for shaper in SHAPERS):
        raise RunError("the network cannot be slowed down any more, though it could at the start")
    _last(draw, 10, 25)
    _tc("del", "")


def broker_disk_full(stack: Stack, draw: Random) -> None:
    """The disk of the last node is full: it ends by itself, and comes back when there is room."""
    node = stack.cluster.nodes[-1]
    filler = node.data / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024 * 1024))
    _last(draw, 10, 20)
    filler.unlink()
    node.kill()


def _tc(action: str, what: str) -> bool:
    command = ["tc", "qdisc", action, "dev", "lo", "root", *what.split()]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def _nothing(stack: Stack) -> str:
    return ""


def _compiler(stack: Stack) -> str:
    return "" if COMPILER else "cc is missing; fix: sudo apt-get install gcc"


def _network(stack: Stack) -> str:
    if not stack.isolated:
        return "needs root, for a network of its own"
    if not shutil.which("tc"):
        return "tc is missing; fix: sudo apt-get install iproute2"
    able = any(_tc("add", shaper) and _tc("del", "") for shaper in SHAPERS)
    return "" if able else "the kernel has neither sch_netem nor sch_tbf"


def _disk(stack: Stack) -> str:
    return "" if stack.small_disk else "needs root, for a small disk of its own"


FAULTS: dict[str, tuple[Callable[[Stack, Random], None], Need]] = {
    "broker killed": (broker_killed, _nothing),
    "broker stopped": (broker_stopped, _nothing),
    "two of three brokers killed": (most_brokers_killed, _nothing),
    "broker's disk full": (broker_disk_full, _disk),
    "worker killed": (worker_killed, _nothing),
    "all workers killed": (all_workers_killed, _nothing),
    "worker stopped": (worker_stopped, _nothing),
    "rebalance storm": (rebalance_storm, _nothing),
    "clock steps": (clock_steps, _compiler),
    "slow network": (slow_network, _network),
}


def isolate(arguments: list[str]) -> None:
    """As root: become the same command in a network and mounts of its own. Returns where that cannot be."""
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        return
    os.execvp("unshare", ["unshare", "--net", "--mount", "--", *arguments])
