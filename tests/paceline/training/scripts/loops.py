"""Loops that are none of the usual, six iterations each, one kind after the other. Prints a digest of the weights."""

import contextlib
import functools
import hashlib

import torch
from torch import nn
from torch.distributed.optim import _apply_optimizer_in_backward
from torch.utils.data import DataLoader, TensorDataset

STEPS = 6
torch.manual_seed(0)
torch.set_num_threads(1)
batch = torch.randn(8, 16)
weights: list[torch.Tensor] = []


def new_model() -> nn.Module:
    model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(20)])
    weights.extend(model.parameters())
    return model


def in_backward() -> None:
    model = new_model()
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.01})
    for _ in range(STEPS):
        model(batch).square().mean().backward()


def by_hooks() -> None:
    model = new_model()
    each = {weight: torch.optim.AdamW([weight], foreach=False) for weight in model.parameters()}
    for weight in each:
        weight.register_post_accumulate_grad_hook(lambda weight: each[weight].step())
    for _ in range(STEPS):
        model(batch).square().mean().backward()


def scaled() -> None:
    """Gradients overflow in two iterations, whose steps are skipped."""
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for index in range(STEPS):
        loss = model(batch).square().mean() * (float("inf") if index in (0, 3) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert scaler.get_scale() == 1.0


class Clumsy(torch.optim.SGD):
    """Raises in its third step."""

    calls = 0

    def step(self, closure: None = None) -> None:
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("out of memory")
        super().step(closure)


def raising() -> None:
    model = new_model()
    optimizer = Clumsy(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        model(batch).square().mean().backward()
        with contextlib.suppress(RuntimeError):
            optimizer.step()
        optimizer.zero_grad()


def closures() -> None:
    model = new_model()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=3)

    def closure(given: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(given).square().mean()
        loss.backward()
        return loss

    for (given,) in DataLoader(TensorDataset(batch.repeat(STEPS, 1)), batch_size=8):
        optimizer.step(functools.partial(closure, given))


def gradients() -> None:
    """Without ``backward``: what ``torch.autograd.grad`` finds is what training steps by."""
    model = new_model()
    own = list(model.parameters())
    optimizer = torch.optim.SGD(own, lr=0.01)
    for _ in range(STEPS):
        found = torch.autograd.grad(model(batch).square().mean(), own)
        for weight, gradient in zip(own, found, strict=True):
            weight.grad = gradient
        optimizer.step()


def penalised() -> None:
    """A gradient that is differentiated again is part of the loss."""
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        given = batch.clone().requires_grad_()
        out = model(given).square().mean()
        (slope,) = torch.autograd.grad(out, given, create_graph=True)
        (out + slope.square().sum()).backward()
        optimizer.step()
        optimizer.zero_grad()


def compiled() -> None:
    """What the compiler traces is no backward, and what is compiled with a gradient in it stays one graph."""
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    fast = torch.compile(model, backend="aot_eager", fullgraph=True)
    for _ in range(STEPS):
        fast(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


for kind in (in_backward, by_hooks, scaled, raising, closures, gradients, penalised, compiled):
    kind()
print(hashlib.sha256(b"".join(weight.detach().numpy().tobytes() for weight in weights)).hexdigest())
