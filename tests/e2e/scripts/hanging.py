"""Four ranks train a few steps over gloo; then one of them does what the first argument names, for half a minute.

The second argument is a file of its own that it may write.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

#: A rank is away for so long, in its first step for less: longer than a collective may take later on.
STEPS, AWAY_S, FIRST_S = 30, 40.0, 18.0
TIMEOUT = timedelta(seconds=AWAY_S + 5)


def spin(until):
    """Python that takes a processor and gets nowhere."""
    count = 0
    while time.monotonic() < until:
        count += 1


def blocked(until):
    """A lock that another thread holds."""
    lock = threading.Lock()
    lock.acquire()
    threading.Timer(until - time.monotonic(), lock.release).start()
    lock.acquire()


class Stuck(Dataset):
    """Whose one sample a loader's worker never gets."""

    def __init__(self, until):
        self.until = until

    def __len__(self):
        return 1

    def __getitem__(self, index):
        time.sleep(max(self.until - time.monotonic(), 0))
        return index


def load(until):
    """A loader whose worker hangs."""
    for _ in DataLoader(Stuck(until), num_workers=1):
        pass


def read(until):
    """A pipe that nobody writes to."""
    os.mkfifo(sys.argv[2])
    later = f"sleep {until - time.monotonic()}; : > {sys.argv[2]}"
    with subprocess.Popen(["sh", "-c", later]), open(sys.argv[2]) as pipe:
        pipe.read()


def native(until):
    """Native code that keeps the interpreter's lock: no thread of this process runs Python meanwhile."""
    ctypes.PyDLL(None).sleep(int(until - time.monotonic()))


def cross(rank):
    """Two groups that half of the ranks use in the other order the second time."""
    one, two = dist.new_group(timeout=TIMEOUT), dist.new_group(timeout=TIMEOUT)
    for group in (one, two, *((one, two) if rank < 2 else (two, one))):
        dist.all_reduce(torch.ones(4), group=group)


def stopped(until):
    """A process that somebody has stopped."""
    later = f"sleep {until - time.monotonic()}; kill -CONT {os.getpid()}"
    with subprocess.Popen(["sh", "-c", later], start_new_session=True):
        os.kill(os.getpid(), signal.SIGSTOP)


def save(until):
    """A checkpoint that takes long."""
    weights = torch.zeros(1_000_000)
    while time.monotonic() < until:
        torch.save(weights, sys.argv[2])
        time.sleep(0.2)


def evaluate(until, model):
    """An evaluation on one rank, which waits for its images most of the time."""
    images = torch.ones(64, 256)
    with torch.no_grad():
        while time.monotonic() < until:
            model(images)
            time.sleep(0.02)


#: A case -> the rank that is away, and what it does until then.
AWAY = {
    "loop": (2, spin),
    "lock": (2, blocked),
    "loader": (2, load),
    "fifo": (2, read),
    "native": (2, native),
    "stop": (2, stopped),
    "checkpoint": (0, save),
    "evaluation": (0, evaluate),
}


def main():
    case = sys.argv[1]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=TIMEOUT)
    rank = dist.get_rank()
    network = nn.Sequential(*[nn.Linear(256, 256) for _ in range(8)])
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        if case == "first" and rank == 2 and step == 0:
            spin(time.monotonic() + FIRST_S)
        model(torch.ones(8, 256)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    finish(case, rank, network)
    dist.destroy_process_group()


def finish(case, rank, network):
    """What happens after the last step, and the collectives in which the others wait."""
    who, away = AWAY.get(case, (-1, None))
    if rank == who:
        until = time.monotonic() + AWAY_S
        away(until, network) if away is evaluate else away(until)
    if case == "order":
        cross(rank)
    if not (case == "skip" and rank == 2):
        dist.all_reduce(torch.ones(4))
    dist.barrier() if case == "skip" else dist.all_reduce(torch.ones(8))


if __name__ == "__main__":
    main()
