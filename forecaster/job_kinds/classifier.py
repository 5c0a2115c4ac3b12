"""Which kind of job its series show.

Rule of this file: a decision. Steps settle it; an unfamiliar job is unknown.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .features import features
from .kind import JOB_KINDS, JobKindEstimate, unknown
from .model import KindModel, shipped
from .windows import ACTIVITY, LONGEST_INTERVAL_S, SHORTEST_S, Window, cut, seconds

#: The likeliest kind must be likelier than all others together.
SURE = 0.5
#: The model is surer of programs that it has not seen than it is right: the logarithms of its probabilities are divided
#: by this, with which it says as much as came true of programs left out of its training.
TEMPERATURE = 1.75
#: Windows vote by the logarithm of their probabilities; none may veto: each probability counts at least this much.
NO_VETO = 0.02
#: How much likelier collectives make each kind. Prior knowledge, not trained: training synchronises its ranks every
#: step; large models are also served over several GPUs; nothing else calls collectives.
COLLECTIVES_ODDS = {"training": 20.0, "batch_inference": 2.0, "inference": 2.0}


def classify(
    series: Mapping[str, Sequence[float | None]],
    interval_s: float,
    has_steps: bool = False,
    model: KindModel | None = None,
) -> JobKindEstimate:
    """The kind of a job.

    Args:
        series: what was measured, by the names in ``windows.SERIES``, oldest first, all of one length; None is not
            measured. Any subset will do.
        interval_s: seconds from sample to sample.
        has_steps: whether the job reports training steps.
        model: another model than the shipped one.

    Raises:
        ValueError: an unknown series, lengths that differ, or an interval that makes no sense.

    >>> classify({}, interval_s=1.0, has_steps=True).kind
    'training'
    >>> classify({"cpu_ratio": [0.0] * 60}, interval_s=1.0).kind
    'idle'
    """
    rows, row_s = seconds(series, interval_s)
    if has_steps:
        return JobKindEstimate(
            "training", 1.0, {kind: float(kind == "training") for kind in JOB_KINDS}, "the job reports steps"
        )
    if interval_s > LONGEST_INTERVAL_S:
        return unknown(f"one sample in {interval_s:g} s is too coarse; {LONGEST_INTERVAL_S:g} s or finer is needed")
    activity = next((name for name in ACTIVITY if name in rows), None)
    if activity is None:
        return unknown(f"no activity was measured; one of {', '.join(ACTIVITY)} is needed")
    windows = cut(rows, row_s)
    if not windows:
        return unknown(f"too short: at least {SHORTEST_S:g} s are needed")
    model = model or shipped()
    standard = model.standardised(rows_of_features(windows, activity, row_s))
    probabilities = _votes(model, standard, activity, rows)
    return _verdict(model, standard, probabilities, activity, len(windows))


def rows_of_features(windows: Sequence[Window], activity: str, row_s: float) -> NDArray[np.float64]:
    """Features of each window (windows x features), with the series ``activity`` as the job's activity."""
    return np.array([features({**window, "activity": window[activity]}, row_s) for window in windows])


def _votes(model: KindModel, standard: NDArray[np.float64], activity: str, rows: Window) -> dict[str, float]:
    """Probability of each kind over all windows."""
    each = np.exp(model.log_probabilities(standard))
    mean = np.exp(np.log((each + NO_VETO) / (1 + NO_VETO * len(model.kinds))).mean(axis=0))
    calm = (mean / mean.sum()) ** (1.0 / TEMPERATURE)
    votes = dict(zip(model.kinds, (calm / calm.sum()).tolist(), strict=True))
    if activity != "cpu_ratio":
        # A steady GPU trains or infers in batches: its activity alone does not tell.
        votes["training"] = votes["batch_inference"] = (votes["training"] + votes["batch_inference"]) / 2
    if float(np.sum(rows.get("collectives_per_s", np.zeros(1)))) > 0:
        votes = {kind: chance * COLLECTIVES_ODDS.get(kind, 1.0) for kind, chance in votes.items()}
    total = sum(votes.values())
    return {kind: votes[kind] / total for kind in JOB_KINDS}


def _verdict(
    model: KindModel, standard: NDArray[np.float64], probabilities: dict[str, float], activity: str, windows: int
) -> JobKindEstimate:
    distance = float(np.median(model.distance(standard)))
    if distance > model.reach:
        return unknown(
            f"unlike every job the model knows: distance {distance:.2f}, at most {model.reach:.2f}", probabilities
        )
    best = max(probabilities, key=lambda kind: probabilities[kind])
    if probabilities[best] < SURE:
        second = sorted(probabilities.values())[-2]
        return unknown(f"{best} at {probabilities[best]:.2f} and the next at {second:.2f}: too close", probabilities)
    used = int(np.isfinite(standard[0]).sum())
    note = (
        f"model {model.version}, {windows} windows, {used} of {len(model.features)} features, activity from {activity}"
    )
    return JobKindEstimate(best, probabilities[best], probabilities, note)
