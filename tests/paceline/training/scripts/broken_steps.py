"""A training script, run again and again in forks, in each of which another call of ours raises instead.

Prints a line for each fork that did not train as it trains without us, then how many there were.
"""

import os
import sys
from collections.abc import Callable

import torch

from paceline import training
from paceline.training.hooks import (
    autograd,
    checkpoint,
    coalescing,
    collectives,
    forward,
    graphs,
    groups,
    loader,
    optimizer,
    pipelines,
    reducer_waits,
    scaler,
    streams,
)
from tests.breaking import Step, broken, steps

#: Imported before the first fork, so that each finds them.
HOOKS = (autograd, checkpoint, coalescing, collectives, forward, graphs, groups, loader, optimizer)
HOOKS += (pipelines, reducer_waits, scaler, streams)


def model() -> tuple[torch.nn.Module, torch.optim.Optimizer, torch.amp.GradScaler]:
    """What is trained."""
    torch.manual_seed(0)
    made = torch.nn.Linear(4, 2)
    return made, torch.optim.SGD(made.parameters(), lr=0.1), torch.amp.GradScaler("cpu")


def train() -> float:
    """Three steps, one of them by a scaler."""
    made, stepping, scale = model()
    for number in range(3):
        loss = ((made(torch.randn(4, 4)) - torch.randn(4, 2)) ** 2).mean()
        if number == 1:
            scale.scale(loss).backward()
            scale.step(stepping)
            scale.update()
        else:
            loss.backward()
            stepping.step()
        stepping.zero_grad()
    torch.save(made.state_dict(), "/dev/null")
    torch.autograd.grad((made.weight**2).sum(), made.weight)
    training.stop()
    return float(made.weight.detach().sum())


def forked(action: Callable[[], object]) -> str:
    """What ``action`` returns in a fork, or what it raises."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            said = repr(action())
        except BaseException as error:
            said = f"raised {type(error).__name__}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as stream:
        said = stream.read().decode()
    os.waitpid(child, 0)
    return said


def breaks(step: Step) -> float:
    """Train with ``step`` broken."""
    training.start()
    trained: list[float] = []
    broken(lambda: trained.append(train()), step, RuntimeError("can't start new thread"))
    return trained[0]


def look() -> object:
    """The steps of ours while training runs."""
    training.start()
    return [tuple(step) for step in steps(train, lambda path: path.startswith("training/"))]


def can_fail(step: Step) -> bool:
    """All but what a wrapper itself calls (``Backward.run`` is of two): PyTorch's own function, what has a net, and
    questions without an answer that fails (which thread this is, whether Dynamo compiles)."""
    file, _, name = step.place.partition(":")
    wraps = file.startswith("training/hooks") and ("<locals>" in name or name == "Backward.run")
    return step.callee != "get_ident" and not wraps


def main() -> None:
    """Each call once, by place and by what is called."""
    torch.set_num_threads(1)
    model()[1].step()  # imports what the first step does
    right = forked(train)
    places: dict[str, Step] = {}
    for words in eval(forked(look)):
        step = Step(*words)
        if can_fail(step):
            places.setdefault(f"{step.place} {step.callee}", step)
    for step in places.values():
        said = forked(lambda step=step: breaks(step))  # type: ignore[misc]
        if said != right:
            print(f"{step}: {said}, right is {right}", flush=True)
    print(len(places))


if __name__ == "__main__":
    sys.exit(main())
