"""Every member's forecasts of many cases, and of earlier moments of the same series: made once, kept in a folder.

A gate is then tried in seconds. ``KNOTS`` steps are kept of each forecast, evenly spread. The network is, for every
source, the one that was trained without that source.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forecaster import backtest, ensemble, scores, traits
from forecaster import gate as gates
from forecaster import question as questions
from forecaster.context import ForecastContext
from forecaster.learning.synthetic import SHAPES, made_up
from forecaster.models import network, patches
from forecaster.models.model import UnsuitedError
from forecaster.models.registry import Registry, registry

from . import data
from .contest import LEVELS, asked, base_of, scale_of
from .data import Array, Case, EvaluationSeries, Task

KNOTS, MADE_UP = 12, "made-up"
#: What the gate weighs: the members of the ensemble that are not weighed apart.
MEMBERS = tuple(
    name for name in registry(None).members if name not in ensemble.BASELINES and name not in ensemble.APART
)
SOURCES = ("pods", "power", "cloud", "alibaba2018", "google2019", "jobs")
#: Cases for learning, by source; each task has as many as the next.
CASES = {"pods": 560, "power": 440, "cloud": 360, "alibaba2018": 360, "google2019": 240, "jobs": 280, MADE_UP: 560}
HORIZONS = {"pods": (12, 30, 60, 120), "power": (12, 30, 60, 120), "jobs": (5, 10, 20), MADE_UP: (12, 30, 60, 120, 288)}
LONG = (12, 36, 60, 120, 288)


@dataclass(frozen=True)
class Evidence:
    """A row a case. ``made``: cases x members x knots x levels; ``tried``: cases x moments x members x knots x levels.

    NaN where a member could not, where there was no moment, or where nothing was measured; values are divided by the
    case's scale. ``losses``: cases x moments x members, mean pinball loss. ``base``: the loss of repeating the season.
    """

    source: NDArray[np.str_]
    group: NDArray[np.str_]
    traits: Array
    made: Array
    actual: Array
    tried: Array
    tried_actual: Array
    losses: Array
    base: Array
    season: Array


def learned_cases(folder: Path, seed: int = 3) -> Iterator[tuple[str, str, int, Case]]:
    """Source, kind of series, horizon, case: of development halves and of made-up series, of every length."""
    rng = np.random.default_rng(seed)
    kinds: dict[str, list[tuple[str, list[EvaluationSeries]]]] = {source: [] for source in SOURCES}
    for task in data.tasks(folder):
        if task.horizon != 288 and task.longest == data.CONTEXT:
            kinds[task.source].append((task.name, task.series))
    invented = made_up(15 * len(SHAPES), rng)
    kinds[MADE_UP] = [
        (
            f"shape {shape}",
            [
                EvaluationSeries(f"{MADE_UP}/{at}", one.values, one.interval_s, one.low, None, "dev")
                for at, one in enumerate(invented)
                if at % len(SHAPES) == shape
            ],
        )
        for shape in range(len(SHAPES))
    ]
    for source, count in CASES.items():
        for number in range(count):
            name, series = kinds[source][number % len(kinds[source])]
            chosen = [one for one in series if one.part in (None, "dev")]
            for _ in range(50):
                horizon = int(rng.choice(HORIZONS.get(source, LONG)))
                longest = data.CONTEXT if rng.random() < 0.6 else int(rng.integers(61, 400))
                task = Task(name, source, series, horizon, 1, 60, longest)
                case = data.drawn(chosen[int(rng.integers(len(chosen)))], task, "dev", rng)
                if case is not None and scale_of(case) > 0.0:  # a constant has nothing to learn from
                    yield source, f"{name} {horizon}", horizon, case
                    break


def gathered(rows: Iterator[tuple[str, str, int, Case]], models: Mapping[str, Registry]) -> Evidence:
    """The evidence of all ``rows``; ``models`` by source."""
    cases = []
    for number, (source, group, horizon, case) in enumerate(rows):
        cases.append({"source": source, "group": group} | _one(case, horizon, models[source]))
        if number % 100 == 99:
            print(f"{number + 1} cases", file=sys.stderr, flush=True)
    return Evidence(*(np.array([case[field.name] for case in cases]) for field in fields(Evidence)))


def _one(case: Case, horizon: int, models: Registry) -> dict[str, Array | float]:
    question = asked(case, horizon, questions.ENSEMBLE)
    scale, series, gap = scale_of(case), questions.prepared(question, 1.0), questions.trailing_gap(case.context)
    context = ForecastContext(series, horizon + gap, LEVELS)
    members = {name: models.members[name] for name in MEMBERS}
    test = backtest.run(series, horizon + gap, LEVELS, members)
    places = _places(horizon)
    made = np.full((len(members), KNOTS, len(LEVELS)), np.nan)
    tried = np.full((backtest.MOMENTS, len(made), KNOTS, len(LEVELS)), np.nan)
    tried_actual, losses = np.full((backtest.MOMENTS, KNOTS), np.nan), np.full((backtest.MOMENTS, len(made)), np.nan)
    earlier = _places(test.actual.shape[1]) if test.moments else places
    if test.moments:
        tried_actual[: test.moments] = test.actual[:, earlier]
    by_moment = test.by_moment
    for row, (name, model) in enumerate(members.items()):
        try:
            made[row] = np.sort(series.clipped(model(context)), axis=1)[gap:][places]
        except UnsuitedError:
            continue
        if name in test.losses:
            tried[: test.moments, row] = test.forecasts[name][:, earlier]
            losses[: test.moments, row] = by_moment[name]
    return {
        "traits": traits.traits(series, horizon + gap),
        "made": (made / scale).astype(np.float32),
        "actual": case.actual[places] / scale,
        "tried": (tried / scale).astype(np.float32),
        "tried_actual": tried_actual / scale,
        "losses": losses / scale,
        "base": float(np.nanmean(np.abs(case.actual - base_of(case, horizon))) / scale),
        "season": float(series.season),
    }


def part(evidence: Evidence, chosen: NDArray[np.bool_]) -> Evidence:
    """Some of the cases."""
    return Evidence(*(getattr(evidence, field.name)[chosen] for field in fields(Evidence)))


def without_gate(evidence: Evidence) -> Array:
    """The ensemble's forecasts by losses and priors alone: cases x knots x levels."""
    return np.array([_averaged(evidence, row, None) for row in range(len(evidence.source))])


def with_gate(evidence: Evidence, gate: gates.Gate) -> Array:
    """The ensemble's forecasts with ``gate``: cases x knots x levels."""
    return np.array([_averaged(evidence, row, gate) for row in range(len(evidence.source))])


def _averaged(evidence: Evidence, row: int, gate: gates.Gate | None) -> Array:
    made = {name: one for name, one in zip(MEMBERS, evidence.made[row], strict=True) if np.isfinite(one[0, 0])}
    moments = np.isfinite(evidence.losses[row]).any(axis=1)
    tried = {name: evidence.losses[row, moments, at] for at, name in enumerate(MEMBERS)}
    tried = {name: losses for name, losses in tried.items() if np.isfinite(losses).any()}
    means = {name: float(np.nanmean(losses)) for name, losses in tried.items()}
    rests = bool(evidence.traits[row, traits.NAMES.index("rests")])
    speaking = ensemble.speaking(made, means, rests)
    shares = ensemble.weights(speaking, means, rests)
    if gate is not None:
        shares = gates.hedged(gates.shares(gate, evidence.traits[row], speaking, tried), shares)
    return ensemble.averaged(made, shares)


def inside(evidence: Evidence, quantiles: Array) -> Array:
    """1 where a value lay inside the 80 % interval, 0 where not, NaN where none was measured: cases x knots."""
    held = (evidence.actual >= quantiles[..., 0]) & (evidence.actual <= quantiles[..., -1])
    return np.where(np.isfinite(evidence.actual), held, np.nan)


def relative(evidence: Evidence, quantiles: Array) -> float:
    """The geometric mean over groups of the loss over that of the base."""
    losses = np.array(
        [
            scores.pinball(actual[np.isfinite(actual)], made[np.isfinite(actual)], LEVELS).mean()
            if np.isfinite(actual).any()
            else np.nan
            for actual, made in zip(evidence.actual, quantiles, strict=True)
        ]
    )
    groups = [evidence.group == group for group in np.unique(evidence.group)]
    return float(np.exp(np.mean([np.log(np.nanmean(losses[one]) / evidence.base[one].mean()) for one in groups])))


def missing(cache: Path) -> str | None:
    """Why there can be no evidence, in one line; None where there can."""
    for kept, options in ((weights_without, "network --part dev"), (pretrained_without, "pretrained --fits FITS")):
        absent = [source for source in SOURCES if not kept(cache, source).is_file()]
        if absent:
            return (
                f"{cache} holds no {options.split()[0]} model without {', '.join(absent)}; "
                f"next: python -m experiments.forecasting.{options} --data FOLDER --leave-out --out {cache}"
            )
    return None


def weights_without(cache: Path, source: str) -> Path:
    """Where the network is kept that was trained without ``source``."""
    return cache / f"network-without-{source}.npz"


def pretrained_without(cache: Path, source: str) -> Path:
    """Where the pretrained model is kept that has seen nothing of ``source``."""
    return cache / f"patches-without-{source}.npz"


def _places(steps: int) -> NDArray[np.intp]:
    return np.linspace(0, steps - 1, KNOTS).round().astype(np.intp)


def models_without(cache: Path) -> dict[str, Registry]:
    """Source -> the models that were trained without it; made-up series take those without power."""
    models = {
        source: registry(
            network.read(weights_without(cache, source)), pretrained=patches.read(pretrained_without(cache, source))
        )
        for source in SOURCES
    }
    return models | {MADE_UP: models["power"]}


def cached(folder: Path, cache: Path) -> Evidence:
    """The evidence of the learned cases, from ``cache`` if it is there and of the members of today."""
    path = cache / f"evidence-{len(MEMBERS)}-{traits.VERSION}.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as table:
            if tuple(table["members"].tolist()) == MEMBERS:
                return Evidence(*(table[field.name] for field in fields(Evidence)))
    made = gathered(learned_cases(folder), models_without(cache))
    with path.open("wb") as file:
        np.savez(
            file, members=np.array(MEMBERS), **{field.name: getattr(made, field.name) for field in fields(Evidence)}
        )
    return made
