"""Verdicts on the job as a whole, and causes from beside it, on simulated jobs of known truth."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from paceline import columns, topics, wire
from paceline.__main__ import main
from paceline.events import Column, Finding, Thresholds
from paceline.recording import Line, read
from simulator.spec import BUS_BYTES_PER_S
from tests.streams.job_lines import JobDiagnosis

Simulate = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def simulate(tmp_path_factory: pytest.TempPathFactory) -> Simulate:
    """Simulates a job; its op and collective events, in order."""

    @functools.cache
    def run(*options: str) -> list[Any]:
        path = tmp_path_factory.mktemp("job") / "job.jsonl"
        assert main(["simulate", *options, "-o", str(path)]) == 0
        lines = (line for line in read(str(path)) if isinstance(line, Line))
        found = ((topics.resolve(line.topic), line.value) for line in lines)
        return [wire.decode(topic, value) for topic, value in found if topic in (topics.OP, topics.COLLECTIVE)]

    return run


def judge(events: list[Any], diagnosis: JobDiagnosis | None = None) -> list[Finding]:
    diagnosis = diagnosis or JobDiagnosis()
    return [finding for event in events for finding in diagnosis.update(event)]


def told(findings: list[Finding]) -> set[tuple[str, str, tuple[int, ...]]]:
    return {(finding.kind, finding.cause, tuple(finding.ranks)) for finding in findings}


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        ("--ranks", "8", "--evaluate-every", "50", "--checkpoint-every", "30"),
        ("--ranks", "16", "--pp", "4"),
        ("--ranks", "4", "--pp", "4"),
        ("--ranks", "8", "--fsdp", "--collectives", "3"),
        ("--ranks", "8", "--noise", "3"),
    ],
    ids=["pauses", "pipeline", "pipeline of single ranks", "fsdp", "noisy"],
)
def test_a_healthy_job_is_left_in_peace(simulate, options):
    """Whatever its parallelism, with evaluations, checkpoints and noise: no finding at all."""
    assert judge(simulate(*options, "--steps", "160")) == []


@pytest.mark.slow
def test_a_long_stage_clears_its_ranks(simulate):
    """A stage with more layers is the cut's fault: the stage is named, and nobody in it."""
    findings = judge(simulate("--ranks", "16", "--pp", "4", "--stage-skew", "3=1.3", "--steps", "120"))
    assert told(findings) == {("stage_imbalance", "pipeline_stage", ())}
    assert {finding.stage for finding in findings} == {3}
    assert findings[-1].state == "confirmed"
    assert findings[-1].cost.lost_s > 0


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--ranks", "16"), ("--ranks", "16", "--pp", "4")], ids=["dp", "pp"])
def test_uneven_sequences_accuse_nobody(simulate, options):
    """Long and short batches fall on all ranks in turn."""
    findings = judge(simulate(*options, "--uneven-sequences", "--steps", "150"))
    assert told(findings) == {("data_imbalance", "sequence_length", ())}


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["32", "4"], ids=["with peers in the stage", "alone in the stage"])
def test_a_slow_rank_of_a_pipeline_is_named_within_its_stage(simulate, ranks):
    """Beside peers of equal work, or against its own past where it has none."""
    fault = "compute:rank=2,size=0.3,from=60"
    findings = judge(simulate("--ranks", ranks, "--pp", "4", "--steps", "100", "--fault", fault))
    assert told(findings) == {("straggler", "worker_compute", (2,))}
    assert (findings[0].first_step, findings[0].state, findings[1].state) == (60, "suspected", "confirmed")
    assert findings[1].last_step <= 70


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "cause", "number"),
    [
        ("throttle:rank=3,size=0.4,from=60,reason=power", "throttling", "throttled_share"),
        ("memory:rank=3,size=0.6,from=60", "memory_pressure", "major_faults"),
    ],
)
def test_the_cause_is_looked_for_beside_the_rank(simulate, fault, cause, number):
    """What the node and device went through at the time explains the slow rank, with its numbers."""
    findings = judge(simulate("--ranks", "8", "--steps", "120", "--fault", fault))
    assert told(findings) == {("straggler", cause, (3,))}
    assert number in {evidence.name for evidence in findings[-1].evidence}


@pytest.mark.slow
def test_without_anything_measured_beside_it_the_verdict_stands(simulate):
    """No conditions: the same rank, and what its phases tell of the cause."""
    from msgspec.structs import replace

    events = simulate("--ranks", "8", "--steps", "120", "--fault", "throttle:rank=3,size=0.4,from=60")
    blind = [replace(event, conditions=[]) if hasattr(event, "conditions") else event for event in events]
    assert told(judge(blind)) == {("straggler", "worker_compute", (3,))}


@pytest.mark.slow
def test_a_job_that_turns_slow_as_a_whole_is_found(simulate):
    """With the step where it began, though there is no cohort to compare with."""
    findings = judge(simulate("--ranks", "8", "--steps", "200", "--fault", "slowdown:size=0.3,from=100"))
    assert told(findings) == {("slowdown", "unknown", ())}
    assert abs(findings[0].first_step - 100) <= 2
    assert findings[1].state == "confirmed"


@pytest.mark.slow
def test_a_job_of_one_rank_is_never_accused(simulate):
    """It has no peers, whatever befalls it; that it turned slow is told of the job."""
    findings = judge(simulate("--ranks", "1", "--steps", "200", "--fault", "compute:rank=0,size=0.5,from=100"))
    assert {finding.kind for finding in findings} <= {"slowdown"}


@pytest.mark.long
def test_a_hang_names_who_is_missing_and_who_waits(simulate):
    """Suspected after half a minute, confirmed after one."""
    findings = judge(simulate("--ranks", "8", "--steps", "110", "--fault", "hang:rank=3,from=100,seconds=120"))
    hangs = [finding for finding in findings if finding.kind == "hang"]
    assert [finding.state for finding in hangs[:2]] == ["suspected", "confirmed"]
    assert {tuple(finding.ranks) for finding in hangs} == {(3,)}
    assert hangs[0].victims == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.slow
def test_transfers_that_fill_the_step_are_told_with_their_bandwidth(simulate):
    """By operation and size, beside what the links are rated at: by their interfaces, or by whoever knows better."""
    events = simulate("--ranks", "16", "--communication", "0.6", "--steps", "100")
    findings = judge(events)
    assert {finding.kind for finding in findings} == {"communication_bound"}
    measured = next(one for one in findings[0].evidence if one.name.startswith("bus_bandwidth_all_reduce"))
    assert measured.peers == BUS_BYTES_PER_S
    assert 0.7 < measured.value / BUS_BYTES_PER_S < 1.1
    told_better = judge(list(changing(events, 1, {"rated_bytes_per_s": 4e11})))
    assert "of 400.00 rated" in told_better[0].summary


def changing(events: list[Any], at: int, values: dict[str, float]) -> Iterator[Any]:
    first = events[0]
    change = Thresholds(cluster=first.cluster, job=first.job, attempt=first.attempt, values=values)
    return iter([*events[:at], change, *events[at:]])


@pytest.mark.slow
def test_thresholds_change_while_the_job_runs(simulate):
    """A rank 10 % slower is told by the default, and not by a bar of 40 %, set before it turned slow."""
    events = simulate("--ranks", "8", "--steps", "130", "--fault", "compute:rank=2,size=0.15,from=60")
    assert told(judge(events)) == {("straggler", "worker_compute", (2,))}
    assert judge(list(changing(events, 30, {"least_excess": 0.4, "least_slowdown": 1.0}))) == []
    assert told(judge(list(changing(events, 30, {"nonsense": 1.0, "sigmas": float("nan")})))) == told(judge(events))


@pytest.mark.slow
def test_state_and_thresholds_survive_a_restart(simulate):
    """At every tenth event the diagnosis is stored and read back: the findings are the same, byte for byte."""
    fault = "throttle:rank=9,size=0.4,from=60"
    events = simulate("--ranks", "16", "--pp", "2", "--uneven-sequences", "0.1", "--steps", "100", "--fault", fault)
    events = list(changing(events, 20, {"least_excess": 0.06}))
    found, diagnosis = [], JobDiagnosis()
    for number, event in enumerate(events):
        found += diagnosis.update(event)
        if number % 10 == 0:
            diagnosis = JobDiagnosis.restore(diagnosis.snapshot())
    assert found == judge(events)
    assert found


#: Columns with a row a step, or a step and something else, in a message of steps and in its tables.
_BY_STEP = ("rank", "step", "start_s", "step_s", "microbatch", "forward_s", "backward_s")
_SUMS = ("step", "group", "operation", "count", "members", "bytes", "wait_s", "duration_s")


def probe_off(events: list[Any], steps: int) -> list[Any]:
    """The same events where the probe is off in every other window of so many steps, from step 20 on."""
    return [_without(event, _BY_STEP, steps) for event in events]


def _without(table: Any, names: tuple[str, ...], steps: int) -> Any:
    numbers = columns.numbers(table.step)
    kept = [at for at, step in enumerate(numbers) if step < 20 or (step - 20) // steps % 2]

    def rows(column: Column) -> Column:
        told = columns.numbers(column)
        return columns.encoded(column.type, [told[at] for at in kept])

    changes: dict[str, Any] = {name: rows(getattr(table, name)) for name in names if hasattr(table, name)}
    if hasattr(table, "phases"):
        changes["phases"] = {name: rows(column) for name, column in table.phases.items()}
    for name, of_table in (("microbatches", _BY_STEP), ("collectives", _SUMS)):
        if (inner := getattr(table, name, None)) is not None:
            changes[name] = _without(inner, of_table, steps)
    return msgspec.structs.replace(table, **changes)


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "seconds"), [(10, 100), (40, 130), (160, 270)])
@pytest.mark.parametrize("options", [("--ranks", "8"), ("--ranks", "16", "--pp", "4"), ("--ranks", "8", "--fsdp")])
def test_steps_without_the_probe_are_nobodys_fault(simulate, options, steps, seconds):
    """Nobody is slow, silent or hangs for them, and the job has not turned slow."""
    events = simulate(*options, "--steps", "540")
    first = [event for event in events if event.t0_s < events[0].t0_s + seconds]
    assert judge(probe_off(first, steps)) == []


@pytest.mark.slow
@pytest.mark.parametrize("steps", [10, 40])
def test_a_slow_rank_is_named_though_half_of_its_steps_are_not_told(simulate, steps):
    """And the findings' coverage says how many were not."""
    events = simulate("--ranks", "8", "--fault", "compute:rank=5,size=0.3,from=100", "--steps", "260")
    findings = judge(probe_off(events, steps))
    assert told(findings) == {("straggler", "worker_compute", (5,))}
    assert findings[-1].state == "confirmed"
    assert any(note.startswith("steps that no rank reported: ") for note in findings[-1].coverage.notes)
