"""Real runs: four gloo processes on parts of two processors, under one policy or the other.

Rule of this file: what is compared trains in turn in the same processes, the same steps of the same model; a ratio is
of those in one go, for machines drift by a quarter within minutes.
"""

import math
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from paceline.balance.split import Worker, split
from paceline.decoders import json_decoder
from paceline.terminal import say

from ..processes import free_ports
from . import policies, worker
from .job import Policy, Scenario
from .models import KINDS
from .papers import Cannikin, LbBsp, OmniLearn
from .quota import quotas
from .rank_processes import run_ranks
from .worker import Measured, Task

#: Parts of a processor, as 1:1:2:4, that two processors have room for.
SPEEDS = (0.2, 0.2, 0.4, 0.8)
#: The fastest turns three times slower in the middle third.
SLOWED = (*SPEEDS[:3], SPEEDS[3] / 3)
STEPS, BATCH = 300, 256
#: Steps at the start of a stretch that are not yet its own, and steps of a run that tells how fast ranks are.
SETTLE, CALIBRATION = 20, 60
#: What is measured beside ours, by the name in the report.
RULES: dict[str, Callable[[Scenario], Policy]] = {
    "per-epoch proportional": lambda scenario: policies.PerEpoch(scenario, worker.DATA // BATCH),
    "EWMA speed": policies.SmoothedSpeed,
    "LB-BSP's rule": LbBsp,
    "Cannikin's rule": lambda scenario: Cannikin(scenario, worker.DATA // BATCH),
    "OmniLearn's rule": lambda scenario: OmniLearn(scenario, worker.DATA // BATCH),
}


@dataclass(frozen=True)
class Costs:
    """Seconds of a whole processor: a step, and a sample more."""

    fixed_s: float
    sample_s: float

    def shares(self, speeds: Sequence[float], total: int) -> tuple[int, ...]:
        """The best for ranks with these parts of a processor."""
        workers = [Worker(self.fixed_s / speed, self.sample_s / speed, least=1) for speed in speeds]
        return tuple(split(workers, total))

    def scenario(self, speeds: Sequence[float]) -> Scenario:
        """What policies are told of a run beforehand: its size."""
        slow = 1 / np.asarray(speeds)
        ones = np.ones((STEPS, len(speeds)))
        return Scenario("real", BATCH, self.fixed_s * slow, self.sample_s * slow, ones, ones)


def costs(kind: str) -> Costs:
    """By this process, alone: two sizes of a batch, forward and back."""
    made = KINDS[kind]
    torch.set_num_threads(1)  # as the ranks have it
    torch.manual_seed(0)
    model, data, taken = made.model(), made.data(128), {}
    for size in (8, 64, 8, 64):
        spent = []
        for _ in range(8):
            began = time.thread_time()
            torch.autograd.backward(made.loss(model(data.inputs[:size]), data.targets[:size]))
            spent.append(time.thread_time() - began)
        taken[size] = statistics.median(spent)
    sample_s = (taken[64] - taken[8]) / 56
    return Costs(max(taken[8] - 8 * sample_s, 0.0), sample_s)


def measured(tasks: Sequence[Task], policies: Sequence[Policy | None]) -> list[list[Measured]]:
    """What each rank saw of each task, task by task; they train in turn, in the same processes."""
    name, first = f"paceline-bench-{secrets.token_hex(4)}", tasks[0]
    with (
        tempfile.TemporaryDirectory(prefix="paceline-balancing-") as folder,
        quotas(name, first.world if first.speeds else 0),
    ):
        arguments = (tasks, free_ports(1)[0], name, Path(folder), policies)
        run_ranks(worker.run, arguments, first.world)
        told = [(Path(folder) / f"{rank}.json").read_bytes() for rank in range(first.world)]
    by_rank = [json_decoder(list[Measured]).decode(one) for one in told]
    return [list(ranks) for ranks in zip(*by_rank, strict=True)]


def true_speeds(kind: str, cost: Costs, quota: Sequence[float]) -> tuple[float, ...]:
    """The parts of a processor that ranks with these quotas come to while they train beside each other.

    They share caches and memory, and perhaps a core, so that is not what the quotas say; an oracle knows it.
    """
    found = tuple(quota)
    for _ in range(2):  # The second time under shares that are nearly right: who waits leaves room to others.
        plans = ((0, cost.shares(found, BATCH)),)
        seen = measured([Task(kind, "oracle", CALIBRATION, BATCH, ((0, tuple(quota)),), plans)], [None])[0]
        own_s = [statistics.median(one.own_s[SETTLE:]) for one in seen]
        found = tuple(
            (cost.fixed_s + cost.sample_s * one.samples[-1]) / mine_s for one, mine_s in zip(seen, own_s, strict=True)
        )
    return found


def figures(task: Task, seen: Sequence[Measured]) -> dict[str, Any]:
    """Of a run: samples a second, steps, how far ranks' own times are apart, and how long a change takes."""
    step_s = np.array(seen[0].step_s)
    samples = np.sum([one.samples for one in seen], axis=0)
    own_s = np.array([one.own_s for one in seen])
    rate = float(samples[1:].sum() / step_s[1:].sum())  # memory is new in the first
    apart = own_s.max(axis=0) / own_s.mean(axis=0)
    return {
        "samples_per_s": round(rate, 1),
        "step_ms": round(float(np.median(step_s)) * 1e3, 1),
        "slowest_over_mean": round(float(np.median(apart)), 3),
        "load_variation": round(float(np.median(own_s.std(axis=0) / own_s.mean(axis=0))), 3),
        "epoch_s": round(worker.DATA / rate, 2),
        "adapts_in_steps": [_adapts(step_s, turn, end) for turn, end in _turns(task)],
        "plans": seen[0].plans,
        "final_loss": round(seen[0].final_loss, 4),
        "at_s": [round(float(at), 3) for at in step_s.cumsum()],
        "loss": [round(float(loss), 4) for loss in np.sum([one.loss for one in seen], axis=0) / samples],
    }


def _turns(task: Task) -> list[tuple[int, int]]:
    begins = [step for step, _ in task.speeds]
    return list(zip(begins, [*begins[1:], task.steps], strict=True))


def _adapts(step_s: np.ndarray[Any, np.dtype[np.float64]], begin: int, end: int) -> int:
    """Steps from a change until three in a row are within 15 % of what the stretch settles to."""
    settled = float(np.median(step_s[begin + SETTLE : end]))
    well = step_s[begin:end] <= 1.15 * settled
    return next((at for at in range(len(well) - 2) if well[at : at + 3].all()), end - begin)


def compared(kind: str, *, slowed: bool) -> dict[str, dict[str, Any]]:
    """Every policy on the same run: ranks of fixed speeds, or the fastest slowed down in the middle."""
    cost = costs(kind)
    third = STEPS // 3
    speeds = ((0, SPEEDS), (third, SLOWED), (2 * third, SPEEDS)) if slowed else ((0, SPEEDS),)
    base = Task(kind, "plain", STEPS, BATCH, speeds)
    true = {parts: true_speeds(kind, cost, parts) for _, parts in speeds}
    known = tuple((step, cost.shares(true[parts], BATCH)) for step, parts in speeds)
    tasks: dict[str, tuple[Task, Callable[[], Policy] | None]] = {
        "uniform": (base, None),
        "static proportional": (replace(base, policy="static"), None),
        **{name: (replace(base, policy="rule"), partial(make, cost.scenario(SPEEDS))) for name, make in RULES.items()},
        "ours": (replace(base, policy="ours"), None),
        "oracle": (replace(base, policy="oracle", plans=known), None),
    }
    seen = measured([task for task, _ in tasks.values()], [make() if make else None for _, make in tasks.values()])
    told = {name: figures(task, one) for (name, (task, _)), one in zip(tasks.items(), seen, strict=True)}
    for name, one in told.items():
        one["over_uniform"] = round(one["samples_per_s"] / told["uniform"]["samples_per_s"], 3)
        one["of_oracle"] = round(one["samples_per_s"] / told["oracle"]["samples_per_s"], 3)
        run = f"{kind}, slowed in the middle" if slowed else kind
        say(f"{run}: {name}: {one['samples_per_s']} samples/s, adapts in {one['adapts_in_steps']} steps")
    return told


def both(kind: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Ranks of fixed speeds, and the fastest slowed down in the middle."""
    return {"1:1:2:4": compared(kind, slowed=False), "slowed in the middle": compared(kind, slowed=True)}


def ablations(kind: str = "resnet", steps: int = 200) -> dict[str, dict[str, float]]:
    """What ours brings over plain PyTorch where training is done otherwise."""
    base = Task(kind, "plain", steps, BATCH, ((0, SPEEDS),))
    ways = {
        "as it is": base,
        "bfloat16": replace(base, bfloat16=True),
        "4 micro-batches": replace(base, accumulate=4, batch=BATCH // 4),
        "PowerSGD": replace(base, hook="powersgd"),
        "gradients in fp16": replace(base, hook="fp16"),
    }
    return {name: _in_turn(name, task) for name, task in ways.items()}


def equal(kinds: Sequence[str] = tuple(KINDS), steps: int = 600) -> dict[str, dict[str, float]]:
    """What the balancer costs where there is nothing to balance."""
    even = ((0, (0.45,) * 4),)
    return {kind: _in_turn(f"{kind}, equal", Task(kind, "plain", steps, BATCH, even)) for kind in kinds}


def _in_turn(name: str, task: Task) -> dict[str, float]:
    """Samples a second of plain PyTorch and of ours, and how sure their ratio is."""
    seen = measured([task, replace(task, policy="ours")], [None, None])
    # In the first blocks the balancer still learns, and memory is new.
    plain, ours = (
        np.array(one[0].step_s).reshape(-1, worker.BLOCK).sum(axis=1)[SETTLE // worker.BLOCK :] for one in seen
    )
    samples = worker.BLOCK * BATCH
    ratios = plain / ours
    told = {
        "plain": round(samples * plain.size / float(plain.sum()), 1),
        "ours": round(samples * ours.size / float(ours.sum()), 1),
        "over_uniform": round(float(plain.sum() / ours.sum()), 4),
        "standard_error": round(float(ratios.std(ddof=1) / math.sqrt(ratios.size)), 4),
        "plans": seen[1][0].plans,
    }
    say(f"{name}: {told}")
    return told


def convergence(kind: str = "bert", seeds: int = 5, steps: int = 300) -> dict[str, Any]:
    """The last loss of both, over seeds: mean and standard deviation."""
    last: dict[str, list[float]] = {"plain": [], "ours": []}
    for seed in range(seeds):
        tasks = [Task(kind, policy, steps, BATCH, ((0, SPEEDS),), seed=seed) for policy in last]
        for losses, seen in zip(last.values(), measured(tasks, [None, None]), strict=True):
            losses.append(seen[0].final_loss)
        say(f"{kind}, seed {seed}: last loss {last['plain'][-1]:.4f} plain, {last['ours'][-1]:.4f} ours")
    return {
        policy: {"mean": round(statistics.mean(losses), 4), "sd": round(statistics.stdev(losses), 4), "each": losses}
        for policy, losses in last.items()
    }
