"""Samples a second with an interval that neighbours in time do not make too narrow."""

import numpy as np
import pytest

from trials.estimate import LEAST_BLOCKS, MOST_BLOCKS, Interval, blocks, level, margin, rate, student_t, widened


def test_blocks_are_consecutive_and_bounded():
    """At most so many, each the mean of as many steps; what does not fit is left out at the start."""
    assert blocks([9.0] + [1.0] * 80) == [1.0] * MOST_BLOCKS
    assert blocks([1.0, 3.0] * 3) == [2.0] * 3
    assert len(blocks([1.0] * 100_000)) == MOST_BLOCKS


@pytest.mark.parametrize("steps", [[], [1.0], [0.0, -1.0, float("nan"), float("inf")]])
def test_steps_that_are_none_are_left_out(steps):
    """No time, no block."""
    assert blocks(steps) == []
    assert blocks([*steps, 2.0, 2.0])[-1] == pytest.approx(2.0, rel=0.5)


def test_too_few_are_no_estimate():
    """A run with fewer blocks than an interval needs is not counted."""
    assert rate([[1.0] * (LEAST_BLOCKS - 1)], 4) is None
    assert rate([], 4) is None
    assert rate([[1.0] * (LEAST_BLOCKS - 1), [0.5] * LEAST_BLOCKS], 4) == Interval(8.0, 8.0, 8.0)


def test_the_same_seed_gives_the_same():
    """And another one nearly."""
    noise = np.random.default_rng(3)
    runs = [list(noise.normal(0.1, 0.01, 40)) for _ in range(3)]

    assert rate(runs, 8, seed=1) == rate(runs, 8, seed=1)
    assert rate(runs, 8, seed=1).low == pytest.approx(rate(runs, 8, seed=2).low, rel=0.02)


def test_the_interval_holds_its_value():
    """Whatever the input, low <= value <= high."""
    noise = np.random.default_rng(4)
    for size in (6, 7, 12, 40):
        found = rate([list(noise.lognormal(-2, 1, size))], 3)
        assert found.low <= found.value <= found.high


def test_a_slow_minute_widens_the_interval():
    """Runs are drawn as wholes: two that differ do not look as sure as two that agree."""
    noise = np.random.default_rng(5)
    fast, slow = (list(noise.normal(mean, 0.001, 40)) for mean in (0.10, 0.12))
    apart, alike = rate([fast, slow], 1), rate([fast, fast], 1)

    assert apart.high - apart.low > 10 * (alike.high - alike.low)
    assert apart.low <= 1 / 0.12 * 1.01
    assert apart.high >= 1 / 0.10 * 0.99


@pytest.mark.long
def test_neighbours_that_resemble_each_other_do_not_make_it_sure():
    """The truth lies in most intervals though each step is much like the one before."""
    inside = 0
    for seed in range(60):
        noise = np.random.default_rng(seed)
        runs = []
        for _ in range(4):
            level, steps = 0.0, []
            for shock in noise.normal(0, 0.004, 800):
                level = 0.9 * level + shock
                steps.append(0.1 + level)
            runs.append(blocks(steps))
        found = rate(runs, 1, seed)
        inside += found.low <= 10.0 <= found.high
    assert inside >= 48


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [2, 4])
def test_the_truth_lies_in_nearly_all_intervals_though_runs_differ(repeats):
    """Of four placements whose runs differ more than the steps within one: 95 in 100, not far from it."""
    inside, count = 0, 0
    for seed in range(60):
        noise = np.random.default_rng(seed)
        trial = [
            [list(0.1 * (1 + noise.normal(0, 0.03)) * (1 + noise.normal(0, 0.01, 40))) for _ in range(repeats)]
            for _ in range(4)
        ]
        far = margin([[level(run) for run in runs] for runs in trial], repeats)
        for runs in trial:
            found = widened(rate(runs, 1, seed), far)
            inside, count = inside + (found.low <= 10.0 <= found.high), count + 1
    assert 0.92 <= inside / count <= 0.995


def test_one_run_tells_nothing_of_the_next():
    """Without a second run of any placement nothing is widened; with one of another it is."""
    assert margin([[0.0], [1.0]], 1) == 0.0
    assert margin([[0.0], [1.0, 1.1]], 1) == pytest.approx(12.706 * 0.0707, rel=0.01)
    assert margin([], 1) == 0.0


def test_students_t_falls_to_the_normal_one():
    """Without a jump where the table ends."""
    factors = [student_t(freedom) for freedom in range(1, 200)]
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] == pytest.approx(1.972, abs=0.002)


def test_intervals_overlap_or_not():
    """Touching ends cannot be told apart."""
    assert Interval(2, 1, 3).overlaps(Interval(4, 3, 5))
    assert not Interval(2, 1, 3).overlaps(Interval(4, 3.1, 5))
