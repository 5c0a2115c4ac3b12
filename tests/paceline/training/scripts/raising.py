"""Two ranks over gloo, of which one leaves: the other's collectives raise, each another way, and it goes on."""

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    dist.all_reduce(torch.ones(4))
    optimizer.step()
if dist.get_rank() == 0:
    for size, later in ((5, False), (6, True)):
        with contextlib.suppress(RuntimeError):
            work = dist.all_reduce(torch.ones(size), async_op=later)
            if work is not None:
                work.wait()
    with contextlib.suppress(RuntimeError):
        model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
