"""DDP with some steps under PyTorch's profiler, whose trace is kept beside the script's own times."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from experiments.gpu.scripts.truth import TRUTH_VARIABLE, Truth, blocks, join, options

WIDTH, FIRST, LAST = 1024, 20, 32
ROWS = {"cuda": 8192, "cpu": 128}


def main() -> None:
    chosen = options()
    join(chosen.device)
    model = DistributedDataParallel(blocks(WIDTH, 8, chosen.device))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    truth, batch = Truth(chosen.device), torch.randn(ROWS[chosen.device], WIDTH, device=chosen.device)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if truth.on_gpu else [])]
    profiler = profile(activities=activities)
    for step in range(LAST + 8):
        if step == FIRST:
            profiler.start()
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.step()
        if FIRST <= step < LAST:
            profiler.step()
        if step == LAST:
            profiler.stop()
    profiler.export_chrome_trace(f"{os.environ[TRUTH_VARIABLE]}/rank0.pt.trace.json")
    truth.save(first=FIRST, last=LAST)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
