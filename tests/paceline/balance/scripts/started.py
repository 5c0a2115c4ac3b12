"""Starts balancing on nodes that were measured, or were not: tells the first shares, and how far weights are off."""

import copy
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import trained
from inband import batches, optimizer_of, reference
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from paceline import rated
from paceline.balance import BalancedSampler, balance
from paceline.balance.plan import Plan

BATCH, STEPS = 64, 12
FILE = rated.RATED_FILE.name


def speed(name: str, value: float, busy: float | None = 0.0, device: str = "cpu") -> rated.Speed:
    return rated.Speed(device, name, "flop/s", value, value, value, 20, 1.7e9, busy_ratio=busy)


def measured(*speeds: rated.Speed, node: str | None = None) -> str:
    """The text of a file with those, measured on the rank's own node or on another."""
    path = trained.folder() / f"made-{os.environ['RANK']}.json"
    rated.write(path, rated.Rated(node or own_node(), 1.7e9, speeds))
    return path.read_text()


def own_node() -> str:
    return f"node-{os.environ['RANK']}"


def gemm(value: float, busy: float | None = 0.0, node: str | None = None) -> str:
    return measured(speed("gemm_float64", value, busy), node=node)


#: What the file of each rank's node says, None where there is none.
FILES: dict[str, Callable[[], tuple[str | None, str | None]]] = {
    "uneven": lambda: (gemm(300e9), gemm(100e9)),
    "both_numbers": lambda: (
        measured(speed("gemm_float64", 300e9), speed("memory_triad", 4e10)),
        measured(speed("gemm_float64", 100e9), speed("memory_triad", 12e10)),
    ),
    "of_another_type": lambda: (
        measured(speed("gemm_float64", 1e9), speed("gemm_bfloat16", 300e9)),
        measured(speed("gemm_bfloat16", 100e9)),
    ),
    "far": lambda: (gemm(1e15), gemm(1.0)),
    "nearly": lambda: (gemm(103e9), gemm(100e9)),
    "missing": lambda: (None, None),
    "one_sided": lambda: (gemm(300e9), None),
    "garbage": lambda: ("\x00{not a file", gemm(100e9)),
    "another_layout": lambda: (gemm(300e9).replace('"layout": 1', '"layout": 99'), gemm(100e9)),
    "another_node": lambda: (gemm(300e9, node="node-7"), gemm(100e9)),
    "busy": lambda: (gemm(300e9), gemm(100e9, busy=0.7)),
    "zero": lambda: (gemm(300e9), gemm(100e9).replace("100000000000.0", "0.0")),
    "infinite": lambda: (gemm(300e9).replace("300000000000.0", "Infinity"), gemm(100e9)),
    "other_names": lambda: (gemm(300e9), measured(speed("memory_triad", 1e9))),
    "of_a_gpu": lambda: (measured(speed("gemm_float64", 300e9, device="GPU-1")), gemm(100e9)),
}


def place(rank: int, case: str, text: str | None, node: str | None = None) -> None:
    """Rank's node and its file."""
    path = Path(trained.folder() / f"rated-{case}-{rank}.json")
    os.environ["PACELINE_NODE"], os.environ[FILE] = node or own_node(), str(path)
    if text is not None:
        path.write_text(text)


def run(sampler: BalancedSampler, **how: Any) -> dict[str, Any]:
    model = DistributedDataParallel(trained.model())
    optimizer = optimizer_of(model)
    balancer = balance(model, optimizer, sampler, **how)
    shares, drawn, sizes = list(sampler.handout.plan.shares), batches(sampler), []
    for _ in range(STEPS):
        x, y = next(drawn)
        sizes.append(len(x))
        balancer.backward(cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    return {
        "shares": shares,
        "sizes": sizes,
        "far": trained.apart(trained.weights(model), reference(STEPS)),
        "state": sampler.state_dict(),
    }


def of_files(case: str, rank: int, world: int) -> dict[str, Any]:
    place(rank, case, FILES[case]()[rank])
    return run(BalancedSampler(trained.data(size=640), BATCH))


def asked(how: dict[str, Any], weights: list[float] | None, rank: int, world: int) -> dict[str, Any]:
    """Unequal files, and a script that wants something else."""
    place(rank, "asked", gemm((300e9, 100e9)[rank]))
    return run(BalancedSampler(trained.data(size=640), BATCH, weights=weights), **how)


def shared(rank: int, world: int) -> dict[str, Any]:
    """Both ranks on one node."""
    place(rank, "shared", gemm(300e9, node="node"), node="node")
    return run(BalancedSampler(trained.data(size=640), BATCH))


def resumed(rank: int, world: int) -> list[list[int]]:
    """A checkpoint with other shares than the ratings', loaded before and after ``balance``."""
    place(rank, "resumed", gemm((300e9, 100e9)[rank]))
    first = BalancedSampler(trained.data(size=640), BATCH)
    first.handout.install(Plan(1, 0, (30, 34)))
    state, found = copy.deepcopy(first.state_dict()), []
    for early in (True, False):
        sampler = BalancedSampler(trained.data(size=640), BATCH)
        model = DistributedDataParallel(trained.model())
        if early:
            sampler.load_state_dict(state)
        balance(model, optimizer_of(model), sampler)
        if not early:
            sampler.load_state_dict(state)
        found.append(list(sampler.handout.plan.shares))
    return found


CASES: dict[str, Callable[[int, int], Any]] = {
    **{case: partial(of_files, case) for case in FILES},
    "even": partial(asked, {"start": "even"}, None),
    "uniform": partial(asked, {"mode": "uniform"}, None),
    "static": partial(asked, {"mode": "static"}, None),
    "weighted": partial(asked, {}, [1.0, 1.0]),
    "capped": partial(asked, {"max_batch": 40}, None),
    "shared": shared,
    "resumed": resumed,
}

if __name__ == "__main__":
    trained.run_cases(CASES)
