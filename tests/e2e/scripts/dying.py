"""Three gloo ranks that end in step 6, one or all: ``dying.py CASE`` under torchrun, ``dying.py CASE LAUNCHER`` alone.

``spawn`` and ``fork`` are those of multiprocessing, ``agent`` is torchrun's own, given a function; the ranks of the
last two have this process's import of PyTorch.
"""

import ctypes
import os
import resource
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from paceline.training import activation

RANKS, LAST, STEPS, ODD = 3, 6, 12, 2


def fail():
    raise ValueError("bad loss")


def allocate():
    torch.zeros(2**40)


def thread(case):
    worker = threading.Thread(target=fail, name="reader")
    worker.start()
    worker.join()
    sys.exit(0)


def until_heard():
    """Wait until what this rank measured has been sent: one that dies before that is known to nobody."""
    while (timed := activation.current()) is not None and not (timed.probe.taken or timed.probe.stopped):
        time.sleep(0.02)


def die(case, rank):
    """What happens in step ``LAST``."""
    until_heard()
    if case == "all":
        fail()
    if case == "interrupt":
        time.sleep(1000)
    if rank != ODD:
        return
    if case == "exception":
        fail()
    if case == "finally":
        try:
            fail()
        finally:
            dist.destroy_process_group()
    if case in ("kill", "segfault"):
        os.kill(os.getpid(), signal.SIGKILL) if case == "kill" else ctypes.string_at(0)
    if case == "exit":
        sys.exit(0)
    if case == "thread":
        thread(case)
    if case == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))
        allocate()


def train(local, case):
    if "RANK" not in os.environ:
        os.environ["RANK"] = str(local)
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=RANKS)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        if step == LAST:
            die(case, dist.get_rank())
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.05)
    dist.destroy_process_group()


def forked(case):
    """A rank of the agent: what the agent does on a signal is not its own."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    train(0, case)


def launch(case, launcher):
    """Start the ranks and wait for them."""
    if launcher != "spawn":
        # The optimizer imports it, and that takes as long as PyTorch itself: here once, and not in each rank.
        import torch._dynamo  # noqa: F401
    if launcher == "agent":
        meet = {"rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:0"}
        elastic_launch(LaunchConfig(1, 1, RANKS, max_restarts=0, start_method="fork", **meet), forked)(case)
    else:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ["DYING_PORT"]}
        mp.start_processes(train, args=(case,), nprocs=RANKS, start_method=launcher)


if __name__ == "__main__":
    if sys.argv[2:]:
        launch(*sys.argv[1:])
    else:
        train(0, sys.argv[1])
