"""Three gloo ranks that end in step 6, one or all: ``dying.py CASE`` under torchrun, ``dying.py CASE spawn`` alone."""

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


def die(case, rank):
    """What happens in step ``LAST``."""
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


if __name__ == "__main__":
    if sys.argv[2:] == ["spawn"]:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ["DYING_PORT"]}
        mp.spawn(train, args=(sys.argv[1],), nprocs=RANKS)
    else:
        train(0, sys.argv[1])
