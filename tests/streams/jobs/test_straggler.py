"""The straggler verdict on made-up jobs of known truth."""

import msgspec
import pytest

from tests.streams.job_lines import JobDiagnosis
from tests.timings import changed, listed, speaking


def judge(batches):
    diagnosis = JobDiagnosis()
    return [finding for batch in batches for finding in diagnosis.update(batch)]


def rebatched(batches, rows_each):
    """The same rows of one node, cut into messages of other sizes."""
    whole = {
        name: [one for batch in batches for one in listed(getattr(batch, name))] for name in ("rank", "step", "step_s")
    }
    whole["start_s"] = [batch.t0_s + start for batch in batches for start in listed(batch.start_s)]
    phases = {word: [one for batch in batches for one in listed(batch.phases[word])] for word in batches[0].phases}
    for number, first in enumerate(range(0, len(whole["rank"]), rows_each)):
        cut = slice(first, first + rows_each)
        rows = {name: values[cut] for name, values in whole.items()}
        parts = {word: values[cut] for word, values in phases.items()}
        yield changed(batches[0], sequence=number, t0_s=0.0, phases=parts, **rows)


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ({"forward": 0.03, "backward": 0.06}, "worker_compute"),
        ({"optimizer": 0.04}, "worker_compute"),
        ({"data": 0.05}, "input_pipeline"),
        ({"gc": 0.05}, "garbage_collection"),
        ({"cpu_wait": 0.08}, "cpu_contention"),
    ],
)
def test_names_the_slow_rank_and_its_cause_and_no_other(job, fault, cause):
    """A rank that turns slow is suspected, then confirmed, with the cause that its excess consists of."""
    findings = judge(job(fault={2: fault}).batches())
    assert {tuple(finding.ranks) for finding in findings} == {(2,)}
    assert [finding.state for finding in findings[:2]] == ["suspected", "confirmed"]
    assert findings[-1].cause == cause
    assert 57 <= findings[0].first_step <= 60
    assert findings[0].last_step <= 72


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("ranks", "noise"), [(2, 0.05), (4, 0.1), (8, 0.2), (64, 0.05)])
def test_nobody_is_named_in_a_healthy_job(job, ranks, noise, seed):
    """Noise alone accuses nobody, in small and large cohorts."""
    assert judge(job(ranks=ranks, noise=noise, seed=seed, steps=150).batches()) == []


@pytest.mark.long
def test_a_pause_of_one_rank_every_few_steps_is_no_slow_step(job):
    """Rank 0 writing a checkpoint ten steps long, every ten steps, is not slow in every step: it stalls."""
    pauses = job(fault={0: {"optimizer": 1.0}}, when=lambda step: step % 10 == 9, steps=200)
    (summary,) = {finding.summary.partition(":")[0] for finding in judge(pauses.batches())}
    assert summary == "Rank 0 on node-0 stalls now and then"


@pytest.mark.long
def test_recovery_ends_the_episode_and_a_relapse_is_a_new_one(job):
    """A rank that is well again is reported so once; the next time is another episode with another id."""
    ill = job(fault={1: {"forward": 0.1}}, steps=180, when=lambda step: 50 <= step < 90 or step >= 150)
    findings = judge(ill.batches())
    states = [finding.state for finding in findings if finding.revision == 1 or finding.state == "recovered"]
    assert states == ["suspected", "recovered", "suspected"]
    assert len({finding.id for finding in findings}) == 2
    revisions = [finding.revision for finding in findings if finding.id == findings[0].id]
    assert revisions == list(range(1, len(revisions) + 1))


@pytest.mark.long
def test_two_slow_ranks_are_two_findings(job):
    """Each of two slow ranks of eight is named by its own finding."""
    findings = judge(job(ranks=8, fault={1: {"backward": 0.08}, 5: {"data": 0.06}}).batches())
    assert {(tuple(f.ranks), f.cause) for f in findings if f.state == "confirmed"} == {
        ((1,), "worker_compute"),
        ((5,), "input_pipeline"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("rows_each", [1, 7, 500, 100_000])
def test_any_batching_gives_the_same_findings(job, rows_each):
    """How rows are cut into messages changes nothing."""
    batches = list(job(fault={2: {"backward": 0.05}}, steps=90).batches())
    again = judge(rebatched(batches, rows_each))
    assert msgspec.json.encode(again) == msgspec.json.encode(judge(batches))
    assert again


@pytest.mark.long
def test_clocks_hours_apart_do_not_matter(job):
    """Two nodes whose clocks differ by three hours give the verdict of two nodes that agree."""
    fault = {3: {"backward": 0.08}}
    near = judge(job(nodes=2, fault=fault).batches())
    far = judge(job(nodes=2, fault=fault, clock_skew_s=(0.0, -10_800.0)).batches())
    assert [(f.ranks, f.state, f.first_step) for f in far] == [(f.ranks, f.state, f.first_step) for f in near]
    assert far[0].nodes == ["node-1"]


def test_a_rank_that_never_speaks_shows_in_the_coverage(job):
    """Of five ranks one is silent: the other four are judged, and the finding says what it did not hear."""
    findings = judge(job(world=5, steps=130, fault={2: {"backward": 0.08}}, when=lambda step: step > 100).batches())
    assert {(finding.kind, *finding.ranks) for finding in findings} == {("straggler", 2), ("insufficient_data",)}
    coverage = findings[0].coverage
    assert (coverage.ranks_expected, coverage.ranks_heard) == (5, 4)
    assert any("did not report" in note for note in coverage.notes)


@pytest.mark.long
def test_ranks_that_disagree_about_the_world_are_reported(job):
    """A rank with another world size is a note in the coverage, not a crash."""
    batches = [speaking(batch, range(4), [4, 4, 4, 7]) for batch in job(fault={1: {"data": 0.1}}).batches()]
    findings = judge(batches)
    assert findings[0].coverage.ranks_expected == 4
    assert any("disagree" in note for note in findings[0].coverage.notes)


@pytest.mark.long
def test_lost_and_repeated_messages_are_counted_not_believed(job):
    """A gap in the producer's numbers is counted; a repeated message changes nothing."""
    batches = list(job(fault={1: {"data": 0.1}}).batches())
    del batches[3]
    findings = judge([batch for batch in batches for _ in range(2)])
    assert {tuple(finding.ranks) for finding in findings} == {(1,)}
    assert findings[0].coverage.events_missing == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        {"forward": -5.0},
        {"forward": 1e300},
        {"step_s": -5.0},
        {"step_s": 1e300},
        {"rank": -1},
        {"rank": 10**9},
        {"step": -7},
    ],
)
def test_absurd_rows_are_noted_and_dropped(job, change):
    """A row that cannot be true neither crashes the verdict nor accuses anybody."""
    batches = list(job().batches())
    ((name, value),) = change.items()
    for index in range(3, len(batches)):
        phases = batches[index].phases
        column = listed(phases[name] if name in phases else getattr(batches[index], name))
        column[0] = value
        batches[index] = changed(
            batches[index], **({"phases": phases | {name: column}} if name in phases else {name: column})
        )
    diagnosis = JobDiagnosis()
    assert [finding for batch in batches for finding in diagnosis.update(batch)] == []
    assert diagnosis.phases.coverage.odd


@pytest.mark.long
def test_one_rank_alone_is_never_accused(job):
    """There is nobody to compare a job of one rank with: what is told is that the job has turned slow."""
    found = judge(job(ranks=1, fault={0: {"backward": 0.2}}).batches())
    assert {(finding.kind, *finding.ranks) for finding in found} == {("slowdown",)}


@pytest.mark.slow
def test_a_rank_that_dies_does_not_stop_the_verdict_on_the_others(job):
    """When one node falls silent, the rest are judged again after a bounded wait."""
    batches = list(
        job(ranks=8, nodes=2, step_s=0.2, steps=240, fault={1: {"backward": 0.2}}, when=lambda s: s > 180).batches()
    )
    alive = [batch for batch in batches if batch.node == "node-0" or listed(batch.step)[0] < 50]
    findings = judge(alive)
    assert {(finding.kind, tuple(finding.ranks)) for finding in findings} == {
        ("straggler", (1,)),
        ("node_silent", (4, 5, 6, 7)),
    }


@pytest.mark.long
def test_the_cost_is_what_the_job_lost(job):
    """80 ms more in each of 90 steps is 7.2 s, of four ranks."""
    findings = judge(job(fault={2: {"backward": 0.08}}, steps=150).batches())
    last = findings[-1]
    steps = last.last_step - last.first_step + 1
    assert last.cost.lost_s == pytest.approx(0.08 * steps, rel=0.15)
    assert last.cost.gpu_hours == pytest.approx(last.cost.lost_s * 4 / 3600, rel=0.01)
    assert last.cost.throughput_lost_ratio == pytest.approx(0.08 / 0.19, rel=0.15)


def test_a_rank_number_that_cannot_be_is_noted_and_nobody_is_blamed_for_it(job):
    """Of four ranks, a fifth calls itself 900,000: the four are judged as ever, in tables no wider than theirs."""
    batches = list(job(steps=120, fault={2: {"backward": 0.08}}).batches())
    odd = []
    for batch in batches:
        whole = {name: listed(getattr(batch, name)) for name in ("rank", "step", "start_s", "step_s")}
        rows = {name: [*values, 900_000 if name == "rank" else values[-1]] for name, values in whole.items()}
        phases = {word: [*listed(column), 0.1] for word, column in batch.phases.items()}
        odd.append(speaking(changed(batch, phases=phases, **rows), [*range(4), 900_000], 4))
    findings = judge(odd)
    assert {tuple(finding.ranks) for finding in findings} == {(2,)}
    assert any("impossible rank" in note for note in findings[-1].coverage.notes)
