"""What is known of a job: its kind, its cycle, its end."""

import msgspec
import numpy as np
import pytest

from forecaster.job_activity import SECONDS
from forecaster.job_profiles import JOBS, JobProfiles
from paceline.events import DeviceProcess, DeviceSamples, JobDescribed, JobWindow

COLUMNS = [
    name
    for name in DeviceSamples.__struct_fields__
    if name not in ("schema_version", "cluster", "producer", "sequence", "node", "t0_s", "uuids", "device", "time_s",
                    "processes", "not_measured")
]  # fmt: skip


def window(second: int, evaluating: bool = False, attempt: int = 0) -> JobWindow:
    return JobWindow(
        cluster="c", start_s=float(second), length_s=1.0, job="j", attempt=attempt, ranks=2, steps=2,
        first_step=2 * second, last_step=2 * second + 1, step_median_s=0.5, step_p95_s=0.6, own_median_s=0.4,
        own_worst_s=0.5, worst_rank=1, wait_ratio=None, phase_median_s={"evaluation": 0.3} if evaluating else {},
    )  # fmt: skip


def described(**labels: str) -> JobDescribed:
    return JobDescribed(
        cluster="c", producer="p", sequence=0, job="j", attempt=0, node="n", world_size=2, backend="gloo",
        framework="torch", started_s=0.0, places=[], labels=labels,
    )  # fmt: skip


def samples(second: int, utilization: float, job: str = "served") -> DeviceSamples:
    empty = {name: [None] for name in COLUMNS} | {"utilization_ratio": [utilization]}
    process = DeviceProcess(device=0, pid=1, name="python", job=job)
    return DeviceSamples(
        cluster="c", producer="p", sequence=second, node="n", t0_s=float(second), uuids=["g0"], device=[0],
        time_s=[0.0], processes=[process], **empty,
    )  # fmt: skip


def test_a_job_with_steps_is_training() -> None:
    """Whatever its utilisation."""
    profiles = JobProfiles()
    profiles.on_window(window(1))
    (profile,) = [one.profile() for one in profiles.find("j")]
    assert (profile.kind, profile.kind_probability) == ("training", 1.0)
    assert profile.cycle_period_s is None


def test_evaluations_are_the_cycle() -> None:
    """Their begins give period and next occurrence, to the second."""
    profiles = JobProfiles()
    for second in range(600):
        profiles.on_window(window(second, evaluating=second % 60 in (30, 31, 32)))
    profile = profiles.find("j")[0].profile()
    assert profile.cycle_period_s == pytest.approx(60.0, abs=0.5)
    assert profile.cycle_next_s == pytest.approx(630.0, abs=2.0)


def test_the_end_is_known_where_the_steps_are() -> None:
    """Steps that are left times seconds a step, from the newest window on; unknown without their number."""
    profiles = JobProfiles()
    profiles.on_window(window(99))  # up to step 199, until second 100
    assert profiles.find("j")[0].profile().end_s is None
    profiles.on_described(described(max_steps="1200"))
    assert profiles.find("j")[0].profile().end_s == pytest.approx(100.0 + 1000 * 0.5)


def test_a_job_without_steps_is_named_by_its_gpus() -> None:
    """An idle GPU is idle; its samples belong to the job that its process names."""
    profiles = JobProfiles()
    for second in range(120):
        profiles.on_samples(samples(second, 0.0))
    profile = profiles.find("served")[0].profile()
    assert profile.kind == "idle"
    assert 0.0 < (profile.kind_probability or 0.0) <= 1.0


def test_a_gpu_that_jobs_share_says_of_none_how_busy_it_is() -> None:
    """Whatever the order of its processes; each was there, and one that has it alone again is measured again."""
    profiles = JobProfiles()
    for second in range(10):
        alone, other = samples(second, 0.99), samples(second, 0.99, job="other")
        both = [*alone.processes, *other.processes][:: 1 if second % 2 else -1]
        profiles.on_samples(msgspec.structs.replace(alone, processes=both))
    first, second_job = profiles.find("served")[0], profiles.find("other")[0]
    assert (first.activity.means(), second_job.activity.means()) == ({}, {})
    assert (first.seen_s, second_job.seen_s) == (9.0, 9.0)
    profiles.on_samples(samples(10, 0.5))
    assert first.activity.means() == {"utilization_ratio": [0.5]}


def test_a_new_attempt_starts_from_nothing() -> None:
    """What an earlier attempt did says nothing of this one."""
    profiles = JobProfiles()
    profiles.on_window(window(99))
    profiles.on_window(window(1, attempt=1))
    assert list(profiles.find("j")[0].progress) == [(1.0, 1), (2.0, 3)]


def test_memory_is_bounded() -> None:
    """Seconds of a job and jobs have a limit each."""
    profiles = JobProfiles()
    for second in range(SECONDS + 200):
        profiles.on_samples(samples(second, 0.5))
    assert len(profiles.find("served")[0].activity.means()["utilization_ratio"]) == SECONDS
    for number in range(JOBS + 10):
        profiles.on_samples(samples(1, 0.5, job=f"job-{number}"))
    assert len(profiles.every()) == JOBS


def test_times_far_apart_are_answered_at_once() -> None:
    """A clock that jumped by a year does not make a year of seconds."""
    profiles = JobProfiles()
    profiles.on_samples(samples(1, 0.5))
    profiles.on_samples(samples(31_536_000, 0.5))
    activity = profiles.find("served")[0].activity.means()
    assert len(activity["utilization_ratio"]) <= SECONDS + 1
    assert np.isfinite(profiles.find("served")[0].profile().time_s)


def test_a_job_that_was_never_measured_has_no_time() -> None:
    """Described, and no second of it was read: not the beginning of 1970."""
    profiles = JobProfiles()
    profiles.on_described(described(total_steps="100"))
    (state,) = profiles.find("j")
    assert (state.profile().time_s, state.profile().end_s, state.end(100)) == (None, None, None)
    profiles.on_window(window(7))
    assert state.profile().time_s == 8.0


@pytest.mark.parametrize("raw", ["\N{SUPERSCRIPT TWO}", "9" * 400, "-3", "", "1e3", "\N{ARABIC-INDIC DIGIT THREE}"])
def test_a_label_that_is_no_number_of_steps_is_none(raw: str):
    """Labels come from whoever trains: no end is forecast of them, and nothing fails."""
    profiles = JobProfiles()
    profiles.on_described(described(total_steps=raw))
    profiles.on_window(window(7))
    (state,) = profiles.find("j")
    assert (state.total_steps, state.profile().end_s) == (None, None)


def test_an_end_is_forecast_of_a_total_of_steps():
    """Published with its interval, which a job that has hardly begun has not made narrow."""
    profiles = JobProfiles()
    profiles.on_described(described(total_steps="1000000"))
    profiles.on_window(window(7))
    profile = profiles.find("j")[0].profile()
    assert 8.0 < profile.end_low_s < profile.end_s < profile.end_high_s


def test_a_job_of_more_steps_than_time_has_no_end():
    """Whoever trains names the number of steps: an end that no event may hold is none, and the rest is published."""
    profiles = JobProfiles()
    profiles.on_described(described(total_steps="9" * 16))
    profiles.on_window(window(7))
    profile = profiles.find("j")[0].profile()
    assert (profile.end_s, profile.end_low_s, profile.kind) == (None, None, "training")
