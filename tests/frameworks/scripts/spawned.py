"""Ranks by ``torch.multiprocessing.spawn``, data by workers of a fork server, and a pool that prepares it.

usage: spawned.py FAULT RANK FOLDER      FAULT: none, compute or input, from step 25 of 75
"""

import multiprocessing
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

RANKS, STEPS, BEGIN, BATCH, WIDTH = 4, 75, 25, 32, 256


class Samples(Dataset):
    """Those of step ``BEGIN`` and later take long to read where ``late``: a worker knows no step, only the index."""

    def __init__(self, scale, late):
        self.scale, self.late = scale, late

    def __len__(self):
        return RANKS * BATCH * STEPS

    def __getitem__(self, index):
        if self.late and index >= RANKS * BATCH * BEGIN:
            time.sleep(0.02)
        return torch.randn(WIDTH, generator=torch.Generator().manual_seed(index)) * self.scale, index % 10


def scale_of(seed):
    """What preprocessing finds of a part of the data."""
    torch.set_num_threads(1)
    return float(torch.randn(1000, generator=torch.Generator().manual_seed(seed)).std())


def compute(model, x, times):
    y = model(x)
    for _ in range(times):
        y = y + 0 * model.module(x)
    return y


def train(rank, fault, slow, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        scale = sum(pool.map(scale_of, range(4))) / 4
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(4)]
    model = DistributedDataParallel(nn.Sequential(*blocks, nn.Linear(WIDTH, 10)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    samples = Samples(scale, fault == "input" and rank == slow)
    loader = DataLoader(
        samples,
        batch_size=BATCH,
        sampler=DistributedSampler(samples, shuffle=False),
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context="forkserver",
    )
    criterion = nn.CrossEntropyLoss()
    for step, (x, y) in enumerate(loader):
        late = fault == "compute" and rank == slow and step >= BEGIN
        loss = criterion(compute(model, x, 4 if late else 0), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        torch.save(model.module.state_dict(), f"{folder}/model.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    fault, slow, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    os.makedirs(folder, exist_ok=True)
    mp.spawn(train, (fault, slow, folder), nprocs=RANKS)
