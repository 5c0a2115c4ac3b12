"""DDP that is started again after a rank has failed, and goes on from its checkpoint; knows nothing of Paceline.

usage: restarting.py FOLDER
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, SAVED, FAILS = 40, 10, 15

# A store of each attempt's own: in torchrun's, ranks that start apart read where those of the attempt before listened
# (pytorch issue 167288; here on a busy machine), and are refused there or wait for each other for ever.
attempt, rank, ranks = (int(os.environ[name]) for name in ("TORCHELASTIC_RESTART_COUNT", "RANK", "WORLD_SIZE"))
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/attempt-{attempt}", rank=rank, world_size=ranks)
torch.manual_seed(0)
saved = Path(sys.argv[1]) / "checkpoint.pt"
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
first = 0
if saved.exists():
    held = torch.load(saved, weights_only=True)
    model.load_state_dict(held["model"])
    first = held["step"]

for step in range(first, STEPS):
    optimizer.zero_grad()
    model(torch.randn(32, 64)).pow(2).mean().backward()
    optimizer.step()
    if step + 1 == SAVED and rank == 0:
        torch.save({"model": model.state_dict(), "step": step + 1}, saved)
    if step + 1 == FAILS and attempt == 0 and rank == 1:
        sys.exit(1)
dist.destroy_process_group()
