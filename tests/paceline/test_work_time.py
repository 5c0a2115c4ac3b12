"""A rank against the median of the others, and from when on a difference counts."""

from statistics import median

import pytest

from paceline.work_time import LEAST_EXCESS, WAITED_SHARE, longest, medians_of_others, uneven
from streams.jobs.straggler_config import StragglerConfig


@pytest.mark.parametrize(
    "values", [[], [1.0], [1.0, 3.0], [2.0, 2.0, 2.0], [5.0, 1.0, 3.0, 2.0], [1.0, 1.0, 4.0, 9.0, 2.0]]
)
def test_the_median_of_the_others_leaves_out_one(values: list[float]) -> None:
    """As one would write it down."""
    held = dict(enumerate(values))
    expected = {rank: median([v for other, v in held.items() if other != rank]) for rank in held if len(held) > 1}
    assert medians_of_others(held) == expected


def test_of_equals_the_lowest_is_the_longest() -> None:
    found = longest({4: 1.0, 2: 1.0, 3: 0.5})
    assert found is not None
    assert (found.rank, found.excess_s) == (2, 0.25)
    assert longest({0: 1.0}) is None


@pytest.mark.parametrize(
    ("slow_s", "waited_s", "named"),
    [(0.104, 0.004, False), (0.106, 0.006, True), (0.106, 0.001, False), (float("nan"), 0.006, False)],
)
def test_a_difference_counts_from_the_verdicts_threshold_on_and_where_others_waited(
    slow_s: float, waited_s: float, *, named: bool
) -> None:
    """5 % of the step without it, and a quarter of the difference."""
    assert (StragglerConfig.least_excess, StragglerConfig.waited_share) == (LEAST_EXCESS, WAITED_SHARE)
    found = uneven({0: 0.1, 1: 0.1, 2: slow_s}, {0: waited_s, 1: waited_s})
    assert (found is not None and found.rank == 2) == named
