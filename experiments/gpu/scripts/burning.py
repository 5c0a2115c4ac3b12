"""A GPU kept busy for ``--seconds``, with some of its memory taken."""

import time

import torch

from experiments.gpu.scripts.truth import Truth, options


def main() -> None:
    chosen = options(seconds=20.0)
    truth, end = Truth("cuda"), time.monotonic() + chosen.seconds
    kept = torch.empty(2 * 2**30, dtype=torch.uint8, device="cuda")
    factor = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    while time.monotonic() < end:
        for _ in range(50):
            torch.mm(factor, factor)
        torch.cuda.synchronize()
    truth.save(kept=kept.numel())


if __name__ == "__main__":
    main()
