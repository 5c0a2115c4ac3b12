"""The first split follows the ratings of the ranks' nodes where all have one, and else is even."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
UNEVEN = {
    "uneven": [48, 16],
    "of_another_type": [48, 16],
    "far": [57, 7],
    "capped": [40, 24],
}
EVEN = (
    "both_numbers",  # 3 times the one and a third of the other: the geometric mean is alike
    "nearly",
    "missing",
    "one_sided",
    "garbage",
    "another_layout",
    "another_node",
    "busy",
    "zero",
    "infinite",
    "other_names",
    "of_a_gpu",
    "even",
    "uniform",
    "static",
    "weighted",
    "shared",
)


@pytest.fixture(scope="module")
def started(ranks: Callable[..., Any]) -> Any:
    return ranks("started.py", 2, *dict.fromkeys((*UNEVEN, *EVEN, "resumed")))


@pytest.mark.parametrize(("case", "shares"), UNEVEN.items())
def test_two_unequal_nodes_get_an_unequal_first_split(started: Any, case: str, shares: list[int]) -> None:
    """Also by the type that both were measured at, 8 times apart at most, and within what fits."""
    assert [each["shares"] for each in started.found[case]] == [shares] * 2
    assert [each["sizes"][0] for each in started.found[case]] == shares


@pytest.mark.parametrize("case", EVEN)
def test_else_they_start_alike(started: Any, case: str) -> None:
    assert [each["shares"] for each in started.found[case]] == [[32, 32]] * 2


@pytest.mark.parametrize("case", dict.fromkeys((*UNEVEN, *EVEN)))
def test_gradients_stay_exact(started: Any, case: str) -> None:
    sizes = [each["sizes"] for each in started.found[case]]
    assert all(sum(step) == 64 for step in zip(*sizes, strict=True))
    assert max(each["far"] for each in started.found[case]) <= 1e-12


def test_a_checkpoint_knows_better(started: Any) -> None:
    """Loaded before or after ``balance``."""
    assert started.found["resumed"] == [[[30, 34], [30, 34]]] * 2


def test_rank_0_says_an_uneven_start_in_one_line(started: Any) -> None:
    """Once for each that was, and rank 1 says nothing."""
    said = "paceline: ranks start with 16 to 48 samples each, as their nodes were rated"
    assert started.said(0).count(said) == 3  # uneven, of_another_type, and before the checkpoint came
    assert "paceline: ranks start" not in started.said(1)
