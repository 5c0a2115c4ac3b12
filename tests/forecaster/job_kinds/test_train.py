"""Training: a model learns made-up jobs and is scored by jobs it never saw."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forecaster.job_kinds.labelled_jobs import COLUMNS, INDEX, TELEMETRY, LabelledJob, read
from forecaster.job_kinds.train import (
    by_job,
    by_program,
    fit,
    gathered,
    leave_out,
    macro_f1,
    main,
    of_kinds,
    predicted,
    variations,
)


def job(name, kind, random, seconds=60):
    """A made-up job of five samples a second: idle, or busy with a write every now and then."""
    busy = kind == "batch_inference"
    size = seconds * 5
    series = {
        "cpu_ratio": (0.8 if busy else 0.002) * (1.0 + 0.1 * random.random(size)),
        "memory_used_bytes": np.full(size, 1e9) + 1e4 * random.random(size),
        "disk_read_bytes_per_s": np.zeros(size),
        "disk_write_bytes_per_s": 1e5 * busy * random.random(size),
        "voluntary_switches_per_s": 20.0 * busy * random.random(size),
    }
    return LabelledJob(name, kind, name[:-1], 0.2, series)


@pytest.fixture(scope="module")
def jobs():
    random = np.random.default_rng(1)
    return [job(f"{kind}{at}", kind, random) for at in range(3) for kind in ("idle", "batch_inference")]


@pytest.mark.slow
def test_jobs_are_judged_by_models_that_never_saw_them(jobs):
    """Every job is right, and no model's examples hold a window of its own."""
    judged = leave_out(jobs, by_job)
    assert macro_f1([(one.job.kind, predicted(one, one.job)) for one in judged]) == 1.0
    for one in judged:
        own = one.model.standardised(gathered([one.job]).features)
        assert one.model.distance(own).min() > 0


@pytest.mark.slow
def test_programs_are_judged_by_models_that_never_saw_any_job_of_theirs(jobs):
    """Nor do jobs of no kind teach anything: they are judged, too."""
    random = np.random.default_rng(2)
    strange = [replace(job(f"strange{at}", "batch_inference", random), kind="unknown") for at in range(2)]
    others = [job(f"other {kind}0", kind, random) for kind in ("idle", "batch_inference")]
    judged = leave_out([*jobs, *others, *strange], by_program)
    for one in judged:
        of_program = [other for other in (*jobs, *others) if other.program == one.job.program]
        for other in of_program:
            assert one.model.distance(one.model.standardised(gathered([other]).features)).min() > 0
    assert {predicted(one, one.job) for one in judged if one.job.program == "strange"} == {"batch_inference"}


@pytest.mark.long
def test_training_is_repeatable(jobs):
    """The same jobs and seed give the same weights."""

    def trained():
        random = np.random.default_rng(3)
        return fit(gathered(variations(jobs, random)), gathered(jobs), random).weights

    assert np.array_equal(trained(), trained())


def test_jobs_of_the_same_name_in_two_folders_are_two(tmp_path):
    """What was recorded twice is not left out, or learned from, under one name; an index may name programs, or not."""
    for name, column in (("one", {}), ("other", {"program": ["compiler"]})):
        (tmp_path / name).mkdir()
        rows = pd.DataFrame({"job": "job00", "t": np.arange(100) * 0.2, **dict.fromkeys(COLUMNS, 1.0)})
        rows.to_parquet(tmp_path / name / TELEMETRY)
        pd.DataFrame({"job": ["job00"], "label": ["unknown"], **column}).to_csv(tmp_path / name / INDEX, index=False)
    found = [*read(tmp_path / "one"), *read(tmp_path / "other")]
    assert len({one.job for one in found}) == 2
    assert found[0].program != found[1].program == "compiler"
    assert of_kinds(found) == []


def test_macro_f1_weighs_kinds_alike():
    """Nine of one kind right and the only one of another wrong is far from 0.9."""
    assert macro_f1([("a", "a")] * 9 + [("b", "unknown")]) == 0.5


def test_a_folder_without_recordings_is_one_line_and_status_2(tmp_path, capsys):
    """No traceback."""
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
