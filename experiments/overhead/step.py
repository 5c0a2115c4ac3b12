"""One rank of the overhead benchmark: 24 residual blocks under DDP, with the probe on and off in alternate windows.

Started by ``python -m experiments.overhead`` under torchrun; prints one JSON object from rank 0.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from paceline.training.activation import session


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.inner(x))


def cores() -> list[int]:
    """The cores of this machine that are ours; none where they cannot be told."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def run_on(chosen: list[int]) -> None:
    """The calling thread, and those it starts from now on, run on these cores."""
    if chosen:
        os.sched_setaffinity(0, chosen)


def switch(on: bool) -> None:
    """Put the probe in or take it out as far as it goes: thread, group hooks and marks."""
    found = session()
    groups = found.groups
    world = dist.group.WORLD
    if on:
        found.resume()
        groups.join(world)
        found.rejoin()
    else:
        found.end()
        found.probe.stop()
        groups.leave(world)


def main(pairs: int, steps: int, width: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    everywhere, rank = cores(), int(os.environ["LOCAL_RANK"])
    mine = everywhere[-1 - rank :][:1] if int(os.environ["LOCAL_WORLD_SIZE"]) <= len(everywhere) else everywhere
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(*[Block(width) for _ in range(24)], nn.Linear(width, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    size = 32 * (steps + 20)
    loader = DataLoader(TensorDataset(torch.randn(size, width), torch.randint(0, 10, (size,))), batch_size=32)
    loss = nn.CrossEntropyLoss()
    windows: dict[bool, list[list[float]]] = {True: [], False: []}
    cpu: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(pairs + 1):
        for on in (True, False) if pair % 2 else (False, True):
            run_on(everywhere)  # The probe's thread goes where there is room, as it would in any run.
            switch(on)
            run_on(mine)
            dist.barrier()
            times = []
            for index, (x, y) in enumerate(loader):
                if index == 20:  # the first steps warm up, and the shipping thread has connected
                    cpu_start = time.thread_time()
                start = time.perf_counter()
                loss(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
                times.append(time.perf_counter() - start)
            if pair:
                windows[on].append(times[20:])
                cpu[on].append((time.thread_time() - cpu_start) / len(times[20:]))
    if dist.get_rank() == 0:
        print(json.dumps({"on": windows[True], "off": windows[False], "cpu_on": cpu[True], "cpu_off": cpu[False]}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
