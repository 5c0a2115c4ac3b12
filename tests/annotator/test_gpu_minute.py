"""The last minute of a GPU, whatever order, repetition and clocks its samples come with."""

import pytest

from annotator.gpu_minute import FRESH_S, GpuMinutes, Sample
from tests.annotator.world import NOW_S, device_samples


def told(*rows: tuple[float, float, float]) -> GpuMinutes:
    """Rows of (sampled, watts, heard)."""
    held = GpuMinutes()
    for time_s, watts, heard_s in rows:
        held.add("n", "g", time_s, Sample(None, None, None, watts), heard_s)
    return held


def watts(held: GpuMinutes, now_s: float, since_s: float = 0.0) -> tuple[float, float] | None:
    use = held.use("n", "g", now_s, since_s)
    return None if use is None or use.power_w is None else (use.power_w.mean, use.power_w.max)


def test_mean_and_highest_are_of_the_last_minute() -> None:
    held = told((0, 900, 0), (55, 100, 55), (70, 200, 70))
    assert watts(held, 70) == (150, 200)


def test_order_does_not_matter() -> None:
    rows = [(float(at), float(at), 100.0) for at in range(50, 100)]
    assert watts(told(*rows), 100) == watts(told(*reversed(rows)), 100)


def test_what_is_late_by_more_than_a_minute_counts_no_more() -> None:
    """A spool that is sent after an outage."""
    assert watts(told((1000, 100, 1000), (900, 999, 1001)), 1001) == (100, 100)


def test_a_clock_that_was_set_back_is_believed_after_a_minute() -> None:
    held = told((5000, 100, 1000))
    for at in range(70):
        held.add("n", "g", 1000.0 + at, Sample(None, None, None, 300.0), 1001.0 + at)
    assert watts(held, 1071) == (300, 300)


def test_silence_ends_it_by_our_clock() -> None:
    held = told((1000, 100, 2000))
    assert watts(held, 2000 + FRESH_S) == (100, 100)
    assert watts(held, 2001 + FRESH_S) is None
    held.forget(2000 + 100 * FRESH_S)
    assert len(held) == 0


def test_what_came_before_a_pod_is_left_out() -> None:
    assert watts(told((1000, 700, 1000), (1030, 100, 1030)), 1030, since_s=1020) == (100, 100)
    assert watts(told((1000, 700, 1000)), 1000, since_s=1020) is None


def test_a_gpu_that_moved_to_another_node_begins_anew() -> None:
    held = GpuMinutes()
    for node, power_w in (("n", 700.0), ("other", 100.0)):
        held.add(node, "GPU-1", 1001.0, Sample(None, None, None, power_w), 1001.0)
    use = held.use("other", "GPU-1", 1001.0)
    assert use is not None
    assert use.power_w == (100, 100)


def test_gpus_without_a_uuid_are_told_apart_by_their_nodes() -> None:
    """Each node has a ``gpu 0``."""
    held = GpuMinutes()
    for node, power_w in (("a", 700.0), ("b", 100.0)):
        held.add(node, "gpu 0", 1001.0, Sample(None, None, None, power_w), 1001.0)
    uses = [held.use(node, "gpu 0", 1001.0) for node in ("a", "b", "c")]
    assert [use and use.power_w for use in uses] == [(700, 700), (100, 100), None]


@pytest.mark.parametrize("column", ["utilization_ratio", "power_w", "fb_used_bytes"])
def test_what_is_not_measured_is_unknown_and_zero_is_a_value(column: str) -> None:
    held = GpuMinutes()
    held.update(device_samples(**{column: None}), NOW_S)
    use = held.use("node-1", "GPU-node-1-0", NOW_S)
    assert use is not None
    name = {"fb_used_bytes": "memory_bytes"}.get(column, column)
    assert getattr(use, name) is None
    held.update(device_samples(at_s=NOW_S + 100, **{column: 0.0 if column != "fb_used_bytes" else 0}), NOW_S + 100)
    use = held.use("node-1", "GPU-node-1-0", NOW_S + 100)
    assert use is not None
    assert getattr(use, name) == (0.0, 0.0)


def test_impossible_numbers_stay_in_their_bounds() -> None:
    """A ratio above 1, a negative power, a total of nothing."""
    held = GpuMinutes()
    held.update(device_samples(utilization_ratio=7.0, power_w=-5.0, fb_total_bytes=0), NOW_S)
    use = held.use("node-1", "GPU-node-1-0", NOW_S)
    assert use is not None
    assert use.utilization_ratio is not None
    assert use.utilization_ratio.max == 1.0
    assert use.power_w is not None
    assert use.power_w.max == 0.0
    assert use.memory_ratio is None
