"""DDP with gradient accumulation, clipping, evaluation pauses and checkpoints of rank 0; a script as users write them.

usage: accumulation.py FAULT RANK CHECKPOINT      FAULT: none, compute or input, from step 25 of 75
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

FAULT, SLOW, CHECKPOINT = sys.argv[1], int(sys.argv[2]), sys.argv[3]
STEPS, BEGIN, MICROBATCHES = 75, 25, 4
step = 0


def slow(fault):
    return fault == FAULT and dist.get_rank() == SLOW and step >= BEGIN


class Samples(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if slow("input"):
            time.sleep(0.003)
        return torch.randn(256, generator=torch.Generator().manual_seed(index)), index % 10


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.Sequential(*[Block(256) for _ in range(4)]), nn.Linear(256, 10)

    def forward(self, x):
        y = self.blocks(x)
        if self.training and slow("compute"):
            y = y + 0 * self.blocks(x) + 0 * self.blocks(x)
        return self.head(y)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(Network())
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
criterion = nn.CrossEntropyLoss()
samples = Samples()
batches = iter(DataLoader(samples, batch_size=32, sampler=DistributedSampler(samples)))
held_out = torch.randn(64, 256)

while step < STEPS:
    for microbatch in range(MICROBATCHES):
        x, y = next(batches)
        if microbatch < MICROBATCHES - 1:
            with model.no_sync():
                (criterion(model(x), y) / MICROBATCHES).backward()
        else:
            (criterion(model(x), y) / MICROBATCHES).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    step += 1
    if step % 20 == 0:
        model.eval()
        with torch.no_grad():
            score = sum(model.module(held_out).mean() for _ in range(10))
        dist.all_reduce(score)
        model.train()
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), CHECKPOINT)
            time.sleep(0.3)
        dist.barrier()

dist.destroy_process_group()
