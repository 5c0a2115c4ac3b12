"""Four ranks train a few steps over gloo; then one of them does what the first argument names, for half a minute."""

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

STEPS, AWAY_S = 30, 40.0


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
    """An evaluation on one rank."""
    images = torch.ones(64, 256)
    with torch.no_grad():
        while time.monotonic() < until:
            model(images)


def main():
    case = sys.argv[1]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=AWAY_S + 5))
    rank = dist.get_rank()
    network = nn.Sequential(*[nn.Linear(256, 256) for _ in range(8)])
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        model(torch.ones(8, 256)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    until = time.monotonic() + AWAY_S
    if case == "skip" and rank == 2:
        pass
    else:
        if case == "loop" and rank == 2:
            spin(until)
        if case == "lock" and rank == 2:
            blocked(until)
        if case == "loader" and rank == 2:
            load(until)
        if case == "stop" and rank == 2:
            stopped(until)
        if case == "checkpoint" and rank == 0:
            save(until)
        if case == "evaluation" and rank == 0:
            evaluate(until, network)
        dist.all_reduce(torch.ones(4))
    dist.barrier() if case == "skip" else dist.all_reduce(torch.ones(8))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
