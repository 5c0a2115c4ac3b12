"""A compiled model: ``--mode`` is torch.compile's, and ``eager`` traces without a compiler of machine code."""

import torch

from experiments.gpu.scripts.truth import Truth, blocks, options

WIDTH = 512


def main() -> None:
    chosen = options(mode="default", steps=30)
    model = blocks(WIDTH, 6, chosen.device)
    how = {"backend": "aot_eager"} if chosen.mode == "eager" else {"mode": chosen.mode}
    compiled = torch.compile(model, **how)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    truth = Truth(chosen.device)
    losses = []
    for _ in range(chosen.steps):
        loss = compiled(torch.randn(128, WIDTH, device=chosen.device)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().clone())
        truth.step()
    truth.save(losses=[float(each) for each in losses])


if __name__ == "__main__":
    main()
