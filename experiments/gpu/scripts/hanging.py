"""DDP on four ranks, one of which leaves the others waiting: by another call, by its end, or by being stopped.

Rule of this file: whatever hangs, every rank ends by itself once the others have waited for long enough.
"""

import os
import signal
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from experiments.gpu.scripts.truth import Truth, blocks, join, options

WIDTH, BATCH = 256, 64
#: Numbers that are summed beside the gradients in each step, as of a loss.
NUMBERS = 1 << 16


def stop(again_s: float) -> None:
    """Stand still, until a process of ours lets this one go on."""
    if os.fork() == 0:
        time.sleep(again_s)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)


def main() -> None:
    chosen = options(backend="", how="skip", rank=2, at=30, hold_s=45.0)
    join(chosen.device, chosen.backend)
    odd = dist.get_rank() == chosen.rank
    model = DistributedDataParallel(blocks(WIDTH, 6, chosen.device))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    losses = torch.ones(NUMBERS, device=chosen.device)
    gathered = torch.empty(NUMBERS * dist.get_world_size(), device=chosen.device)
    truth = Truth(chosen.device)
    for step in range(chosen.at + 10):
        output = model(torch.randn(BATCH, WIDTH, device=chosen.device))
        output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == chosen.at:
            # What is in a collective then cannot be interrupted.
            ending = threading.Timer(2 * chosen.hold_s if chosen.how == "stop" else chosen.hold_s, os._exit, (3,))
            ending.daemon = True
            ending.start()
        if step == chosen.at and odd and chosen.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if step == chosen.at and odd and chosen.how == "stop":
            stop(chosen.hold_s)
        if step == chosen.at and odd and chosen.how == "skip":
            dist.all_gather_into_tensor(gathered, losses)
        else:
            dist.all_reduce(losses)
        # As who logs a loss does: without it the host would run ahead of its device.
        float(losses[0])
        losses.fill_(1.0)
        truth.step()
    truth.save(backend=dist.get_backend())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
