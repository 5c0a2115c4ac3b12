"""Kinds of job: recorded ones are told, unfamiliar ones are not guessed, steps settle it."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from forecaster.job_kinds import JOB_KINDS, classify

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def recorded():
    """Kind -> series of 50 s at five samples a second."""
    series = {kind: defaultdict(list) for kind in JOB_KINDS}
    with (DATA / "jobs_5hz.csv").open() as file:
        for row in csv.DictReader(file):
            kind = row.pop("kind")
            for name, value in row.items():
                series[kind][name].append(float(value))
    return series


def at_one_hertz(series):
    return {name: np.reshape(column, (-1, 5)).mean(axis=1).tolist() for name, column in series.items()}


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_a_recorded_job_is_told(recorded, kind):
    """Each of the six kinds is the likeliest, with probabilities that add up to one; a half is needed to name it."""
    estimate = classify(recorded[kind], interval_s=0.2)
    assert max(estimate.probabilities, key=lambda name: estimate.probabilities[name]) == kind
    assert estimate.kind == (kind if estimate.probability >= 0.5 else "unknown")
    assert sum(estimate.probabilities.values()) == pytest.approx(1)
    assert estimate.probability == max(estimate.probabilities.values())


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_a_job_sampled_once_a_second_is_the_same_job(recorded, kind):
    """Coarser samples give the same answer."""
    chances = classify(at_one_hertz(recorded[kind]), interval_s=1.0).probabilities
    assert max(chances, key=lambda name: chances[name]) == kind


@pytest.mark.parametrize("kind", JOB_KINDS)
@pytest.mark.parametrize("factor", [0.35, 2.8])
def test_a_faster_or_slower_machine_does_not_change_the_kind(recorded, kind, factor):
    """All rates and the memory times ``factor``; the processor cannot be busier than it was."""
    scaled = {
        name: [value * (min(factor, 1.0) if name == "cpu_ratio" else factor) for value in column]
        for name, column in recorded[kind].items()
    }
    assert classify(scaled, interval_s=0.2).kind in (kind, "unknown")


def test_a_job_with_steps_is_training_whatever_else(recorded):
    """Even one that looks idle, or of which nothing else is known."""
    for series in (recorded["idle"], {}, {"power_w": [None]}):
        estimate = classify(series, interval_s=60.0, has_steps=True)
        assert (estimate.kind, estimate.probability) == ("training", 1.0)


def test_an_unfamiliar_job_is_unknown():
    """What writes 10 GB/s and hardly works is like no job the model knows; it is not guessed."""
    random = np.random.default_rng(1)
    strange = {
        "cpu_ratio": [0.001] * 120,
        "disk_write_bytes_per_s": (1e10 * (1 + 0.1 * random.random(120))).tolist(),
    }
    estimate = classify(strange, interval_s=1.0)
    assert estimate.kind == "unknown"
    assert "unlike" in estimate.note


def test_a_steady_gpu_alone_does_not_tell_training_from_batch_inference():
    """95 % utilisation is both; collectives make it training."""
    random = np.random.default_rng(2)
    series = {"utilization_ratio": (0.95 + 0.04 * random.random(120)).tolist()}
    assert classify(series, interval_s=1.0).kind == "unknown"
    assert classify({**series, "collectives_per_s": [40.0] * 120}, interval_s=1.0).kind == "training"


def test_an_idle_gpu_is_idle():
    """Zero is a value."""
    assert classify({"utilization_ratio": [0.0] * 60}, interval_s=1.0).kind == "idle"


def test_not_measured_is_not_zero(recorded):
    """A series of None is as good as absent; holes in a series are bridged."""
    whole = at_one_hertz(recorded["idle"])
    absent = {name: column for name, column in whole.items() if name == "cpu_ratio"}
    blank = {name: column if name == "cpu_ratio" else [None] * len(column) for name, column in whole.items()}
    assert classify(blank, 1.0) == classify(absent, 1.0)
    holes = {
        name: [None if at % 7 == 3 else value for at, value in enumerate(column)] for name, column in whole.items()
    }
    assert classify(holes, 1.0).kind == "idle"


@pytest.mark.parametrize(
    ("series", "interval_s", "reason"),
    [
        ({}, 1.0, "no activity"),
        ({"power_w": [300.0] * 60}, 1.0, "no activity"),
        ({"cpu_ratio": [None] * 60}, 1.0, "no activity"),
        ({"cpu_ratio": [float("nan")] * 60}, 1.0, "no activity"),
        ({"cpu_ratio": [0.5] * 5}, 1.0, "too short"),
        ({"cpu_ratio": [0.5] * 60}, 60.0, "too coarse"),
    ],
)
def test_too_little_is_said(series, interval_s, reason):
    """Unknown, with the reason."""
    estimate = classify(series, interval_s)
    assert estimate.kind == "unknown"
    assert reason in estimate.note


@pytest.mark.parametrize(
    ("series", "interval_s", "named"),
    [
        ({"cpu": [0.5] * 60}, 1.0, "'cpu'"),
        ({"cpu_ratio": [0.5] * 60, "memory_used_bytes": [1.0]}, 1.0, "length"),
        ({"cpu_ratio": [0.5] * 60}, 0.0, "interval_s"),
        ({"cpu_ratio": [0.5] * 60}, float("inf"), "interval_s"),
    ],
)
def test_arguments_that_make_no_sense_are_errors(series, interval_s, named):
    """The error says which."""
    with pytest.raises(ValueError, match=named):
        classify(series, interval_s)


@pytest.mark.parametrize("value", [1e300, -1e300, -5.0, 1e-300])
def test_absurd_numbers_give_an_answer_not_an_error(value):
    """Whatever is posted, probabilities stay numbers."""
    series = {name: [value, 0.0] * 30 for name in ("cpu_ratio", "memory_used_bytes", "disk_write_bytes_per_s")}
    estimate = classify({**series, "voluntary_switches_per_s": [value] * 60}, interval_s=1.0)
    assert all(0 <= chance <= 1 for chance in estimate.probabilities.values())
