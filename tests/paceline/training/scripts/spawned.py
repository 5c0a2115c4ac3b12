"""Ranks made by torch.multiprocessing, one of which forks a child of its own."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    parameter = torch.nn.Parameter(torch.ones(8))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for _ in range(3):
        parameter.sum().backward()
        dist.all_reduce(parameter.grad)
        optimizer.step()
    if rank == 0 and (child := os.fork()) == 0:
        optimizer.step()
        os._exit(0)
    elif rank == 0:
        os.waitpid(child, 0)


if __name__ == "__main__":
    import sys

    mp.spawn(work, (sys.argv[1],), nprocs=2)
