"""Compiles models in every way that users combine DDP and torch.compile, first without the probe, then with it.

Prints one JSON object: for each way, the graphs, the graph breaks and the weights, without and with.
"""

import json
import os
import sys

import torch
import torch._dynamo.utils
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BACKEND = "aot_eager"


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def compiled_method(model: nn.Module) -> nn.Module:
    model.compile(backend=BACKEND)
    return model


def exchange(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    dist.all_reduce(y)
    return y + 1


WAYS = {
    "compile(ddp)": lambda model: torch.compile(DistributedDataParallel(model), backend=BACKEND),
    "ddp(compile), one graph": lambda model: DistributedDataParallel(
        torch.compile(model, backend=BACKEND, fullgraph=True)
    ),
    "ddp.compile()": lambda model: compiled_method(DistributedDataParallel(model)),
    "whole step": DistributedDataParallel,
}


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(4, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def measure(way: str) -> list:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    model = Model()
    wrapped = WAYS[way](model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = torch.compile(step, backend=BACKEND) if way == "whole step" else step
    for _ in range(3):
        run(wrapped, optimizer)
    counters = torch._dynamo.utils.counters
    weights = [parameter.double().sum().item() for parameter in model.parameters()]
    return [counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()), weights]


def exchanged() -> list:
    torch._dynamo.reset()
    return torch.compile(exchange, backend=BACKEND, fullgraph=True)(torch.ones(2)).tolist()


def exchanged_within(model: nn.Module) -> list:
    """A model whose graph holds a collective, which is waited for as code that is generated does: by the operator."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model.load_state_dict(Model().state_dict())

    def forward(x: torch.Tensor) -> torch.Tensor:
        ours = torch.ops._c10d_functional
        return model(ours.wait_tensor.default(ours.all_reduce.default(x, "sum", dist.group.WORLD.group_name)))

    run = torch.compile(forward, backend="eager", fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for _ in range(3):
        loss = run(torch.ones(4, 16)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.item())
    return seen


def everything() -> dict:
    return {way: measure(way) for way in WAYS} | {
        "all_reduce, one graph": exchanged(),
        "all_reduce within a model": exchanged_within(Model()),
    }


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.set_num_threads(1)
before = everything()
os.environ["PACELINE_SOCKET"] = sys.argv[1]
from paceline import training  # noqa: E402

training.start()
after = everything()
training.stop()
print(json.dumps({way: [before[way], after[way]] for way in before}))
dist.destroy_process_group()
