"""Weights by ratings, as every rank comes to them from the same rows."""

from pathlib import Path

import pytest
import torch

from paceline.balance.rated_start import GEMMS, MOST_RATIO, NAMES, doubt, told, weights
from paceline.rated import CPU, Rated, Speed, write

#: PyTorch is imported, which takes seconds of a processor.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("pytorch")]


def row(device: float = 0.0, own: str = "gemm_float32", **speeds: float) -> list[float]:
    """What a rank tells."""
    place = GEMMS.index(own) if own in GEMMS else -1
    return [device, float(place), *(speeds.get(name, 0.0) for name in NAMES)]


def test_the_models_own_type_counts() -> None:
    rows = [row(1, gemm_float32=4.0, gemm_bfloat16=9.0), row(2, gemm_float32=2.0, gemm_bfloat16=9.0)]
    assert weights(rows) == [1.0, 0.5]


def test_where_not_all_have_it_the_first_that_all_have_does() -> None:
    rows = [row(1, "gemm_float64", gemm_float64=9.0, gemm_bfloat16=2.0), row(2, gemm_bfloat16=4.0, gemm_float32=1.0)]
    assert weights(rows) == [0.5, 1.0]


def test_memory_counts_as_much_where_all_have_the_same_measure() -> None:
    """4 times the one and the same memory are twice the speed."""
    assert weights([row(1, gemm_float32=4.0, memory_copy=5.0), row(2, gemm_float32=1.0, memory_copy=5.0)]) == [1.0, 0.5]
    assert weights([row(1, gemm_float32=4.0, memory_copy=5.0), row(2, gemm_float32=1.0, memory_triad=5.0)]) == [
        1.0,
        0.25,
    ]


def test_ranks_that_share_a_device_have_a_part_of_it_each() -> None:
    one, other = row(1, gemm_float32=4.0), row(2, gemm_float32=4.0)
    assert weights([one, one, other]) == [0.5, 0.5, 1.0]
    assert weights([one, one]) is None


def test_nobody_is_more_than_so_many_times_faster() -> None:
    assert weights([row(1, gemm_float32=1e20), row(2, gemm_float32=1e-20)]) == [1.0, 1 / MOST_RATIO]


@pytest.mark.parametrize(
    "rows",
    [
        [row(1), row(2)],
        [row(1, gemm_float32=1.0), row(2)],
        [row(1, gemm_float32=1.0), row(2, gemm_float64=3.0)],
        [row(1, memory_triad=1.0), row(2, memory_triad=3.0)],
        [row(1, gemm_float32=1.0), row(2, gemm_float32=1.04)],
        [row(1, "none of them"), row(2, "none of them")],
    ],
)
def test_else_nobody_is_faster(rows: list[list[float]]) -> None:
    assert weights(rows) is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(1, gemm_float32=-4.0), row(2, gemm_float32=-2.0)], "of 2 of 2 ranks the node was rated while others"),
        ([row(1, gemm_float32=4.0, memory_copy=1.0), row(2, memory_copy=1.0)], "1 of 2 ranks have no rating"),
        ([row(1, gemm_float32=4.0), row(2, gemm_float64=2.0)], "no rating is of one kind on all ranks"),
    ],
)
def test_why_ratings_do_not_count_is_said(rows: list[list[float]], said: str) -> None:
    """Whoever ran the benchmark expects an uneven start."""
    assert weights(rows) is None
    assert doubt(rows).startswith(said)


@pytest.mark.parametrize("rows", [[row(1), row(2)], [row(1, gemm_float32=4.0), row(2, gemm_float32=4.0)]])
def test_without_a_benchmark_and_of_equal_nodes_nothing_is_said(rows: list[list[float]]) -> None:
    assert doubt(rows) == ""


def test_a_rating_of_a_busy_machine_is_told_as_such(tmp_path: Path) -> None:
    """Negative: no weight comes of it, and rank 0 can say why."""
    speed = Speed(CPU, "gemm_float32", "flop/s", 4.0, 4.0, 4.0, samples=9, time_s=1.0, busy_ratio=0.5)
    write(tmp_path / "rated.json", Rated("this", 1.0, (speed,)))
    environ = {"PACELINE_RATED_FILE": str(tmp_path / "rated.json"), "PACELINE_NODE": "this"}

    speeds = told(torch.nn.Linear(2, 2), torch.device("cpu"), environ)[2:]

    assert speeds[NAMES.index("gemm_float32")] == -4.0


def test_the_file_of_another_node_says_nothing_of_this_one(tmp_path: Path) -> None:
    """``PACELINE_RATED_FILE`` may name one on a disk that nodes share, and all call their processors ``cpu``."""
    speed = Speed(CPU, "gemm_float32", "flop/s", 4.0, 4.0, 4.0, samples=9, time_s=1.0, busy_ratio=0.0)
    write(tmp_path / "rated.json", Rated("this", 1.0, (speed,)))

    def speeds(node: str) -> list[float]:
        environ = {"PACELINE_RATED_FILE": str(tmp_path / "rated.json"), "PACELINE_NODE": node}
        return told(torch.nn.Linear(2, 2), torch.device("cpu"), environ)[2:]

    assert speeds("this")[NAMES.index("gemm_float32")] == 4.0
    assert speeds("another") == [0.0] * len(NAMES)
