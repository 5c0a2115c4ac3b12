"""Jobs whose ranks tell one step in so many, on purpose, are judged as the same jobs told whole."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from paceline import columns, recording, topics, wire
from paceline.events import Finding, JobWindow, StepTimings
from simulator.fault import parse
from simulator.job import Job
from simulator.spec import Spec
from streams.reports.panel import panel
from streams.reports.summary import Summary
from tests.regression.rewrite import HERE
from tests.sampled import Period, thinned
from tests.streams.job_lines import JobDiagnosis, JobWindows

JOBS: dict[str, dict[str, Any]] = {
    "compute": {"ranks": 8, "seed": 3, "faults": (parse("compute:rank=3,size=0.3,from=100"),)},
    "sharded": {"ranks": 16, "fsdp": True, "collectives": 2, "faults": (parse("compute:rank=9,size=0.25,from=100"),)},
    "pipeline": {"ranks": 8, "pp": 4, "microbatches": 8, "faults": (parse("compute:rank=3,size=0.5,from=100"),)},
    "input": {"ranks": 8, "seed": 7, "faults": (parse("input:rank=1,size=0.3,from=100"),)},
    "garbage": {"ranks": 8, "seed": 9, "faults": (parse("gc:rank=2,size=0.4,from=100"),)},
    "processor": {"ranks": 8, "seed": 8, "faults": (parse("cpu:rank=6,size=0.4,from=100"),)},
    "data": {"ranks": 4, "seed": 20, "faults": (parse("input:rank=0-3,size=0.9,from=0"),)},
    "traffic": {"ranks": 8, "seed": 17, "communication": 0.6},
    "stage": {"ranks": 8, "pp": 4, "microbatches": 8, "seed": 15, "stage_skew": {3: 1.3}},
    "sequences": {"ranks": 8, "microbatches": 4, "seed": 16, "uneven": 0.5},
    "healthy": {"ranks": 8, "seed": 1, "evaluate_every": 40, "checkpoint_every": 30},
    "healthy pipeline": {"ranks": 8, "pp": 4, "microbatches": 8, "seed": 2},
}
#: Every rank alike; those of different stages, nodes or places differently; and from some step on.
PERIODS: dict[str, Period] = {
    "1 in 2": lambda rank, step: 2,
    "1 in 4": lambda rank, step: 4,
    "1 in 8": lambda rank, step: 8,
    "mixed": lambda rank, step: (1, 4, 8)[rank % 3],
    "one rank alone": lambda rank, step: 4 if rank == 3 else 1,
    "later": lambda rank, step: 1 if step < 192 else 4,
    "for a while": lambda rank, step: 8 if 64 <= step < 256 else 1,
}


@pytest.fixture(scope="module")
def events() -> Callable[[str], list[Any]]:
    """What the ranks of a job tell, whole."""
    made: dict[str, list[Any]] = {}

    def of(name: str) -> list[Any]:
        if name not in made:
            told = [message.event for message in Job(Spec(steps=480, **JOBS[name])).messages()]
            made[name] = [event for event in told if isinstance(event, StepTimings)]
        return made[name]

    return of


def judged(told: list[Any]) -> list[Finding]:
    """The last word on each finding that was confirmed."""
    diagnosis = JobDiagnosis()
    found = [one for event in told for one in diagnosis.update(event)] + diagnosis.finish()
    confirmed = {one.id for one in found if one.state == "confirmed"}
    return list({one.id: one for one in found if one.id in confirmed}.values())


def verdicts(found: list[Finding]) -> list[tuple[str, str, tuple[int, ...]]]:
    return sorted((one.kind, one.cause, tuple(one.ranks)) for one in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "period"),
    [*((job, "mixed") for job in JOBS), *(("compute", period) for period in PERIODS if period != "mixed")],
)
def test_the_verdicts_are_those_of_the_whole_job(events: Callable[[str], list[Any]], job: str, period: str) -> None:
    """Kinds, causes and ranks; where nothing is wrong nobody is accused, and nothing counts as lost."""
    whole = judged(events(job))
    found = judged(_thin(events(job), period))
    assert verdicts(found) == verdicts(whole)
    for one in found:
        assert one.coverage.events_missing == 0
        assert all(note.startswith("steps sampled: 1 in ") for note in one.coverage.notes)


@pytest.mark.slow
@pytest.mark.parametrize("period", ["1 in 2", "mixed"])
def test_what_it_costs_counts_the_steps_that_are_left_out(events: Callable[[str], list[Any]], period: str) -> None:
    """Of a rank that was slow from step 100 on, as far as both have told of it."""
    ((whole,), (found,)) = (judged([*told]) for told in (events("compute"), _thin(events("compute"), period)))
    a_step_s = [one.cost.lost_s / (one.last_step - one.first_step + 1) for one in (whole, found)]
    assert a_step_s[1] == pytest.approx(a_step_s[0], rel=0.05)
    assert abs(found.first_step - whole.first_step) <= 16


def _thin(told: list[Any], period: str) -> list[Any]:
    return [thinned(event, PERIODS[period]) for event in told]


@pytest.mark.slow
@pytest.mark.parametrize("period", ["1 in 8", "mixed"])
def test_windows_count_the_steps_that_are_left_out(events: Callable[[str], list[Any]], period: str) -> None:
    """A job's pace is what it was; nobody is waited for who leaves a step out."""
    steps = []
    for told in (events("healthy"), _thin(events("healthy"), period)):
        windows = JobWindows()
        said = [one for event in told for one in windows.update(event)]
        steps.append(sum(one.steps for one in said if isinstance(one, JobWindow) and one.length_s == 60.0))
    assert steps[1] == pytest.approx(steps[0], rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "period"), [("real-compute", 2), ("real-input", 4), ("real-gc", 2)])
def test_real_runs(name: str, period: int) -> None:
    """Recorded ones, thinned."""
    found = []
    for every in (1, period):
        lines = [one for one in recording.read(str(HERE / f"{name}.jsonl.zst")) if isinstance(one, recording.Line)]
        told = [wire.decode(topics.resolve(line.topic), line.value) for line in lines if ".op." in line.topic]
        found.append(judged([thinned(event, lambda rank, step, every=every: every) for event in told]))
    stragglers = [[one for one in verdicts(each) if one[0] == "straggler"] for each in found]
    assert stragglers[0]
    assert stragglers[1] == stragglers[0]


@pytest.mark.slow
def test_the_state_is_read_back_in_the_middle(events: Callable[[str], list[Any]]) -> None:
    """Of ranks with different periods: stored and restored in the middle, the same is said."""
    told = _thin(events("compute"), "mixed")
    whole, again, windows = JobDiagnosis(), JobDiagnosis(), JobWindows()
    for number, event in enumerate(told):
        if number % 40 == 20:
            again, windows = JobDiagnosis.restore(again.snapshot()), JobWindows.restore(windows.snapshot())
        windows.update(event)
        assert again.update(event) == whole.update(event)


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [63, 2**40])
def test_a_rank_that_says_what_is_not_so_accuses_nobody(events: Callable[[str], list[Any]], left_out: int) -> None:
    """It tells every step and says that it leaves many out: what comes all the same is taken, late or not at all."""
    told = []
    for event in events("healthy"):
        ranks = columns.numbers(event.rank)
        column = columns.whole([left_out if rank == 2 else 0 for rank in ranks])
        told.append(_replaced(event, left_out=column) if len(ranks) else event)
    assert judged(told) == []


def _replaced(event: StepTimings, **changed: Any) -> StepTimings:
    return msgspec.structs.replace(event, **changed)


@pytest.mark.long
def test_a_column_of_another_length_is_refused(events: Callable[[str], list[Any]]) -> None:
    """It says of which row each number is."""
    event = _replaced(events("healthy")[5], left_out=columns.whole([3]))
    with pytest.raises(wire.WireError, match="left_out has 1 rows"):
        wire.decode(topics.OP, wire.encode(event))


@pytest.mark.slow
def test_a_rank_that_dies_among_those_that_leave_steps_out_is_not_waited_for(
    events: Callable[[str], list[Any]],
) -> None:
    """The others are judged on; it counts as silent, not as one that leaves steps out."""
    diagnosis = JobDiagnosis()
    for event in events("compute"):
        gone = event.t0_s > events("compute")[0].t0_s + 60
        diagnosis.update(thinned(event, lambda rank, step, gone=gone: 2**40 if gone and rank == 2 and step else 4))
    notes = diagnosis.phases.coverage.counts().notes
    assert diagnosis.phases.stragglers.accused() == {3}
    assert any(note.startswith("ranks that fell silent") for note in notes)


@pytest.mark.long
def test_the_panel_says_that_steps_were_sampled(events: Callable[[str], list[Any]]) -> None:
    """As many steps as the job made up to the last that was told, and how many were told; none of it as missing."""
    summary = Summary()
    for event in _thin(events("healthy"), "1 in 4"):
        summary.update(event)
    text = panel(summary)
    assert "477 steps" in text
    assert "0 messages missing; steps sampled: 1 in 4 (120 of 477)" in text


@pytest.mark.long
def test_what_is_told_whole_has_no_such_column(events: Callable[[str], list[Any]]) -> None:
    assert all("left_out" not in json.dumps(list(wire.untyped(topics.OP, wire.encode(one)))) for one in events("input"))
