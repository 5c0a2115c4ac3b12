"""The detection benchmark: its scores on made-up accusations, and every rule on one small job."""

import math
from dataclasses import replace

import pytest

from experiments.detection import __main__ as benchmark
from experiments.detection import report, simulated, unseen
from experiments.detection.aims import aims
from experiments.detection.judged import PACELINE, RULES
from experiments.detection.phases import Phases
from experiments.detection.score import mark, summary
from experiments.detection.verdict import Accusation, Case, Injected
from paceline.columns import durations, offsets, whole
from paceline.events import StepTimings
from simulator.fault import Fault
from simulator.spec import Spec
from tests.timings import speakers

FAULT = Injected("gc", 0.3, frozenset([2]), 50, 99, 1000.0, "straggler", "garbage_collection")


def case(*faults):
    return Case("a job", "simulated", 8, 0.5, 1.0, faults, ("stage_imbalance",))


def said(rank, *, step=58, state="confirmed", cause="garbage_collection", kind="straggler", first=50, name="x"):
    ranks = frozenset() if rank is None else frozenset([rank])
    return Accusation(ranks, state, kind, cause, first, step, 1000.0 + step - 50, name)


def test_a_fault_that_is_named_is_found_with_its_delay():
    """Suspicion and confirmation count from the fault's begin; the last word on the cause counts."""
    marks = mark(case(FAULT), [said(2, step=52, state="suspected", cause="unknown"), said(2)])
    (outcome,) = marks.outcomes
    assert (outcome.found, outcome.cause_right) == (True, True)
    assert (outcome.suspected_s, outcome.suspected_steps, outcome.confirmed_steps) == (2.0, 3, 9)
    assert not marks.false_accusations


@pytest.mark.parametrize(
    "accusation",
    [
        said(3),
        said(2, state="suspected"),
        said(2, kind="hang"),
        said(2, first=5, step=20),
        said(2, first=120, step=130),
    ],
)
def test_what_does_not_find_a_fault(accusation):
    """Another rank, mere suspicion, another kind, and words before or after it, find nothing."""
    assert not mark(case(FAULT), [accusation]).outcomes[0].found


def test_false_accusations_are_counted_by_rank():
    """A healthy rank that is named again and again is one false accusation; remarks that fit the job are none."""
    marks = mark(case(FAULT), [said(2), said(4), said(4, step=90, name="y"), said(None, kind="stage_imbalance")])
    assert marks.false_accusations == ["straggler of rank 4"]
    assert not marks.false_remarks
    assert mark(case(), [said(None, kind="slowdown")]).false_remarks == ["slowdown"]
    found = summary([marks, mark(case(), [said(1)])])
    assert (found["recall"], found["precision"], found["false_per_healthy_hour"]) == (1.0, pytest.approx(1 / 3), 2.0)


def test_nothing_measured_is_none():
    """Without faults or healthy hours there is no recall and no rate, rather than 0."""
    found = summary([])
    assert found["recall"] is found["precision"] is found["false_per_healthy_hour"] is None


def test_phases_are_read_as_tables_of_steps_and_ranks():
    """What a rank does not tell of a step that it closed took no time."""
    about = {"cluster": "c", "producer": "p", "sequence": 0, "job": "j", "attempt": 0, "node": "n", "t0_s": 100.0}
    phases = Phases()
    phases.update(
        StepTimings(
            **about,
            speakers=speakers([0, 1]),
            rank=whole([0, 1, 0, 1]),
            step=whole([0, 0, 1, 1]),
            start_s=offsets([0.0, 0.0, 2.0, 2.0]),
            step_s=durations([2.0, 1.5, 2.0, 1.0]),
            phases={
                "forward": durations([1.0, 0.5, 0.75, 1.0]),
                "checkpoint": durations([0.5, math.nan, math.nan, math.nan]),
            },
        )
    )
    tables = phases.tables()
    assert tables.of("step").tolist() == [[2.0, 1.5], [2.0, 1.0]]
    assert tables.of("checkpoint").tolist() == [[0.5, 0.0], [0.0, 0.0]]
    assert tables.of("forward", "checkpoint").tolist() == [[1.5, 0.5], [0.75, 1.0]]
    assert tables.end_s.tolist() == [102.0, 104.0]


@pytest.mark.slow
def test_every_rule_judges_a_job_with_a_gross_fault():
    """A rank that works three times as long is found by Paceline, TraceML and NVRx, and by nobody wrongly."""
    spec = Spec(ranks=4, steps=150, step_s=1.0, faults=(Fault("compute", (1,), 2.0, 20, 149),), seed=3)
    marks = simulated.run(simulated.Planned("gross", spec))
    assert set(marks) == set(RULES)
    assert {rule for rule, one in marks.items() if one.outcomes[0].found} >= {PACELINE, "TraceML", "NVRx"}
    assert not any(one.false_accusations for one in marks.values())
    found = {"simulated": {rule: [one] for rule, one in marks.items()}}
    whole = {"machine": {"date": "-", "cores": 1, "processor": "-", "python": "-", "load_before": 0.0}}
    text = report.text(whole | {"quick": True, "took_s": 1.0, "parts": report.figures(found)})
    assert "| Paceline | 1 | 1.000 |" in text


@pytest.mark.parametrize("seed", [simulated.SEED, 3_000_000])
def test_grids_are_sound(seed):
    """Every job of the grids can be made, and no two share a seed."""
    jobs = simulated.faulty(quick=False, seed=seed) + simulated.healthy(16, seed) + unseen.jobs(seed)
    assert len({job.spec.seed for job in jobs}) == len(jobs)
    assert {fault.kind for job in jobs for fault in job.spec.faults} == {*simulated.KINDS, "hang", "slowdown"}


def test_another_seed_gives_other_jobs():
    """Other noise, other ranks at fault, and each fault at another length; the kinds and sizes are the same."""
    one, other = ([job.spec for job in simulated.faulty(quick=True, seed=seed)] for seed in (70_000, 3_000_005))
    assert not {spec.seed for spec in one} & {spec.seed for spec in other}
    faults = [(a.faults[0], b.faults[0]) for a, b in zip(one, other, strict=True)]
    assert all((a.kind, a.size) == (b.kind, b.size) for a, b in faults)
    stragglers = [(a, b) for a, b in faults if a.kind not in ("hang", "slowdown")]
    assert all(a.ranks != b.ranks and a.last != b.last for a, b in stragglers)


def test_looks_of_short_steps_begin_many_steps_early():
    """A look of 0.2 s is 40 steps of 5 ms: a finding from 11 looks before the fault on is about it, from 13 is not."""
    fault = FAULT._replace(first_step=1000, last_step=2000)
    short = case(fault)._replace(step_s=0.005)
    for first, found in ((1000 - 11 * 40, True), (1000 - 13 * 40, False)):
        assert mark(short, [said(2, first=first, step=1500)]).outcomes[0].found is found


def costly(rank, cost, size=0.3):
    return FAULT._replace(ranks=frozenset([rank]), cost=cost, size=size)


def figures(faults, accusations, part="simulated"):
    return report.figures({part: {PACELINE: [mark(case(*faults), accusations)]}})


def test_aims_count_faults_that_are_large_and_cost_something():
    """One that costs the job next to nothing, or is small, may be missed; one of a real run always counts."""
    free, small, dear, real = costly(3, 0.01), costly(4, 0.3, size=0.05), costly(5, 0.02), costly(6, None)
    assert all(aim.met for aim in aims(figures([costly(2, 0.1), free, small], [said(2)])))
    for missed in (dear, real):
        lines = [aim.line() for aim in aims(figures([costly(2, 0.1), missed], [said(2)]))]
        assert [line.split(":")[0] for line in lines] == ["aim missed", "aim met", "aim met"]
        assert "0.500 of 2" in lines[0]


@pytest.mark.parametrize(
    ("accusation", "which"), [(said(2, cause="link", step=60), 1), (said(4), 2), (said(None, kind="slowdown"), 2)]
)
def test_a_wrong_cause_or_a_wrong_word_misses_an_aim(accusation, which):
    """Each aim is missed by what it is about."""
    met = [aim.met for aim in aims(figures([costly(2, 0.1)], [said(2), accusation]))]
    assert met == [number != which for number in range(3)]


def test_healthy_jobs_have_one_aim():
    """Without faults there is no recall to miss."""
    assert [aim.met for aim in aims(figures([], []))] == [True]
    assert [aim.met for aim in aims(figures([], [said(1)]))] == [False]


@pytest.mark.slow
def test_missed_aims_are_the_exit_status(monkeypatch, capsys):
    """A benchmark whose aims are missed fails, and says which."""
    spec = Spec(ranks=4, steps=90, step_s=1.0, faults=(Fault("compute", (1,), 0.3, 86, 89),), seed=3)
    for planned, status in ((spec, 1), (replace(spec, faults=()), 0)):
        monkeypatch.setattr(simulated, "faulty", lambda *_, job=planned: [simulated.Planned("job", job)])
        monkeypatch.setattr("sys.argv", ["detection", "--only", "simulated", "--paceline"])
        assert benchmark.main() == status
    assert "aim missed: simulated: recall at least 0.98" in capsys.readouterr().out
