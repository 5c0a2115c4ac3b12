"""Makes the traces beside it: torchrun --standalone --nproc-per-node 2 make.py. Rank 1 works more, and begins late."""

import gzip
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, TensorDataset

HERE = Path(__file__).parent


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(8 * 64, 512)), batch_size=8)

    def write(profiler: profile) -> None:
        plain = HERE / f"rank{rank}.json"
        profiler.export_chrome_trace(str(plain))
        with gzip.GzipFile(f"{plain}.gz", "wb", mtime=0) as file:
            file.write(plain.read_bytes())
        plain.unlink()

    plan = schedule(wait=20, warmup=2, active=5, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=write) as profiler:
        for _, (batch,) in zip(range(30), loader, strict=False):
            time.sleep(0.02 * rank)
            scores = model(batch)
            for _ in range(8 * rank):
                scores = scores + model.module(batch)
            scores.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
