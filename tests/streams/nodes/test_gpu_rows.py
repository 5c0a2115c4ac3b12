"""From a batch of samples to rows: what cannot be is None, what has no possible time is dropped."""

import math

import msgspec
import pytest

from streams.nodes.gpu_rows import possible, rows


@pytest.fixture
def sampled(make_node):
    """The rows of one message of a node of one GPU."""
    return lambda gpus=1, **columns: list(rows(make_node(1, gpus=gpus, **columns)[0]))


def test_a_row_holds_what_was_measured(sampled):
    """In the order of the message; what is None is not there, and 0.0 is."""
    one, other = sampled(2, temperature_celsius=lambda second, gpu: [60.0, 0.0][gpu])
    assert (one.uuid, one.values, one.at_s) == ("GPU-0", {"temperature_celsius": 60.0}, 1_700_000_000.25)
    assert (other.uuid, other.values, other.answered) == ("GPU-1", {"temperature_celsius": 0.0}, True)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 2.0**54, 1e300])
@pytest.mark.parametrize("name", ["temperature_celsius", "xid", "utilization_ratio", "fb_used_bytes"])
def test_what_cannot_be_is_not_measured(sampled, name, value):
    """Of numbers, counts and ratios alike; the row stays."""
    (row,) = sampled(**{name: value, "power_w": 100.0})
    assert row.values == {"power_w": 100.0}


@pytest.mark.parametrize(("value", "read"), [(1.0, 1.0), (1.04, 1.0), (1.06, None), (0.0, 0.0)])
def test_a_ratio_just_over_one_is_one(sampled, value, read):
    """Rounding of the driver; more is another unit."""
    assert sampled(utilization_ratio=value)[0].values.get("utilization_ratio") == read


@pytest.mark.parametrize(("used", "total", "kept"), [(0, 80, True), (80, 80, True), (81, 80, False), (0, 0, False)])
def test_memory_that_cannot_be_is_left_out_as_a_whole(sampled, used, total, kept):
    """More used than there is, and a total of 0."""
    (row,) = sampled(fb_used_bytes=used, fb_total_bytes=total)
    assert set(row.values) == ({"fb_used_bytes", "fb_total_bytes"} if kept else set())


def test_a_gpu_that_tells_an_error_alone_has_not_answered(sampled):
    """The XID comes from the kernel, not from the GPU; a blank row is no answer either."""
    assert not sampled(xid=79)[0].answered
    assert not sampled()[0].answered
    assert sampled(xid=79, power_w=0.0)[0].answered


@pytest.mark.parametrize("t0_s", [-1e9, math.nan, math.inf, 1e12])
def test_rows_at_an_impossible_time_are_dropped(make_node, t0_s):
    """A clock before 1970, after the year 5138, or none."""
    assert list(rows(msgspec.structs.replace(make_node(1)[0], t0_s=t0_s))) == []
    assert not possible(t0_s)


@pytest.mark.parametrize("device", [-1, 2, 10**9])
def test_rows_of_a_device_without_a_name_are_dropped(make_node, device):
    """The other GPU's row stays."""
    event = msgspec.structs.replace(make_node(1)[0], device=[device, 1])
    assert [row.uuid for row in rows(event)] == ["GPU-1"]


def test_a_message_without_rows_has_none(make_node):
    """A node whose GPUs are gone."""
    assert list(rows(make_node(1, gpus=0)[0])) == []
