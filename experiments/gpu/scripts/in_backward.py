"""The optimizer steps inside the backward pass, one optimizer a parameter: gradients are never all there."""

import torch

from experiments.gpu.scripts.truth import Truth, blocks, options

WIDTH = 512


def main() -> None:
    chosen = options(steps=30)
    model = blocks(WIDTH, 6, chosen.device)
    optimizers = {parameter: torch.optim.SGD([parameter], 1e-3) for parameter in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    truth = Truth(chosen.device)
    for _ in range(chosen.steps):
        batch = torch.randn(128, WIDTH, device=chosen.device)
        model(batch).square().mean().backward()
        truth.step()
    truth.save()


if __name__ == "__main__":
    main()
