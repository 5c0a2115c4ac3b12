"""DDP over gloo, all ranks on one device; from step ``BEGIN`` on one of them is slow, each time in another way."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from experiments.gpu.scripts.truth import Truth, blocks, join, options

STEPS, BEGIN, WIDTH = 75, 25, 512
#: Rows of a batch: some 8 ms of computing on a large GPU, 40 ms on a processor's core.
ROWS = {"cuda": 32_768, "cpu": 192}
#: What a fault adds to a step.
EXTRA_S = 0.15


class Batches(Dataset[torch.Tensor]):
    """Batches, each of which takes a while to fetch once ``slow``."""

    def __init__(self, rows: int) -> None:
        self.rows, self.slow = rows, False

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.slow:
            time.sleep(EXTRA_S)
        return torch.randn(self.rows, WIDTH)


class Faulty(nn.Module):
    """A model that does its work three times, lets its device spin or its host dawdle, once it is told so."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.fault = inner, ""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        output = self.inner(batch)
        if self.fault == "compute":
            output = output + 0 * self.inner(batch) + 0 * self.inner(batch)
        elif self.fault == "throttle":
            torch.cuda._sleep(int(EXTRA_S * 1.5e9))
        elif self.fault == "host":
            self._dawdle(batch)
        return output

    def _dawdle(self, batch: torch.Tensor) -> None:
        """Python between two kernels, again and again: the device waits."""
        end = time.perf_counter() + EXTRA_S
        while time.perf_counter() < end:
            batch[:1] + 1
            sum(range(5000))


def main() -> None:
    chosen = options(fault="none", rank=2)
    join(chosen.device, "gloo")
    model = Faulty(blocks(WIDTH, 8, chosen.device))
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), 1e-3)
    batches, truth = Batches(ROWS[chosen.device]), Truth(chosen.device)
    slow = dist.get_rank() == chosen.rank
    for step, (batch,) in enumerate(zip(DataLoader(batches, batch_size=None), strict=True)):
        if slow and step == BEGIN:
            model.fault, batches.slow = chosen.fault, chosen.fault == "input"
        wrapped(batch.to(chosen.device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.step()
    truth.save()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
