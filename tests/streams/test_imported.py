"""Timelines of pipeline jobs as clusters publish them, imported and judged: what is wrong is found, nobody is accused
wrongly, whatever the clocks, the numbers of ranks and the form of the table."""

import msgspec
import pytest

from paceline.__main__ import main
from streams.analyze import main as analyze
from tests.timelines import CLOCKS, HEAD, PipelineJob, rows, write

SLOW = {"slow": {(2, 1): 2.3}}


@pytest.fixture
def judged(tmp_path, capsys):
    """The findings in tables, every revision, and what the import says."""

    def judge(*tables, options=()):
        recording = tmp_path / "run.jsonl.zst"
        assert main(["import", "timeline", *map(str, tables), "-o", str(recording), *options]) == 0
        said = capsys.readouterr().err
        assert analyze([str(recording), "--json"]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [msgspec.json.decode(line) for line in lines if line.startswith("{")], said

    return judge


def verdict(found):
    """The kinds that are confirmed, and the ranks that any finding names."""
    return {one["kind"] for one in found if one["state"] == "confirmed"}, {
        rank for one in found for rank in one["ranks"]
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "kinds", "ranks"),
    [
        (SLOW, {"straggler"}, {24}),
        ({"stages": (1.0, 1.0, 1.0, 1.35)}, {"stage_imbalance"}, set()),
        ({"spread": 0.4}, {"data_imbalance"}, set()),
        ({**SLOW, "spread": 0.4}, {"straggler", "data_imbalance"}, {24}),
        ({}, set(), set()),
    ],
    ids=["a slow worker", "a long last stage", "uneven sequences", "a slow worker with uneven sequences", "healthy"],
)
def test_sampled_steps_whose_starts_restart_are_judged(tmp_path, judged, what, kinds, ranks):
    """44 steps, hundreds apart, each from 0 on; one rank of each tensor group; nanoseconds, in no order."""
    table = write(tmp_path / "ops.csv", PipelineJob(tensor=4, clock="per step", **what), unit_s=1e-9, shuffle=True)
    found, said = judged(table, options=["--time-unit", "ns"])
    assert verdict(found) == (kinds, ranks)
    assert {one["cause"] for one in found if one["ranks"]} == ({"worker_compute"} if ranks else set())
    assert "starts go back in 43 of 44 steps" in said
    assert "left out" not in said


@pytest.mark.slow
@pytest.mark.parametrize("clock", CLOCKS[1:])
def test_findings_do_not_depend_on_the_clock(tmp_path, judged, clock):
    """Starts that restart, and clocks of ranks that are years apart, say what absolute starts say."""
    job = {"steps": 16, "batches": 4, **SLOW}
    want, _ = judged(write(tmp_path / "absolute.csv", PipelineJob(**job)))
    found, _ = judged(write(tmp_path / "ops.csv", PipelineJob(clock=clock, **job)))
    facts = ("kind", "state", "ranks", "cause", "first_step", "last_step", "revision")
    assert [[one[fact] for fact in facts] for one in found] == [[one[fact] for fact in facts] for one in want]
    assert verdict(found) == ({"straggler"}, {6})


@pytest.mark.long
@pytest.mark.parametrize(("what", "ranks"), [(SLOW, {6}), ({"spread": 0.4}, set()), ({}, set())])
def test_waiting_need_not_be_told(tmp_path, judged, what, ranks):
    """Where transfers are rows and the waiting before them is not, a rank stands still while its step is open."""
    found, _ = judged(write(tmp_path / "ops.csv", PipelineJob(steps=16, batches=4, transfers=True, **what)))
    assert {rank for one in found for rank in one["ranks"]} == ranks
    assert verdict(found)[0] >= ({"straggler"} if ranks else set())


@pytest.mark.slow
@pytest.mark.parametrize("clock", CLOCKS[:2])
@pytest.mark.parametrize(("what", "ranks"), [(SLOW, {6}), ({"spread": 0.4}, set()), ({}, set())])
def test_nobody_need_be_seen_to_wait_at_the_end_of_a_step(tmp_path, judged, what, ranks, clock):
    """Where ranks that are done sooner have no row until the others are, the step is over for all with the last."""
    job = PipelineJob(steps=16, batches=4, transfers=True, meets=False, clock=clock, **what)
    found, _ = judged(write(tmp_path / "ops.csv", job))
    assert {rank for one in found for rank in one["ranks"]} == ranks
    assert verdict(found)[0] >= ({"straggler"} if ranks else set())


@pytest.mark.slow
@pytest.mark.parametrize("tensor", [8, 64])
def test_ranks_may_be_numbered_with_gaps(tmp_path, judged, tensor):
    """The world is the ranks there are: nobody is missing, stages are known, and findings have the file's numbers."""
    table = write(
        tmp_path / "ops.csv", PipelineJob(steps=52, batches=4, tensor=tensor, stages=(1.0, 1.0, 1.0, 1.6), **SLOW)
    )
    found, _ = judged(table)
    assert verdict(found) == ({"straggler", "stage_imbalance"}, {6 * tensor})
    coverage = found[-1]["coverage"]
    assert (coverage["ranks_expected"], coverage["ranks_heard"], coverage["events_missing"]) == (16, 16, 0)
    assert [note for note in coverage["notes"] if "impossible" in note] == []


@pytest.mark.slow
def test_a_job_may_be_cut_into_files(tmp_path, judged):
    """By step or by rank, and given in any order."""
    job = PipelineJob(steps=16, clock="per step", **SLOW)
    by_step = [write(tmp_path / f"{odd}.csv", job, keep=lambda row, odd=odd: row[0] % 2 == odd) for odd in (1, 0)]
    by_rank = [write(tmp_path / f"dp{dp}.csv", job, keep=lambda row, dp=dp: row[1] == dp) for dp in (3, 1, 0, 2)]
    want, _ = judged(write(tmp_path / "ops.csv", job))
    assert verdict(want) == ({"straggler"}, {6})
    assert judged(*by_step)[0] == judged(*by_rank)[0] == want


@pytest.mark.slow
def test_places_do_for_ranks(tmp_path, judged):
    """Without a column for ranks, micro-batches or peers: dp and stage say who it is."""
    job = PipelineJob(steps=16, tensor=4, clock="per step", **SLOW)
    head = [name for name in HEAD if name not in ("rank", "mb_id", "peer")]
    found, said = judged(write(tmp_path / "ops.csv", job, head=head))
    assert verdict(found) == ({"straggler"}, {6})
    assert "stage x 4 + dp" in said


@pytest.mark.slow
def test_a_rank_that_ends_early_holds_nobody_up(tmp_path, judged):
    """One rank has the first three of the sampled steps alone: the others are judged by theirs."""
    job = PipelineJob(clock="per step", batches=4, **SLOW)
    first = sorted({row[0] for row in rows(job)})[:3]
    table = write(tmp_path / "ops.csv", job, keep=lambda row: row[3] != 15 or row[0] in first)
    assert verdict(judged(table)[0]) == ({"straggler"}, {6})
