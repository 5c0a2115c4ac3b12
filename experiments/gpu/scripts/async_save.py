"""A training run whose checkpoints are written by another thread while backward passes run."""

import tempfile
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.nn.parallel import DistributedDataParallel

from experiments.gpu.scripts.truth import Truth, blocks, join, options

WIDTH, EVERY = 512, 10


def main() -> None:
    chosen = options(steps=60)
    join(chosen.device, "cpu:gloo,cuda:nccl" if chosen.device == "cuda" else "gloo")
    model = DistributedDataParallel(blocks(WIDTH, 8, chosen.device))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    truth, saved = Truth(chosen.device), []
    pending: Any = None
    with tempfile.TemporaryDirectory() as folder:
        for step in range(chosen.steps):
            loss = model(torch.randn(64, WIDTH, device=chosen.device)).square().mean()
            if step % EVERY == EVERY // 2:
                if pending is not None:
                    pending.result()
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                pending = async_save(state, checkpoint_id=f"{folder}/{step}")
                saved.append(step)
            with truth.span("backward"):
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            truth.step()
        if pending is not None:
            pending.result()
    truth.save(saved=saved)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
