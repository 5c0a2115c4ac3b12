"""Two runs compared: what is surely slower, since when, and what cannot be compared."""

import numpy as np
import pytest

from paceline.events import Cost
from streams.reports.comparison import EQUAL, FASTER, MEDIAN, SLOWER, SLOWEST, UNSURE, NotComparableError, compare
from streams.reports.run import Runs
from tests.derived_events import finding, job_window, rank_window


def steady(seed, mean=0.5, size=60):
    return np.random.default_rng(seed).normal(mean, 0.01, size)


@pytest.fixture
def run_of(make_run):
    def of(*arguments, more=(), **options):
        runs = Runs()
        for event in [*make_run(*arguments, **options), *more]:
            runs.update(event)
        return runs.of(None)[0]

    return of


def test_equal_runs_are_equal(run_of):
    """And the interval holds no difference beyond what is allowed."""
    made = compare(run_of(steady(1)), run_of(steady(2)), 0.05)
    assert made.verdict == EQUAL
    assert made.step.high < 0.05


@pytest.mark.parametrize(("mean", "verdict"), [(0.55, SLOWER), (0.51, EQUAL), (0.45, FASTER)])
def test_a_tenth_is_seen_and_two_percent_are_allowed(run_of, mean, verdict):
    """With 5 % allowed."""
    assert compare(run_of(steady(1)), run_of(steady(2, mean)), 0.05).verdict == verdict


def test_the_phase_that_got_slower_is_told(run_of, make_run):
    """The step decides, phases say where."""
    slower = make_run(steady(2))
    slower = [
        one if not hasattr(one, "phase_median_s") else job_window(
            start_s=one.start_s, length_s=1.0, steps=2, first_step=one.first_step, last_step=one.last_step,
            step_median_s=one.step_median_s + 0.1,
            phase_median_s=one.phase_median_s | {"forward": one.phase_median_s["forward"] + 0.1},
        )
        for one in slower
    ]  # fmt: skip
    runs = Runs()
    for event in slower:
        runs.update(event)
    made = compare(run_of(steady(1)), runs.of(None)[0], 0.05)
    rows = {row.name: row for row in made.rows}
    assert rows["forward"].is_slower
    assert not rows["backward"].is_slower


def test_rare_long_steps_count_though_the_median_hides_them(run_of, make_run):
    """Phases are means: a collection every tenth step shows in them."""
    spiky = [
        one if not hasattr(one, "phase_median_s") else job_window(
            start_s=one.start_s, length_s=1.0, steps=2, first_step=one.first_step, last_step=one.last_step,
            step_median_s=one.step_median_s, phase_median_s={"forward": 0.4, "backward": 0.2},
        )
        for one in make_run(steady(2))
    ]  # fmt: skip
    runs = Runs()
    for event in spiky:
        runs.update(event)
    assert compare(run_of(steady(1)), runs.of(None)[0], 0.05).verdict == SLOWER


def test_the_warm_up_is_left_out_and_counted(run_of, make_run):
    """The first five steps of an attempt say nothing."""
    cold = [
        job_window(start_s=-1.0 * at, length_s=1.0, first_step=0, last_step=4, steps=5, step_median_s=9.0) for at in [1]
    ]
    runs = Runs()
    for event in [*cold, *make_run(steady(1))]:
        runs.update(event)
    made = compare(runs.of(None)[0], run_of(steady(2)), 0.05)
    assert (made.verdict, made.first.warm_up_steps) == (EQUAL, 5)


def test_a_change_within_a_run_is_told_with_its_step(run_of):
    """From step 90 on it took a tenth more."""
    late = np.r_[steady(3, size=40), steady(4, mean=0.55, size=40)]
    (change,) = compare(run_of(steady(1)), run_of(late), 0.05).second.changes
    assert abs(change.step - 90) <= 6
    assert change.ratio == pytest.approx(0.1, abs=0.02)


def test_other_batches_are_compared_by_the_sample(run_of):
    """Twice the samples in a step twice as long are the same pace."""
    made = compare(run_of(steady(1), batch=8), run_of(steady(2, mean=1.0), batch=16), 0.05)
    assert (made.verdict, made.a_sample) == (EQUAL, True)
    assert any("32 samples in the first run and 64 in the second" in note for note in made.notes)


def test_ranks_that_share_their_data_read_one_batch(run_of):
    """Four ranks in two pairs with batches of 8 take as many samples a step as four with batches of 4."""
    made = compare(run_of(steady(1), batch=8, tensor=2), run_of(steady(2), batch=4), 0.05)
    assert (made.first.global_batch, made.second.global_batch) == (16, 16)
    assert (made.verdict, made.a_sample) == (EQUAL, False)


def test_other_sizes_without_batches_are_not_compared(run_of):
    """And it says what would help."""
    with pytest.raises(NotComparableError, match=r"4 ranks and the second 8.*batch size"):
        compare(run_of(steady(1)), run_of(steady(2), ranks=8), 0.05)


def test_too_short_runs_are_not_compared(run_of):
    """It says how much there is, and how much it takes."""
    words = "too short: 20 steps in 10 windows .* at this pace that is a run of about 44 steps"
    with pytest.raises(NotComparableError, match=words):
        compare(run_of(steady(1)), run_of(steady(2, size=10)), 0.05)
    assert compare(run_of(steady(1)), run_of(steady(2, size=22)), 0.05).second.steps == 44


def test_what_is_neither_shown_nor_ruled_out_is_a_verdict_of_its_own(run_of):
    """Few windows that differ much: the interval holds nothing and more than what is allowed."""
    dice = np.random.default_rng(3)
    noisy = [run_of(dice.normal(0.5, 0.12, 24)) for _ in range(2)]
    made = compare(*noisy, 0.01)
    assert made.step.low < 0.0 < 0.01 < made.step.high
    assert made.verdict == UNSURE


def ranked(seconds, slowest_s, median_s, seed=1):
    """A run whose rank 1 spends so much of a step on data, and the median rank so much."""
    dice = np.random.default_rng(seed)
    for second in range(seconds):
        common = {"start_s": float(second), "length_s": 1.0, "first_step": 2 * second + 10, "steps": 2}
        common["last_step"] = 2 * second + 11
        wobble = 1 + 0.01 * dice.standard_normal()
        for rank, data_s in ((0, median_s), (1, slowest_s)):
            yield rank_window(rank, **common, phase_mean_s={"data": data_s * wobble, "forward": 0.1})
        yield job_window(
            **common, worst_rank=1, own_worst_s=(slowest_s + 0.1) * wobble, step_median_s=(slowest_s + 0.1) * wobble,
            phase_median_s={
                "data": median_s * wobble, "forward": 0.1, "communication": (slowest_s - median_s) * wobble
            },
        )  # fmt: skip


def of(events):
    runs = Runs()
    for event in events:
        runs.update(event)
    return runs.of(None)[0]


def test_the_slowest_rank_is_beside_the_median_rank_and_decides(run_of):
    """Its loader was mended: the median rank, which waits for its own now, is not called slower."""
    made = compare(of(ranked(60, 0.1, 0.001)), of(ranked(60, 0.007, 0.006, seed=2)), 0.05)
    rows = {(row.name, row.rank): row for row in made.rows}
    assert rows["data", SLOWEST].is_faster
    assert rows["data", MEDIAN].low > 0
    assert not rows["data", MEDIAN].is_slower
    assert rows["work", SLOWEST].is_faster
    assert made.verdict == FASTER


def test_where_both_got_slower_both_are_called_so(run_of):
    """The other way round."""
    made = compare(of(ranked(60, 0.007, 0.006)), of(ranked(60, 0.1, 0.05, seed=2)), 0.05)
    rows = {(row.name, row.rank): row for row in made.rows}
    assert rows["data", SLOWEST].is_slower
    assert rows["data", MEDIAN].is_slower


def test_windows_of_ranks_of_another_stretch_are_not_the_slowest_ranks(run_of):
    """They came twice, or late: what is not of the window itself is left out."""
    events = list(ranked(60, 0.1, 0.001))
    late = [*events[3:], *events[:3]]
    stale = [event for event in late if not (hasattr(event, "rank") and event.start_s > 5.0)]
    made = compare(of(ranked(60, 0.1, 0.001)), of(stale), 0.05)
    assert ("data", SLOWEST) not in {(row.name, row.rank) for row in made.rows}


def test_what_else_is_different_is_told(run_of):
    """Facts, but for those that name the run itself."""
    made = compare(run_of(steady(1), image="a", SLURM_JOB_ID="1"), run_of(steady(2), image="b", SLURM_JOB_ID="2"), 0.05)
    assert [tuple(fact) for fact in made.facts] == [("label image", "a", "b")]


def test_confirmed_findings_say_since_when(run_of):
    """A suspicion does not."""
    more = [finding(), finding(id="maybe", state="suspected")]
    assert len(compare(run_of(steady(1)), run_of(steady(2), more=more), 0.05).second.findings) == 1


def test_suspicions_however_many_and_costly_take_no_place_of_confirmed_findings(run_of):
    """Of those that are shown, the costliest come first."""
    costly = Cost(lost_s=500.0, gpu_hours=1.0, throughput_lost_ratio=0.5)
    more = [finding(id=f"maybe-{at}", state="suspected", cost=costly) for at in range(9)]
    made = compare(run_of(steady(1)), run_of(steady(2), more=[*more, finding()]), 0.05)
    assert [one[0] for one in made.second.findings] == ["straggler"]


def test_the_same_runs_compare_the_same_twice(run_of):
    """Seeded, whatever was compared before."""
    pair = run_of(steady(1)), run_of(steady(2))
    assert compare(*pair, 0.05) == compare(*pair, 0.05)
