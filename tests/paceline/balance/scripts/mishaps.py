"""What goes wrong, and what is said then."""

import copy
import os
import signal
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import trained
from inband import BATCH, OUT_OF_MEMORY, Failing, batches, network, optimizer_of
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from paceline.balance import BalancedSampler, balance
from paceline.balance.plan import Plan


def parts(model: nn.Module, **more: Any) -> tuple[BalancedSampler, torch.optim.Optimizer, Any]:
    sampler = BalancedSampler(trained.data(size=640), BATCH)
    optimizer = optimizer_of(model)
    return sampler, optimizer, balance(model, optimizer, sampler, **more)


def said(call: Callable[[], Any]) -> list[str]:
    """The kind of what ``call`` raises, and its sentence."""
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return []


def first_step(mode: str, rank: int, world: int) -> list[Any]:
    """No rank has memory in the first step: nobody can skip it; the next start begins lower."""
    middle = Failing()
    middle.forth = True
    model = DistributedDataParallel(network(middle))
    sampler, _, balancer = parts(model, mode=mode)
    x, y = next(batches(sampler))
    with_loss = partial(one_step, balancer, model, x, y)
    sentence = said(with_loss)
    next_start = said(partial(parts, model, mode=mode))
    overruled, _, _ = parts(model, mode=mode, max_batch=40)
    return [sentence, next_start, list(overruled.handout.plan.shares)]


def one_step(balancer: Any, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    with balancer.guard():
        balancer.backward(cross_entropy(model(x), y))


def sharded(rank: int, world: int) -> list[str]:
    """A model of fully_shard cannot skip a step."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    middle = Failing()
    model = fully_shard(network(middle), mesh=init_device_mesh("cpu", (world,)))
    sampler, _, balancer = parts(model)
    drawn = batches(sampler)
    for _ in range(3):
        one_step(balancer, model, *next(drawn))
    middle.back = True
    return said(partial(one_step, balancer, model, *next(drawn)))


def skipped(rank: int, world: int) -> list[str]:
    """A batch is left out where shares change: the next one is not the one whose turn it is."""
    model = DistributedDataParallel(trained.model())
    sampler, _, balancer = parts(model, mode="static")
    drawn = iter(DataLoader(trained.data(size=640), batch_sampler=sampler))
    x, y = next(drawn)
    balancer.backward(cross_entropy(model(x), y))
    sampler.handout.install(Plan(1, 1, (10, 54)))
    next(drawn)
    sampler.handout.install(Plan(2, 2, (54, 10)))
    x, y = next(drawn)
    return said(lambda: balancer.backward(cross_entropy(model(x), y)))


def repeated(rank: int, world: int) -> list[str]:
    model = DistributedDataParallel(trained.model())
    sampler, _, balancer = parts(model, mode="uniform")
    x, y = next(batches(sampler))
    balancer.backward(cross_entropy(model(x), y))
    return said(lambda: balancer.backward(cross_entropy(model(x), y)))


def sliced(rank: int, world: int) -> list[str]:
    model = DistributedDataParallel(trained.model())
    sampler, _, balancer = parts(model, mode="uniform")
    x, y = next(batches(sampler))
    return said(lambda: balancer.backward(cross_entropy(model(x[:4]), y[:4])))


def bare(rank: int, world: int) -> list[str]:
    return said(lambda: parts(trained.model()))


def evaluated(rank: int, world: int) -> float:
    """Evaluation between steps changes nothing, whatever its batches."""
    model = DistributedDataParallel(trained.model())
    sampler, optimizer, balancer = parts(model, mode="static")
    drawn = iter(DataLoader(trained.data(size=640), batch_sampler=sampler))
    for turn in range(8):
        x, y = next(drawn)
        balancer.backward(cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
        trained.switch(sampler, turn)
        model.eval()
        model(torch.randn(7 + rank, trained.WIDTH, dtype=torch.float64))
        model.train()
        with torch.no_grad():
            model(torch.randn(9, trained.WIDTH, dtype=torch.float64))
    from inband import reference

    return trained.apart(trained.weights(model), reference(8))


def normalised(rank: int, world: int) -> dict[str, list[str]]:
    """Which layers are warned of, and whether once."""
    found = {}
    norm = nn.BatchNorm1d(24).double()
    for name, layer in {
        "batch": norm,
        "layer": nn.LayerNorm(24).double(),
        "synced": nn.SyncBatchNorm(24).double(),
    }.items():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                parts(DistributedDataParallel(network(layer)))
            except ValueError:  # SyncBatchNorm has none for CPUs
                told.clear()
        found[name] = [str(each.message) for each in told if each.category is UserWarning]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        parts(DistributedDataParallel(network(nn.BatchNorm1d(24).double())), mode="uniform")
    found["uniform"] = [str(each.message) for each in told if each.category is UserWarning]
    return found


def unlike(rank: int, world: int) -> list[Any]:
    """One rank has more data than the other, or another mode."""
    model = DistributedDataParallel(trained.model())
    sampler = BalancedSampler(range(640 + rank), BATCH)
    other = BalancedSampler(range(640), BATCH)
    mode = "static" if rank else "adaptive"
    return [
        said(lambda: balance(model, optimizer_of(model), sampler)),
        said(lambda: balance(model, optimizer_of(model), other, mode=mode)),
    ]


def restarted(rank: int, world: int) -> list[Any]:
    """A checkpoint after 7 steps, loaded before or after ``balance``, in each mode; the weights after 12 more."""
    from inband import reference

    def go(model: nn.Module, sampler: Any, optimizer: Any, balancer: Any, steps: int) -> None:
        drawn = batches(sampler, 2)
        for _ in range(steps):
            x, y = next(drawn)
            balancer.backward(cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()

    first = DistributedDataParallel(trained.model())
    sampler, optimizer, balancer = parts(first)
    sampler.handout.install(Plan(1, 2, (50, 14)))
    go(first, sampler, optimizer, balancer, 7)
    states = copy.deepcopy((first.module.state_dict(), optimizer.state_dict(), sampler.state_dict()))
    found = []
    for mode in ("adaptive", "static", "uniform"):
        for early in (True, False):
            model = DistributedDataParallel(trained.model())
            sampler, optimizer = BalancedSampler(trained.data(size=640), BATCH), optimizer_of(model)
            if early:
                sampler.load_state_dict(states[2])
            balancer = balance(model, optimizer, sampler, mode=mode)
            if not early:
                sampler.load_state_dict(states[2])
            model.module.load_state_dict(states[0])
            optimizer.load_state_dict(copy.deepcopy(states[1]))
            begins = list(sampler.handout.plan.shares)
            go(model, sampler, optimizer, balancer, 12)
            found.append([mode, begins, trained.apart(trained.weights(model), reference(19))])
    return found


def strange_checkpoints(rank: int, world: int) -> list[Any]:
    """Versions and shares that no run of ours writes, loaded before or after ``balance``; the weights after 3 steps."""
    from inband import reference

    sampler = BalancedSampler(trained.data(size=640), BATCH)
    state = {**sampler.state_dict(), "batch": 0}
    found = []
    for version, shares, more in (
        (2**53, [50, 14], {}),
        (2**53 + 1, [50, 14], {}),
        (3, [0, 64], {}),
        (3, [63, 2], {}),
        (3, [1, 1], {"conserve": False, "flex": 0.01}),
        (3, [50, 14], {"max_batch": 40}),
    ):
        for early in (True, False):
            model = DistributedDataParallel(trained.model())
            sampler, optimizer = BalancedSampler(trained.data(size=640), BATCH), optimizer_of(model)
            told = {**state, "version": version, "shares": shares}
            if early:
                sampler.load_state_dict(told)
            balancer = balance(model, optimizer, sampler, **more)
            if not early:
                sampler.load_state_dict(told)
            begins, drawn = list(sampler.handout.plan.shares), batches(sampler, 2)
            for _ in range(3):
                x, y = next(drawn)
                balancer.backward(cross_entropy(model(x), y))
                optimizer.step()
                optimizer.zero_grad()
            plan = sampler.handout.plan
            exact = more.get("conserve", True) is False or trained.apart(trained.weights(model), reference(3)) <= 1e-12
            found.append([plan.version < 100, begins, list(plan.shares), exact])
    return found


def in_step(rank: int, world: int) -> list[str]:
    """The optimizer's own state has no room: that is no pass that can be skipped."""
    model = DistributedDataParallel(trained.model())
    sampler, _, balancer = parts(model)
    drawn = batches(sampler)
    one_step(balancer, model, *next(drawn))

    def step() -> None:
        x, y = next(drawn)
        with balancer.guard():
            balancer.backward(cross_entropy(model(x), y))
            raise OUT_OF_MEMORY

    return said(step)


def left_out(rank: int, world: int) -> list[bool]:
    """A step that no rank takes after one ran out of memory in it: whether that step, and the next, move weights."""
    middle = Failing()
    model = DistributedDataParallel(network(middle))
    sampler, optimizer, balancer = parts(model)
    drawn = batches(sampler)
    moved = []
    for number in range(3):
        before = trained.weights(model)
        middle.back = number == 1 and rank == 0
        one_step(balancer, model, *next(drawn))
        if number != 1:
            optimizer.step()
        optimizer.zero_grad()
        moved.append(trained.apart(trained.weights(model), before) > 0)
    return moved


def viewed(rank: int, world: int) -> list[Any]:
    """Gradients that are kept as views of one bucket do not tell which of them have come."""
    middle = Failing()
    model = DistributedDataParallel(network(middle), gradient_as_bucket_view=True)
    sampler, optimizer, balancer = parts(model)
    drawn = batches(sampler)
    for _ in range(3):
        one_step(balancer, model, *next(drawn))
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    middle.back = True
    return said(partial(one_step, balancer, model, *next(drawn)))


def capped(rank: int, world: int) -> list[int]:
    """Rank 0 says that 7 samples fit."""
    sampler, _, _ = parts(DistributedDataParallel(trained.model()), max_batch=7 if rank == 0 else None)
    return list(sampler.handout.plan.shares)


def too_small(rank: int, world: int) -> list[str]:
    return said(lambda: parts(DistributedDataParallel(trained.model()), max_batch=7))


def compiled(around: str, rank: int, world: int) -> list[Any]:
    """Shares of a compiled model are multiples of 8, also where a plan changes; the weights are as they should be."""
    from inband import Slow, reference

    middle = Slow()
    middle.times = 12 if rank == 1 else 1
    middle.forward = torch.compiler.disable(middle.forward)
    inner = network(middle)
    if around == "inside":
        model = DistributedDataParallel(torch.compile(inner, backend="eager", dynamic=True))
    elif around == "in_place":
        inner.compile(backend="eager", dynamic=True)
        model = DistributedDataParallel(inner)
    else:
        model = torch.compile(DistributedDataParallel(inner), backend="eager", dynamic=True)
    sampler, optimizer, balancer = parts(model)
    drawn, sizes = batches(sampler), []
    while len(sizes) < 12 or len(set(sizes)) == 1:
        x, y = next(drawn)
        sizes.append(len(x))
        balancer.backward(cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    return [sizes, trained.apart(trained.weights(model), reference(len(sizes)))]


def micro_batches(rank: int, world: int) -> list[Any]:
    """Batches taken in micro-batches of 4: shares come to be multiples of 4, and stay exact."""
    from inband import reference

    model = DistributedDataParallel(trained.model())
    sampler, optimizer, balancer = parts(model)
    drawn, sizes = batches(sampler), []
    for _ in range(60):
        x, y = next(drawn)
        sizes.append(len(x))
        pieces = list(zip(x.split(4), y.split(4), strict=True))
        for a, b in pieces[:-1]:
            with model.no_sync():
                balancer.backward(cross_entropy(model(a), b), samples=len(a))
        a, b = pieces[-1]
        balancer.backward(cross_entropy(model(a), b), samples=len(a))
        optimizer.step()
        optimizer.zero_grad()
    return [sizes, trained.apart(trained.weights(model), reference(60))]


def dies(rank: int, world: int) -> list[str]:
    """Rank 1 dies in an exchange; the others end by themselves."""
    model = DistributedDataParallel(trained.model())
    sampler, _, balancer = parts(model)
    drawn = batches(sampler)
    one_step(balancer, model, *next(drawn))
    x, y = next(drawn)
    if rank == 1:
        balancer._switching._exchange.gather_later = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    trained.tell(rank, "dies", said(lambda: balancer.backward(cross_entropy(model(x), y))))
    os._exit(3)


CASES: dict[str, Callable[[int, int], Any]] = {
    "first_step": partial(first_step, "adaptive"),
    "first_step_static": partial(first_step, "static"),
    "sharded": sharded,
    "skipped": skipped,
    "repeated": repeated,
    "sliced": sliced,
    "bare": bare,
    "evaluated": evaluated,
    "normalised": normalised,
    "capped": capped,
    "too_small": too_small,
    "unlike": unlike,
    "in_step": in_step,
    "left_out": left_out,
    "viewed": viewed,
    "restarted": restarted,
    "strange_checkpoints": strange_checkpoints,
    "compiled_inside": partial(compiled, "inside"),
    "compiled_in_place": partial(compiled, "in_place"),
    "compiled_outside": partial(compiled, "outside"),
    "micro_batches": micro_batches,
}

if __name__ == "__main__":
    import sys

    if sys.argv[1:] == ["dies"]:
        CASES["dies"] = dies
    trained.run_cases(CASES)
