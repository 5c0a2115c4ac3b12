"""The demo's training script with the balancer: what is in ``paceline.training.example``, and three lines of others.

torchrun --standalone --nproc-per-node 4 -m paceline.balance.example --fault compute --rank 2
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.utils.data import DataLoader

from paceline.balance import BalancedSampler, balance
from paceline.training.example import Feed, Images, main


def balanced(model: Any, optimizer: Any, data: Images, batch: int) -> Feed:
    """Every rank trains on as many samples as it is fast; together they are as many as before."""
    sampler = BalancedSampler(data, batch * dist.get_world_size())
    loader = DataLoader(data, batch_sampler=sampler)
    return Feed(loader, sampler, balance(model, optimizer, sampler).backward)


if __name__ == "__main__":
    main(balanced)
