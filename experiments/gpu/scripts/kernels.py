"""Steps of tiny kernels (``--size tiny``), for which the device waits, or of large products, which keep it behind."""

import time

import torch

from experiments.gpu.scripts.truth import Truth, blocks, options

SIZES = {"tiny": (32, 60, 8), "large": (4096, 4, 4096)}
#: What is reached so soon after it was issued was waited for by the device.
AT_ONCE_S = 50e-6


def main() -> None:
    chosen = options(size="tiny", steps=60)
    width, depth, rows = SIZES[chosen.size]
    model = blocks(width, depth, "cuda")
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    truth, batch = Truth("cuda"), torch.randn(rows, width, device="cuda")
    torch.cuda.synchronize()
    zero, zero_s = truth.now(), time.perf_counter()
    torch.cuda.synchronize()
    issued = []
    for _ in range(chosen.steps):
        for part in (lambda: model(batch).square().mean().backward(), optimizer.step, optimizer.zero_grad):
            part()
            issued.append((time.perf_counter() - zero_s, truth.now()))
        truth.step()
    torch.cuda.synchronize()
    lags_s = [truth.between_s(zero, event) - recorded_s for recorded_s, event in issued[len(issued) // 3 :]]
    truth.save(at_once=sum(lag < AT_ONCE_S for lag in lags_s) / len(lags_s))


if __name__ == "__main__":
    main()
