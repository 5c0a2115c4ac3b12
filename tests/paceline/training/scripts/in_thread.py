"""A rank whose main thread joins the group and waits, while another thread trains, twice. Usage: in_thread.py STEPS."""

import sys
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(steps: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


torch.set_num_threads(1)
for _ in range(2):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    thread = threading.Thread(target=train, args=(int(sys.argv[1]),))
    thread.start()
    thread.join()
    dist.destroy_process_group()
