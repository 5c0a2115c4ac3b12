"""A job that has ended or was killed has no end in the future."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.job_profiles import JobProfiles
from forecaster.memory import Memory
from forecaster.models.registry import Registry
from paceline.events import JobDescribed, JobWindow, RankPlace
from paceline.events.silence import JOB_SILENT_S, RUN_SILENT_S
from tests.forecaster.one_job import BEGAN_S, described, window


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
    assert profiles.every() == [state], "it is published as one that runs"
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


def run(
    attempt: int, first: int, seconds: int, started: int, ended: int | None = None
) -> list[JobDescribed | JobWindow]:
    """A run of a step a second: what its node says when it starts, its windows, and what it says at its end."""
    windows: list[JobDescribed | JobWindow] = [
        msgspec.structs.replace(
            window(first + at), attempt=attempt, steps=1, first_step=at, last_step=at, step_median_s=1.0
        )
        for at in range(seconds)
    ]
    says = msgspec.structs.replace(
        described(None), attempt=attempt, started_s=BEGAN_S + started, labels={"total_steps": "10000"}
    )
    last = [msgspec.structs.replace(says, ended_s=BEGAN_S + ended, producer=f"n{started}")] if ended is not None else []
    return [says, *windows, *last]


def expected(events: list[JobDescribed | JobWindow]) -> tuple[int, float]:
    """The attempt, and when it ends."""
    profiles = JobProfiles()
    for event in events:
        if isinstance(event, JobDescribed):
            profiles.on_described(event)
        else:
            profiles.on_window(event)
    (state,) = profiles.find("j")
    made = state.profile()
    assert made.end_s is not None
    return made.attempt, made.end_s - BEGAN_S


def test_a_second_run_of_a_name_is_not_the_end_of_the_first() -> None:
    """Launched again under its name, it begins at step 0, whatever attempt the first run was."""
    second = run(0, 5000, 1000, 5000)
    for first in (run(0, 0, 4000, 0, 4000), run(3, 0, 4000, 0, 4000)):
        assert expected([*first, *second]) == (0, pytest.approx(15_000.0, rel=0.01))


@pytest.mark.parametrize("attempt", [0, 1])
def test_an_earlier_run_that_is_read_later_changes_nothing(attempt: int) -> None:
    """After a restart what jobs say of themselves is read before what was measured, in any order."""
    first, second = run(0, 0, 4000, 0, 4000), run(attempt, 5000, 1000, 5000)
    right = (attempt, pytest.approx(15_000.0, rel=0.01))
    assert expected([second[0], first[-1], *first[1:-1], *second[1:]]) == right
    assert expected([first[-1], second[0], *first[1:-1], *second[1:]]) == right
    assert expected([*first[1:-1], second[0], *second[1:]]) == right
    if attempt:  # Else its first node may be one that joins the run that goes on.
        assert expected([*first[:-1], *second[:600], first[-2], first[-1], *second[600:]]) == right


def test_one_node_that_leaves_is_not_the_end() -> None:
    """The others are still there, also before they are measured again."""
    profiles = JobProfiles()
    for second in range(100):
        profiles.on_window(window(second))
    places = [RankPlace(rank=rank, local_rank=0, node="ab"[rank], device="", pid=1) for rank in (0, 1)]
    a = msgspec.structs.replace(described(None), node="a", places=places[:1])
    b = msgspec.structs.replace(described(None), node="b", places=places[1:])
    for says in (a, b, msgspec.structs.replace(a, ended_s=BEGAN_S + 99.0)):
        profiles.on_described(says)
    assert [one.over_s for one in profiles.every()] == [None]
    profiles.on_described(msgspec.structs.replace(b, ended_s=BEGAN_S + 100.0))
    assert profiles.every() == []


def test_a_node_whose_clock_is_ahead_moves_no_end() -> None:
    """Its GPUs' samples are by its own clock; those of the other nodes count."""
    profiles = JobProfiles()
    profiles.on_described(described(None))
    for second in range(100):
        profiles.on_window(window(second))
    (state,) = profiles.find("j")
    for node, ahead_s in (("a", 0.0), ("b", 3600.0), ("c", 0.0)):
        state.measure(node, BEGAN_S + 100.0 + ahead_s)
    assert (state.profile().end_s, state.seen_s) == (pytest.approx(BEGAN_S + 600.0), BEGAN_S + 100.0)
