"""DDP over two nodes, of which one has a rank that fails once; the other's waits for it. It knows nothing of Paceline.

usage: restarting_apart.py FOLDER
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, FAILS = 40, 15

failed, node = Path(sys.argv[1]) / "failed", os.environ["PACELINE_NODE"]
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(STEPS):
    optimizer.zero_grad()
    try:
        model(torch.randn(32, 64)).pow(2).mean().backward()
    except RuntimeError:  # The other has failed: this one's agent is to find that out, and not to count a failure here.
        signal.pause()
    optimizer.step()
    if step + 1 == FAILS and node == "b" and not failed.exists():
        failed.touch()
        sys.exit(1)
dist.destroy_process_group()
