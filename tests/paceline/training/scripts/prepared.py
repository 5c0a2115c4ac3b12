"""DDP whose reducer the script prepares itself, within the wrapper's forward, as manual optimization in Lightning does.

Two ranks, of which rank 1 computes 0.1 s longer. Usage: prepared.py STEPS.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.body(x).square().mean()
        if dist.get_rank() == 1:
            time.sleep(0.1)
        model.require_backward_grad_sync = True
        model.reducer._rebuild_buckets()
        model.reducer.prepare_for_backward([])
        loss.backward()
        model.require_backward_grad_sync = False
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()


torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(Step())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    model.require_backward_grad_sync = False
    model(torch.randn(8, 16))
dist.destroy_process_group()
