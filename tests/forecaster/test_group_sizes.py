"""A cluster that shrinks or grows: what was measured of another number of GPUs counts as shares of the present one."""

from collections.abc import Sequence

import numpy as np
import pytest

from forecaster import held_forecast
from forecaster.aggregates import PATIENCE
from forecaster.exceedance import above
from forecaster.forecast import forecast
from forecaster.group_sizes import of_present_size
from forecaster.history import SeriesSubject
from forecaster.memory import Held, Memory
from forecaster.models.registry import shipped
from forecaster.series import Array
from paceline.events import DeviceWindow

DAY, START_S = 96, 9e8
FREE, SIZES = (f"c/cluster/{name}" for name in ("free_gpus", "gpus"))


def minutes(memory: Memory, first: int, last: int, nodes: Sequence[int], free: int) -> None:
    """Minutes of nodes of four GPUs, of which as many as ``free`` are idle."""
    for minute in range(first, last):
        for node in nodes:
            for gpu in range(4):
                busy = 0.0 if 4 * node + gpu < free else 0.9
                mean = {"utilization_ratio": busy, "power_w": 100.0}
                memory.update(
                    DeviceWindow(
                        cluster="c", start_s=START_S + 60.0 * minute, length_s=60.0, node=f"n{node}", device=f"g{gpu}",
                        samples=60, mean=mean, max={},
                    )
                )  # fmt: skip


def find(memory: Memory, key: str) -> Held:
    held = memory.find(key)
    assert held is not None
    return held


def asked(memory: Memory, key: str = FREE) -> list[float]:
    """What is asked of a series, with gaps as -1."""
    return np.nan_to_num(held_forecast.question(find(memory, key)).values, nan=-1.0).tolist()


def test_of_a_cluster_that_shrank_shares_are_asked() -> None:
    """What is shown of it stays what was measured; use is a share as it is, and power a sum."""
    memory = Memory()
    minutes(memory, 0, 20, range(4), 8)
    minutes(memory, 20, 20 + 2 * PATIENCE, [0], 0)
    later = [0.0] * 2 * PATIENCE
    assert find(memory, FREE).values.tolist() == [8.0] * 20 + later
    assert asked(memory) == [2.0] * 20 + later
    assert asked(memory, "c/cluster/gpu_power_w")[:20] == [400.0] * 20
    assert asked(memory, "c/cluster/gpu_busy_ratio")[:20] == pytest.approx([0.45] * 20)
    [note] = held_forecast.question(find(memory, FREE)).notes
    assert note.startswith(f"{20 + PATIENCE - 1} samples, of another number of GPUs")


def test_nodes_that_come_back_find_their_past() -> None:
    """A cluster that is half as large for an hour of work on it forgets nothing."""
    memory = Memory()
    minutes(memory, 0, 20, range(4), 8)
    minutes(memory, 20, 30, range(2), 8)
    minutes(memory, 30, 40, range(4), 8)
    assert asked(memory)[:20] == [8.0] * 20
    assert asked(memory)[-10:] == [8.0] * 10
    assert asked(memory)[20 + PATIENCE : 30] == [16.0] * (10 - PATIENCE)


def test_a_node_more_or_less_is_the_same_cluster() -> None:
    """Up to a quarter of the present size values stay as they are, to the last bit."""
    values = np.array([3.3, np.nan, 5.5, 7.7])
    for sizes in ([64.0, 64.0, 60.0, 52.0], [48.0, 48.0, 60.0, 64.0], [np.nan] * 4, [10.0, np.nan, np.nan, np.nan]):
        same, others = of_present_size(values, np.array(sizes))
        assert others == 0
        np.testing.assert_array_equal(same, values)


@pytest.mark.parametrize("values", [np.array([1.0, np.nan, 2.0]), np.array([1e300, 0.0, 1e-300])])
def test_sizes_may_be_unknown_or_none(values: Array) -> None:
    """No size is divided by nothing, and gaps stay gaps; what is passed in stays as it is."""
    kept = values.copy()
    scaled, others = of_present_size(values, np.array([0.0, 64.0, 8.0]))
    np.testing.assert_array_equal(values, kept)
    assert others == int(np.isfinite(values[1]))
    np.testing.assert_array_equal(np.isnan(scaled), np.isnan(values))
    of_none, others = of_present_size(values, np.array([8.0, 8.0, 0.0]))
    assert np.nan_to_num(of_none[:2]).tolist() == [0.0, 0.0]


def test_sizes_are_listed_and_not_published() -> None:
    """By the minute and by the quarter hour; a minute that is taken back has none."""
    memory = Memory()
    minutes(memory, 0, 30, range(2), 8)
    listed, published = {line.subject.key for line in memory.lines()}, dict(memory.keys()).keys()
    assert {SIZES, f"{SIZES}_15min"} <= listed
    assert not {SIZES, f"{SIZES}_15min"} & published
    assert {FREE, f"{FREE}_15min"} <= published
    quarters = find(memory, f"{FREE}_15min")
    assert quarters.sizes is not None
    assert (quarters.sizes.tolist(), quarters.values.tolist()) == ([8.0, 8.0], [8.0, 8.0])


def test_values_that_were_sent_have_no_sizes() -> None:
    """Nor have those on another grid than the sizes; they are asked as they are."""
    memory = Memory()
    minutes(memory, 0, 5, [0], 4)
    memory.put(SeriesSubject("d/cluster/free_gpus", "GPUs", 60.0, "d"), [0.0, 60.0], [64.0, 8.0])
    assert asked(memory, "d/cluster/free_gpus") == [64.0, 8.0]
    memory.put(SeriesSubject(SIZES, "GPUs", 300.0, "c"), [0.0], [1.0])
    assert find(memory, FREE).sizes is None


@pytest.mark.slow
@pytest.mark.parametrize(("free", "hours"), [(0.0, 2), (0.0, 48), (8.0, 2)])
def test_of_64_gpus_8_are_left(free: float, hours: int) -> None:
    """All of them are not free because more than 8 of 64 were; the back-test is of 8, too."""
    at = np.arange(28 * DAY)
    noise = np.random.default_rng(0).normal(0.0, 2.0, at.size)
    values, sizes = 30.0 + 20.0 * np.cos(2.0 * np.pi * at / DAY) + noise, np.full(at.size, 64.0)
    values[-4 * hours :], sizes[-4 * hours :] = free, 8.0
    subject = SeriesSubject(f"{FREE}_15min", "GPUs", 900.0, "c", high=8.0)
    question = held_forecast.question(Held(subject, values, 1.7e9, sizes))
    made = forecast(question, shipped())
    assert max(above(row, question.levels, 8.0) for row in made.values[8:]) < 0.1
    assert made.loss is not None
    assert made.loss < 1.0
    assert any("another number of GPUs" in note for note in made.notes)
