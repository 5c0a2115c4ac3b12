"""A GradScaler that skips a step now and then, because gradients are infinite."""

import torch

from experiments.gpu.scripts.truth import Truth, blocks, options

WIDTH = 256


def main() -> None:
    chosen = options(steps=40, every=8)
    model = blocks(WIDTH, 4, chosen.device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    scaler, truth, skipped = torch.amp.GradScaler(chosen.device), Truth(chosen.device), 0
    for step in range(chosen.steps):
        loss = model(torch.randn(64, WIDTH, device=chosen.device)).square().mean()
        if step % chosen.every == chosen.every - 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        skipped += scaler.get_scale() < scale
        truth.step()
    truth.save(skipped=skipped)


if __name__ == "__main__":
    main()
