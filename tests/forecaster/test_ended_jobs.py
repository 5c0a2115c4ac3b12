"""A job that has ended or was killed has no end in the future."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.job_profiles import JobProfiles
from forecaster.memory import Memory
from forecaster.models.registry import Registry
from paceline.events import JobDescribed, JobWindow
from paceline.events.silence import JOB_SILENT_S, RUN_SILENT_S

BEGAN_S = 1.8e9


def window(second: int) -> JobWindow:
    """Two steps in a second."""
    return JobWindow(
        cluster="c", start_s=BEGAN_S + second, length_s=1.0, job="j", attempt=0, ranks=2, steps=2,
        first_step=2 * second, last_step=2 * second + 1, step_median_s=0.5, step_p95_s=0.6, own_median_s=0.4,
        own_worst_s=0.5, worst_rank=1, wait_ratio=None, phase_median_s={},
    )  # fmt: skip


def described(ended_s: float | None) -> JobDescribed:
    return JobDescribed(
        cluster="c", producer="n", sequence=0, job="j", attempt=0, node="n", world_size=2, backend="gloo",
        framework="torch", started_s=BEGAN_S, ended_s=ended_s, labels={"total_steps": "1200"}, places=[],
    )  # fmt: skip


class Clock:
    """The time that a test sets."""

    now_s = BEGAN_S + 100.0

    def __call__(self) -> float:
        """Now."""
        return self.now_s


@pytest.fixture(scope="module")
def asked(
    serving: Callable[..., contextlib.AbstractContextManager[str]], models: Registry
) -> Iterator[Callable[..., dict[str, Any]]]:
    """The profile of a job that was measured for 100 s, so many seconds later."""
    memory, executor, clock = Memory(), ForecastExecutor(models, 1), Clock()
    for second in range(100):
        memory.update(window(second))
    with serving(application(executor, memory, clock=clock)) as address:

        def ask(later_s: float) -> dict[str, Any]:
            clock.now_s = BEGAN_S + 100.0 + later_s
            made: dict[str, Any] = httpx.get(f"{address}/v1/jobs/j/profile?total_steps=1200", timeout=None).json()
            return made

        yield ask


def test_a_job_that_has_ended_has_no_end() -> None:
    """Neither by its label nor by the number that is asked for; a note has when it ended."""
    profiles = JobProfiles()
    for second in range(100):
        profiles.on_window(window(second))
    profiles.on_described(described(None))
    (state,) = profiles.find("j")
    assert state.profile().end_s == pytest.approx(BEGAN_S + 600.0)
    profiles.on_described(described(BEGAN_S + 100.0))
    made = state.profile()
    assert (made.end_s, made.end_low_s, made.end_high_s, made.cycle_next_s, state.end(1200)) == (None,) * 5
    for second in range(100, 130):
        profiles.on_window(window(second))
    assert state.profile().end_s == pytest.approx(BEGAN_S + 600.0), "other nodes go on"
    assert made.notes[0] == "it ended at 2027-01-15T08:01:40Z: no end is forecast"


def test_a_job_that_falls_silent_is_noted_and_then_over(asked: Callable[..., dict[str, Any]]) -> None:
    """As long as it may go on it has an end, with a note."""
    fresh = asked(JOB_SILENT_S - 1.0)
    assert fresh["end_s"] == pytest.approx(BEGAN_S + 600.0)
    assert not any("no data" in note for note in fresh["notes"])
    silent = asked(JOB_SILENT_S + 1.0)
    assert silent["end_s"] == fresh["end_s"]
    assert silent["notes"][0] == "no data since 21 s ago: the end is that of a job that goes on"
    over = asked(RUN_SILENT_S + 1.0)
    assert (over["end_s"], over["end_low_s"], over["end_high_s"]) == (None, None, None)
    assert over["notes"][0].endswith("it has ended or was killed, and no end is forecast")
