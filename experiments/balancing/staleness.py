"""Bounded staleness beside synchronous training: loss for as many samples, and for as much time.

Rule of this file: real gloo ranks whose work is mostly a wait of a known length, so that what is compared does not
depend on what else the machine does. All ways of one seed train in turn, and see the same data and the same waits.
What is measured adds no average: it is taken where all of them average anyway.
"""

import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from paceline.balance import BalancedSampler, balance
from paceline.decoders import json_decoder
from paceline.terminal import say

from ..markdown import table
from ..processes import free_ports
from .rank_processes import run_ranks
from .report import Aim

WORLD, BATCH, SAMPLES, HELD_OUT = 4, 128, 4096, 2048
STEPS, EVALUATED_EVERY = 160, 16
SEEDS = 3
#: Seconds a sample; where a rank's pace varies, by which factor its steps do (lognormal); how much slower one rank is.
SAMPLE_S, SIGMA, SLOW = 0.001, 0.4, 2.0
#: Way -> mode and staleness.
WAYS: dict[str, dict[str, Any]] = {
    "synchronous": {"mode": "uniform"},
    "staleness 1": {"mode": "bounded_staleness", "staleness": 1},
    "staleness 3": {"mode": "bounded_staleness", "staleness": 3},
    "staleness 7": {"mode": "bounded_staleness", "staleness": 7},
    "adaptive": {"mode": "adaptive"},
}
CONDITIONS = ("all alike", "pace varies from step to step", "one rank twice slower")


@dataclass
class Curve:
    """One way of training: seconds of training after so many steps, and the loss on data held out."""

    at_s: list[float]
    loss: list[float]


def staleness() -> dict[str, Any]:
    """Every way under every condition: steps/s, loss for as many samples and for as much time, beside synchronous."""
    found: dict[str, Any] = {}
    for condition in CONDITIONS:
        curves = {way: list[Curve]() for way in WAYS}
        for seed in range(SEEDS):
            for way, curve in _trained(condition, seed).items():
                curves[way].append(curve)
        found[condition] = _compared(curves)
        for way, told in found[condition].items():
            say(f"{condition}: {way}: {told}")
    return found


def _compared(curves: dict[str, list[Curve]]) -> dict[str, dict[str, list[float]]]:
    """Per way the mean and its standard error over seeds, each seed beside its own synchronous run."""
    told: dict[str, dict[str, list[float]]] = {}
    for way, of_seeds in curves.items():
        rows = []
        for curve, synchronous in zip(of_seeds, curves["synchronous"], strict=True):
            least_s = min(curve.at_s[-1], synchronous.at_s[-1])
            rows.append(
                (
                    synchronous.at_s[-1] / curve.at_s[-1],
                    curve.loss[-1],
                    _at(curve, least_s),
                    _at(curve, least_s) / _at(synchronous, least_s),
                )
            )
        names = ("speed", "loss_same_samples", "loss_same_time", "loss_same_time_over_synchronous")
        told[way] = {
            name: [round(statistics.mean(column), 4), round(_error(column), 4)]
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }
    return told


def _error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _at(curve: Curve, seconds: float) -> float:
    return float(np.interp(seconds, curve.at_s, curve.loss))


def _trained(condition: str, seed: int) -> dict[str, Curve]:
    with tempfile.TemporaryDirectory(prefix="paceline-staleness-") as folder:
        arguments = (condition, seed, free_ports(1)[0], folder)
        run_ranks(_rank, arguments, WORLD)
        return json_decoder(dict[str, Curve]).decode((Path(folder) / "curves.json").read_bytes())


def _rank(rank: int, condition: str, seed: int, port: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "XDG_STATE_HOME": folder}
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    curves = {way: _train(way, condition, seed, rank) for way in WAYS}
    dist.destroy_process_group()
    if rank == 0:
        (Path(folder) / "curves.json").write_bytes(msgspec.json.encode(curves))


def _train(way: str, condition: str, seed: int, rank: int) -> Curve:
    train, held_out = _data(seed)
    torch.manual_seed(seed)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = BalancedSampler(train, BATCH, seed=seed)
    balancer = balance(model, optimizer, sampler, **WAYS[way])
    pace = np.random.default_rng([seed, rank]).lognormal(-(SIGMA**2) / 2, SIGMA, STEPS)
    curve, spent_s, step, epoch = Curve([], []), 0.0, 0, 0
    dist.barrier()
    began = time.perf_counter()
    while step < STEPS:
        sampler.set_epoch(epoch)
        for x, y in DataLoader(train, batch_sampler=sampler):
            loss = cross_entropy(model(x), y)
            time.sleep(len(x) * SAMPLE_S * _factor(condition, rank, float(pace[step])))
            balancer.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % EVALUATED_EVERY == 0:
                balancer.synchronize()
                dist.barrier()
                spent_s += time.perf_counter() - began
                curve.at_s.append(spent_s)
                curve.loss.append(_loss(model.module, held_out))
                dist.barrier()
                began = time.perf_counter()
            if step == STEPS:
                break
        epoch += 1
    return curve


def _factor(condition: str, rank: int, varied: float) -> float:
    if condition == CONDITIONS[1]:
        return varied
    return SLOW if condition == CONDITIONS[2] and rank == 0 else 1.0


def _data(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """What a fixed network labels, a tenth of it wrongly."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(99)
    teacher = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 10))
    x = torch.randn(SAMPLES + HELD_OUT, 32, generator=generator)
    with torch.no_grad():
        y = (teacher(x) * 8).argmax(1)
    wrong = torch.rand(len(y), generator=generator) < 0.1
    y[wrong] = torch.randint(10, (int(wrong.sum()),), generator=generator)
    return TensorDataset(x[:SAMPLES], y[:SAMPLES]), TensorDataset(x[SAMPLES:], y[SAMPLES:])


@torch.no_grad()
def _loss(model: Any, held_out: TensorDataset) -> float:
    x, y = held_out.tensors
    return float(cross_entropy(model(x), y))


def aims(found: dict[str, Any]) -> list[Aim]:
    """What the page says of it: noise goes, and one slow rank stays as slow."""
    alike, varies, straggler = (found[condition]["staleness 7"]["speed"][0] for condition in CONDITIONS)
    balanced = found[CONDITIONS[2]]["adaptive"]["speed"][0]
    return [
        Aim("staleness 7: 1.15 times the steps where pace varies", f"{varies:.2f}", varies >= 1.15),
        Aim("one slow rank: no more than where all are alike", f"{straggler:.2f} of {alike:.2f}", straggler <= alike),
        Aim("there shares by speed bring more", f"{balanced:.2f}", balanced > straggler),
    ]


def text(found: dict[str, Any]) -> str:
    """The tables of it."""
    parts = [
        f"Bounded staleness: {WORLD} ranks over gloo, {STEPS} steps, {SEEDS} seeds; mean ± standard error, each seed "
        "beside its own synchronous run."
    ]
    for condition, ways in found.items():
        head = [condition, "speed", "loss, as many samples", "loss, as much time", "of synchronous"]
        cells = {way: [f"{mean:.3f} ± {error:.3f}" for mean, error in told.values()] for way, told in ways.items()}
        parts.append(table(head, [[way, *row] for way, row in cells.items()]))
    rows = [[aim.name, aim.found, "yes" if aim.met else "no"] for aim in aims(found)]
    return "\n\n".join([*parts, table(["aim", "found", "met"], rows)])
