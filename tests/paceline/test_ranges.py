"""Ranks in a few words."""

import pytest

from paceline.ranges import ranges


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], ""),
        ([7], "7"),
        ([9, 8, 8, 10], "8-10"),
        ([0, 2, 3], "0, 2-3"),
        (range(0, 20, 2), "0, 2, 4, 6 and 6 more"),
        ([*range(8), *range(16, 24), 30, 40, 50, 51], "0-7, 16-23, 30, 40 and 2 more"),
    ],
)
def test_runs_are_told_by_their_ends_and_the_rest_is_counted(numbers: list[int], words: str) -> None:
    """In any order, each rank once."""
    assert ranges(numbers) == words
