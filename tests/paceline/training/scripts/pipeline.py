"""Pipelines of torch.distributed.pipelining over gloo: pipeline.py SCHEDULE [SLOW-RANK [STEPS]].

Each pass through a stage takes 10 ms at least; on the slow rank it takes 30 ms.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

MICROBATCHES, WIDTH = 4, 16


class Slowly(torch.autograd.Function):
    """Takes its time, forward and backward."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        time.sleep(took_s)
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(took_s)
        return gradient


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(Slowly.apply(torch.relu(self.first(x))))


name, slow = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else -1
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
took_s = 0.03 if rank == slow else 0.01
torch.manual_seed(0)
kind = getattr(schedules, name)
device = torch.device("cpu")
several = issubclass(kind, schedules.PipelineScheduleMulti)
if "ZBV" in name or "DualPipeV" in name:
    mine = [rank, 2 * ranks - 1 - rank]
else:
    mine = [rank, rank + ranks] if several else [rank]
total = ranks * (2 if several else 1)
parts = [Part() for _ in range(total)]
stages = [PipelineStage(parts[index], index, total, device) for index in mine]


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).square().mean()


schedule = kind(stages if several else stages[0], MICROBATCHES, loss_fn=loss_of)
optimizer = torch.optim.SGD([w for index in mine for w in parts[index].parameters()], lr=0.01)
x, target = torch.randn(MICROBATCHES * 2, WIDTH), torch.randn(MICROBATCHES * 2, WIDTH)
for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 6):
    given = (x,) if 0 in mine else ()
    wanted = {"target": target} if total - 1 in mine else {}
    schedule.step(*given, **wanted)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
