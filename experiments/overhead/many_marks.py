"""One rank of a model whose steps write hundreds of marks: what timing it costs, with and without the probe's budget.

    for budget in 0 0.5; do PYTHONPATH=. PACELINE_PROBE_BUDGET=$budget paceline run --brokers none -- \
        torchrun --standalone --nproc-per-node 2 experiments/overhead/many_marks.py; done

Every block is a phase of its own, which writes two marks. Without ``paceline run`` it is the same without the probe.
Rank 0 prints one JSON object: of the steps after the first ``--warm-up``, the median duration, and the processor time a
step of this process and of the thread that trains.
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from paceline import training


class Block(nn.Module):
    """A residual block, timed on its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Once through."""
        with training.phase("forward"):
            return x + torch.relu(self.inner(x))


def main() -> None:
    """Train, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--warm-up", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(*[Block(options.width) for _ in range(options.blocks)]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(options.batch, options.width)
    durations = []
    for step in range(options.warm_up + options.steps):
        if step == options.warm_up:
            process_s, thread_s = time.process_time(), time.thread_time()
        start = time.perf_counter()
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        durations.append(time.perf_counter() - start)
    found = {
        "step_ms": statistics.median(durations[options.warm_up :]) * 1e3,
        "process_ms": (time.process_time() - process_s) / options.steps * 1e3,
        "thread_ms": (time.thread_time() - thread_s) / options.steps * 1e3,
    }
    if dist.get_rank() == 0:
        print(json.dumps({name: round(value, 3) for name, value in found.items()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
