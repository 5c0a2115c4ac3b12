"""FSDP2 with hand-made batches and no DataLoader; a script as users write them.

usage: sharded.py FAULT RANK CHECKPOINT      FAULT: none, compute or input, from step 25 of 75
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

FAULT, SLOW = sys.argv[1], int(sys.argv[2])
STEPS, BEGIN = 75, 25


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(*[Block(192) for _ in range(6)])
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for block in model:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

for step in range(STEPS):
    late = rank == SLOW and step >= BEGIN
    if late and FAULT == "input":
        time.sleep(0.3)
    x = torch.randn(96, 192)
    loss = model(x).square().mean()
    if late and FAULT == "compute":
        y = torch.randn(512, 512)
        for _ in range(60):
            y = torch.tanh(y @ y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 20 == 0:
        total = loss.detach().clone()
        dist.all_reduce(total)

dist.destroy_process_group()
