"""Which run an event belongs to: one job is one job, whatever its nodes say of their restarts."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from paceline import events, wire
from paceline.events.silence import RUN_SILENT_S
from paceline.recording import Line
from simulator.fault import Fault
from simulator.job import Job
from simulator.spec import Spec
from streams.analyze import Analysis
from streams.attempts import MOST_JOBS, MOST_RUNS, Attempts
from streams.reports.panel import panel
from tests.derived_events import described

BEGAN_S = 1_767_225_600.0


def run(began_s: float = BEGAN_S, **changes: Any) -> list[Any]:
    """The messages of a simulated run: four nodes with two ranks each."""
    spec: dict[str, Any] = {"ranks": 8, "steps": 40, "step_s": 0.5, "ranks_a_node": 2, "conditions": False}
    return list(Job(Spec(**(spec | {"began_s": began_s} | changes))).messages())


def counted(messages: Iterable[Any], restarts: dict[str, int]) -> list[Any]:
    """``messages`` with the attempt that each node's agent counts."""
    return [
        message._replace(event=msgspec.structs.replace(message.event, attempt=restarts[message.event.node]))
        for message in messages
    ]


def analyzed(messages: Iterable[Any]) -> tuple[Analysis, str]:
    """What a recording of ``messages`` gives, and its panel."""
    analysis = Analysis(lambda topic, event: None, pytest.fail, totals=True)
    for number, message in enumerate(sorted(messages, key=attrgetter("time_s"))):
        analysis.update(Line(number, message.topic.name, None, 0, wire.encode(message.event)))
    analysis.finish()
    return analysis, panel(analysis.summary)


def attempt_of(mapping: Attempts, event: events.Event) -> int:
    """The attempt that ``event`` gets."""
    said = mapping.unify(event)
    assert isinstance(said, events.JobDescribed | events.StepTimings)
    return said.attempt


def nodes(**names: int) -> dict[str, int]:
    """Restarts by node, ``n0=1`` for node-0000."""
    return {f"node-000{name[1:]}": count for name, count in names.items()}


def place(rank: int, pid: int) -> events.RankPlace:
    return events.RankPlace(rank=rank, local_rank=0, node="", device="cpu", pid=pid)


def says(node: str, attempt: int, rank: int, **changes: Any) -> events.JobDescribed:
    """Node ``node`` speaks for one rank of two."""
    pid = changes.pop("pid", 1)
    return described(node=node, attempt=attempt, world_size=2, places=[place(rank, pid)], **changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "restarts", [nodes(n0=1, n1=0, n2=1, n3=1), nodes(n0=1, n1=1, n2=0, n3=0), nodes(n0=0, n1=3, n2=1, n3=7)]
)
def test_ranks_that_restart_on_some_nodes_only_are_one_job(restarts: dict[str, int]) -> None:
    """torchrun's agents count each for itself: all ranks are compared, and the slow one is named."""
    slow = (Fault("compute", (3,), 0.5, first=8),)
    analysis, said = analyzed(counted(run(faults=slow), restarts))
    assert [len(job.nodes) for job in analysis.summary.jobs.values()] == [8]
    assert "rank 3 on node-0001 held the job back" in said
    assert "Coverage 8 of 8 ranks" in said
    assert "never" not in said


@pytest.mark.slow
def test_a_job_that_shrinks_and_grows_is_three_runs_each_with_its_own_ranks() -> None:
    """8 -> 6 -> 8 ranks, with no restart counted: nobody of an earlier size is missed later."""
    phases = [run(), run(BEGAN_S + 60, ranks=6), run(BEGAN_S + 120)]
    analysis, said = analyzed([message for phase in phases for message in phase])
    jobs = list(analysis.summary.jobs.values())
    assert [(job.attempt, len(job.nodes), job.world_size) for job in jobs] == [(0, 8, 8), (1, 6, 6), (2, 8, 8)]
    assert [line for line in said.splitlines() if "Coverage" in line] == [
        "  Coverage 8 of 8 ranks, 0 messages missing",
        "  Coverage 6 of 6 ranks, 0 messages missing",
        "  Coverage 8 of 8 ranks, 0 messages missing",
    ]


@pytest.mark.slow
def test_a_name_that_is_used_again_an_hour_later_is_another_run() -> None:
    """Same nodes, same ranks, same attempt: two runs, whose steps are not added up."""
    analysis, said = analyzed([*run(), *run(BEGAN_S + 3600)])
    assert [(job.attempt, job.steps) for job in analysis.summary.jobs.values()] == [(0, 40), (1, 40)]
    assert "at the same time" not in said


@pytest.mark.slow
def test_a_job_started_twice_at_once_is_told_as_such() -> None:
    """Other nodes have the same ranks at the same time: two runs, whose numbers are kept apart."""
    slow = (Fault("compute", (3,), 0.5, first=8),)
    twin = run(BEGAN_S + 1, node_names=tuple("efgh"))
    analysis, said = analyzed([*run(faults=slow), *twin])
    assert [(len(job.nodes), job.steps) for job in analysis.summary.jobs.values()] == [(8, 40), (8, 40)]
    assert said.count("2 runs report as job simulated at the same time (attempts 0, 1; ") == 2
    assert said.count("held the job back, steps") == 1


def test_a_recording_whose_nodes_agree_is_left_as_it_is() -> None:
    """Also where its attempts begin with another number, and where an earlier one comes last."""
    mapping = Attempts()
    for event in (says("a", 5, 0), says("b", 5, 1), says("a", 4, 0, started_s=1.0), says("b", 4, 1, started_s=1.0)):
        assert mapping.unify(event) is event


def test_a_node_whose_agent_counts_nothing_moves_on_with_the_others() -> None:
    """Its processes are others than before; rows that were on their way go with the run that they were measured in."""
    mapping = Attempts()
    told = [says("a", 0, 0), says("b", 0, 1), says("b", 0, 1, started_s=950.0, pid=2), says("a", 1, 0, started_s=951.0)]
    assert [attempt_of(mapping, event) for event in told] == [0, 0, 1, 1]
    again = says("b", 0, 1, started_s=950.0, pid=2, ended_s=990.0)
    assert attempt_of(mapping, again) == 1


def test_a_node_that_says_the_same_again_stays() -> None:
    """Also where it knows more of itself later, ends, or was silent for long."""
    mapping = Attempts()
    for change in ({}, {"started_s": 901.0}, {"ended_s": 5000.0}, {"ended_s": 5000.0, "exit_status": 1}):
        assert attempt_of(mapping, says("a", 0, 0, **change)) == 0


def test_rows_of_the_earlier_size_that_come_late_stay_with_it() -> None:
    mapping = Attempts()
    small, large = (
        [m.event for m in run(began, ranks=ranks, steps=8) if not isinstance(m.event, events.JobDescribed)]
        for began, ranks in ((BEGAN_S, 2), (BEGAN_S + 30, 4))
    )
    rows = [next(e for e in part if e.node == "node-0000") for part in (small, large)]
    assert [attempt_of(mapping, event) for event in (rows[0], rows[1], rows[0], rows[1])] == [0, 1, 0, 1]


def test_who_comes_long_after_a_run_fell_silent_belongs_to_another() -> None:
    mapping = Attempts()
    assert attempt_of(mapping, says("a", 1, 0)) == 1
    assert attempt_of(mapping, says("b", 0, 1, started_s=900.0 + RUN_SILENT_S)) == 1
    mapping = Attempts()
    assert attempt_of(mapping, says("a", 1, 0)) == 1
    assert attempt_of(mapping, says("b", 0, 1, started_s=901.0 + RUN_SILENT_S)) == 0


@pytest.mark.parametrize("ahead_s", [-7200.0, 1200.0, 7200.0])
def test_nodes_that_agree_are_one_run_however_far_their_clocks_are_apart(ahead_s: float) -> None:
    """Also where both start again, and where the world shrinks: when a node does so is by its own clock."""
    mapping = Attempts()
    for began_s, pid, attempt in ((90_000.0, 1, 0), (92_000.0, 2, 1)):
        told = [says("a", 0, 0, started_s=began_s, pid=pid), says("b", 0, 1, started_s=began_s + ahead_s, pid=pid)]
        assert [attempt_of(mapping, event) for event in told] == [attempt, attempt]
    mapping = Attempts()
    for began, ranks, attempt in ((BEGAN_S, 8, 0), (BEGAN_S + 30, 6, 1)):
        rows = [m.event for m in run(began, ranks=ranks, steps=8) if not isinstance(m.event, events.JobDescribed)]
        ahead = {"node-0001": ahead_s}
        skewed = [msgspec.structs.replace(one, t0_s=one.t0_s + ahead.get(one.node, 0.0)) for one in rows]
        assert {attempt_of(mapping, event) for event in skewed if isinstance(event, events.StepTimings)} == {attempt}


def test_what_is_kept_is_bounded() -> None:
    """Of a sender whose world has another size in each message, and of many names."""
    mapping = Attempts()
    for number in range(3 * MOST_RUNS):
        mapping.unify(msgspec.structs.replace(says("a", 0, 0, started_s=900.0 + number), world_size=number + 1))
    job = next(iter(mapping._jobs.values()))
    assert (len(job.runs), len(job.nodes)) == (MOST_RUNS, 1)
    for number in range(MOST_JOBS + 5):
        mapping.unify(msgspec.structs.replace(says("a", 0, 0), job=str(number)))
    assert len(mapping._jobs) == MOST_JOBS


def test_an_event_that_speaks_for_nobody_passes() -> None:
    asked = events.Thresholds(cluster="c", job="train", attempt=3, values={})
    assert Attempts().unify(asked) is asked
    assert attempt_of(Attempts(), described()) == 0
