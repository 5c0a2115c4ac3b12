"""Two trainings in one process, each beside other collectives; the first model is let go, and workers are forked then.

While DDP's reducer exchanges gradients, backward sends in a group of its own and another thread, a saver's say, in a
third. Prints how many of the forked workers' batches came.
"""

import sys
import threading

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEPS = 4
parallel = saving = None


class Sends(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        saver = threading.Thread(target=dist.all_reduce, args=(torch.ones(4),), kwargs={"group": saving})
        saver.start()
        saver.join()
        return funcol.all_reduce(gradient, "sum", parallel)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

    def forward(self, x):
        return self.last(Sends.apply(self.first(x)))


def train(store, workers):
    global parallel, saving
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    parallel, saving = dist.new_group(), dist.new_group()
    # A bucket for each layer: one is exchanged before the backward sends, one after.
    model = DistributedDataParallel(Network(), bucket_cap_mb=0.0001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples = TensorDataset(torch.randn(STEPS * 8, 16))
    count = 0
    for (x,) in DataLoader(samples, batch_size=8, num_workers=workers):
        model(x).square().mean().backward()
        optimizer.step()
        count += 1
    model(x)  # ... and no backward follows
    dist.destroy_process_group()
    return count


train(f"{sys.argv[1]}.first", 0)
print(train(f"{sys.argv[1]}.second", 2))
