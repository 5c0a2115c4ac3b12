"""Train the shipped model: ``python -m forecaster.job_kinds.train DATA_FOLDER -o forecaster/job_kinds/model.json``.

A softmax over features, squares and products, penalised, every kind of equal weight. It sees each job as it was
recorded, as a machine three times faster or slower would have recorded it, in shorter windows, more coarsely sampled,
and with series missing. Scores are by program: a job is never judged by a model that saw any job of its program.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.options import Parser

from .classifier import classify
from .features import FEATURES
from .kind import JOB_KINDS
from .labelled_jobs import TELEMETRY, LabelledJob, feature_rows, pieces, read, resampled, rescaled
from .model import FORMAT, KindModel, expanded

VERSION = "2"
SEED = 20261121
PENALTY = 30.0
#: Chance that a series is missing in a training window's second look.
MISSING = 0.2
#: Unfamiliar is farther from all familiar windows than this share of windows of jobs that the model did not see …
FAMILIAR = 0.99
#: … by this factor: other machines differ more than jobs on one machine do.
LENIENCE = 1.25
EXAMPLES_A_JOB = 4

EXAMPLES = """\
examples:
  python -m forecaster.job_kinds.train data -o forecaster/job_kinds/model.json   train, score by job, write
  python -m forecaster.job_kinds.train data                                  the same, to the screen
"""


@dataclass(frozen=True)
class FeatureRows:
    """Training windows: features (windows x features), the kind (an index into KINDS) and the job of each."""

    features: NDArray[np.float64]
    kind: NDArray[np.int64]
    job: NDArray[np.str_]

    def of(self, chosen: NDArray[np.bool_]) -> "FeatureRows":
        """The windows where ``chosen``."""
        return FeatureRows(self.features[chosen], self.kind[chosen], self.job[chosen])


def gathered(jobs: Sequence[LabelledJob]) -> FeatureRows:
    """The windows of all jobs."""
    parts = [feature_rows(one) for one in jobs]
    kinds = np.repeat([JOB_KINDS.index(one.kind) for one in jobs], [len(part) for part in parts])
    return FeatureRows(np.vstack(parts), kinds, np.repeat([one.job for one in jobs], [len(part) for part in parts]))


def variations(jobs: Sequence[LabelledJob], random: np.random.Generator) -> list[LabelledJob]:
    """The jobs as they are, and as other machines and monitors would have them."""
    variants = list(jobs)
    for one in jobs:
        variants += [rescaled(one, random) for _ in range(2)]
        variants += [rescaled(piece, random) for piece in pieces(one, 15.0)]
        variants += [rescaled(piece, random) for piece in pieces(one, 20.0)]
        variants.append(resampled(rescaled(one, random), 2.0))
    return variants


def fit(rows: FeatureRows, familiar: FeatureRows, random: np.random.Generator, reach: float = np.inf) -> KindModel:
    """A model of ``rows``; ``familiar`` are the windows that the model is to know."""
    from scipy.optimize import minimize

    centre, spread = rows.features.mean(axis=0), np.maximum(rows.features.std(axis=0), 1e-3)
    blank = np.zeros((len(JOB_KINDS), 1))
    model = KindModel(
        VERSION, JOB_KINDS, tuple(FEATURES), centre, spread, blank, _examples(familiar, centre, spread), reach
    )
    standard = model.standardised(rows.features)
    inputs = expanded(np.vstack((standard, _with_holes(standard, random))))
    wanted = np.eye(len(JOB_KINDS))[np.concatenate((rows.kind, rows.kind))]
    weight = (wanted / np.maximum(wanted.sum(axis=0), 1)).sum(axis=1) * len(wanted) / len(JOB_KINDS)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(len(JOB_KINDS), -1)
        scores = inputs @ weights.T
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        surprise = -np.log(np.maximum((chances * wanted).sum(axis=1), 1e-12))
        slope = ((chances - wanted) * weight[:, None]).T @ inputs + PENALTY * weights
        return float(weight @ surprise + PENALTY / 2 * np.sum(weights**2)), slope.ravel()

    start = np.zeros(len(JOB_KINDS) * inputs.shape[1])
    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    weights = optimum.x.reshape(len(JOB_KINDS), -1)
    return KindModel(VERSION, JOB_KINDS, model.features, centre, spread, weights, model.examples, reach)


def _with_holes(standard: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """A copy in which some windows lack some series (0, the mean, stands for missing); activity never."""
    holes = standard.copy()
    owner = np.array(list(FEATURES.values()))
    for series in sorted(set(owner) - {"activity"}):
        missing = random.random(len(holes)) < MISSING
        holes[np.ix_(missing, owner == series)] = 0.0
    return holes


def _examples(familiar: FeatureRows, centre: NDArray[np.float64], spread: NDArray[np.float64]) -> NDArray[np.float64]:
    chosen: list[int] = []
    for job in np.unique(familiar.job):
        windows = np.flatnonzero(familiar.job == job)
        chosen += windows[np.linspace(0, len(windows) - 1, min(EXAMPLES_A_JOB, len(windows))).astype(int)].tolist()
    return np.clip((familiar.features[chosen] - centre) / spread, -4, 4)


@dataclass(frozen=True)
class Judged:
    """A model and the job it never saw."""

    job: LabelledJob
    model: KindModel


def leave_out(jobs: Sequence[LabelledJob], group_of: Callable[[LabelledJob], str]) -> list[Judged]:
    """For each job, a model that was trained on all jobs of other groups: of other programs, say."""
    random, known = np.random.default_rng(SEED), of_kinds(jobs)
    rows, familiar = gathered(variations(known, random)), gathered(known)
    groups = {one.job: group_of(one) for one in jobs}
    models = {}
    for group in sorted(set(groups.values())):
        others = [name for name, of in groups.items() if of != group]
        models[group] = fit(rows.of(np.isin(rows.job, others)), familiar.of(np.isin(familiar.job, others)), random)
    return [Judged(one, models[groups[one.job]]) for one in jobs]


def of_kinds(jobs: Sequence[LabelledJob]) -> list[LabelledJob]:
    """Those that are of a kind that has a name."""
    return [one for one in jobs if one.kind in JOB_KINDS]


def by_job(job: LabelledJob) -> str:
    """Each job is a group of its own."""
    return job.job


def by_program(job: LabelledJob) -> str:
    """Jobs of a program are a group."""
    return job.program


def macro_f1(pairs: Sequence[tuple[str, str]]) -> float:
    """Mean over the kinds present of the harmonic mean of precision and recall; ``pairs`` are (true, predicted)."""
    scores = []
    for kind in sorted({true for true, _ in pairs}):
        right = sum(true == answer == kind for true, answer in pairs)
        wrong = sum((true == kind) != (answer == kind) for true, answer in pairs)
        scores.append(2 * right / (2 * right + wrong))
    return float(np.mean(scores))


def reach_of(judged: Sequence[Judged]) -> float:
    """How far windows of unseen jobs are from the familiar ones, and a margin."""
    known = [one for one in judged if one.job.kind in JOB_KINDS]
    far = [one.model.distance(one.model.standardised(feature_rows(one.job))) for one in known]
    return float(np.quantile(np.concatenate(far), FAMILIAR)) * LENIENCE


def predicted(judged: Judged, job: LabelledJob) -> str:
    """What the model says of ``job``."""
    series = {name: column.tolist() for name, column in job.series.items()}
    return classify(series, job.interval_s, model=judged.model).kind


def content(model: KindModel, scores: dict[str, float], jobs: Sequence[LabelledJob]) -> dict[str, object]:
    """The model as plain JSON."""
    programs = len({one.program for one in jobs})
    return {
        "format": FORMAT,
        "version": model.version,
        "trained_on": f"{TELEMETRY}: {len(jobs)} jobs of {programs} programs on two shared cores",
        "scores": {"leave one program out": {name: round(score, 3) for name, score in scores.items()}},
        "kinds": model.kinds,
        "features": model.features,
        "centre": model.centre.round(5).tolist(),
        "spread": model.spread.round(5).tolist(),
        "reach": round(model.reach, 3),
        "weights": model.weights.round(4).tolist(),
        "examples": model.examples.round(3).tolist(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = Parser(
        prog="python -m forecaster.job_kinds.train",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help=f"where {TELEMETRY} and its index are")
    parser.add_argument("-o", "--output", type=Path, help="file to write; without it, the screen")
    options = parser.parse_args(arguments)
    try:
        jobs = [job for folder in options.folders for job in read(folder)]
    except (OSError, KeyError) as error:
        print(f"cannot read the recordings: {error}", file=sys.stderr)
        return 2
    judged = leave_out(jobs, by_program)
    scores = {
        "macro F1 of jobs": macro_f1([(one.job.kind, predicted(one, one.job)) for one in judged]),
        "macro F1 of 30 s": macro_f1(
            [(one.job.kind, predicted(one, piece)) for one in judged for piece in pieces(one.job, 30.0)]
        ),
    }
    random = np.random.default_rng(SEED)
    known = of_kinds(jobs)
    model = fit(gathered(variations(known, random)), gathered(known), random, reach_of(judged))
    text = json.dumps(content(model, scores, jobs))
    print(", ".join(f"{name} {score:.3f}" for name, score in scores.items()), file=sys.stderr)
    if options.output:
        options.output.write_text(text + "\n", "utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
