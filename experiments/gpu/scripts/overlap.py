"""A copy beside a matrix product, with marks between them: how long both take together.

``--marks none`` issues nothing between the two, ``timed`` an event of the script's own, ``phase`` a phase by Paceline.
"""

import contextlib
from typing import Any

import torch

from experiments.gpu.scripts.truth import Truth, options
from paceline import training

WIDTH, COPIED = 8192, 256 * 2**20


def main() -> None:
    chosen = options(marks="none", steps=40)
    truth, side = Truth("cuda"), torch.cuda.Stream()
    weight = torch.nn.Parameter(torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([weight], 1e-3)
    source, target = (
        torch.empty(COPIED, dtype=torch.uint8, pin_memory=True),
        torch.empty(COPIED, dtype=torch.uint8, device="cuda"),
    )
    for _ in range(chosen.steps):
        with torch.cuda.stream(side):
            target.copy_(source, non_blocking=True)
        with between(chosen.marks):
            for _ in range(6):
                product = weight @ weight
        product.sum().backward()
        torch.cuda.current_stream().wait_stream(side)
        optimizer.step()
        optimizer.zero_grad()
        truth.step()
    truth.save()


def between(marks: str) -> Any:
    """What is issued around the product."""
    if marks == "timed":
        torch.cuda.Event(enable_timing=True).record()
    return training.phase("forward") if marks == "phase" else contextlib.nullcontext()


if __name__ == "__main__":
    main()
