"""Two runs compared: what is surely slower, since when, and what cannot be compared."""

import numpy as np
import pytest

from streams.reports.comparison import EQUAL, FASTER, SLOWER, NotComparableError, compare
from streams.reports.run import Runs
from tests.derived_events import finding, job_window


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
    with pytest.raises(NotComparableError, match="too short: 20 steps in 10 windows"):
        compare(run_of(steady(1)), run_of(steady(2, size=10)), 0.05)


def test_what_else_is_different_is_told(run_of):
    """Facts, but for those that name the run itself."""
    made = compare(run_of(steady(1), image="a", SLURM_JOB_ID="1"), run_of(steady(2), image="b", SLURM_JOB_ID="2"), 0.05)
    assert [tuple(fact) for fact in made.facts] == [("label image", "a", "b")]


def test_confirmed_findings_say_since_when(run_of):
    """A suspicion does not."""
    more = [finding(), finding(id="maybe", state="suspected")]
    assert len(compare(run_of(steady(1)), run_of(steady(2), more=more), 0.05).second.findings) == 1


def test_the_same_runs_compare_the_same_twice(run_of):
    """Seeded, whatever was compared before."""
    pair = run_of(steady(1)), run_of(steady(2))
    assert compare(*pair, 0.05) == compare(*pair, 0.05)
