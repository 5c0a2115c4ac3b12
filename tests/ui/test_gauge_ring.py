import numpy as np

from ui.gauge_ring import SLOTS_MIN, GaugeRing


def put(ring, row, at_s, value):
    ring.put(np.array([row]), at_s, np.array([[value]]))


def test_the_last_value_of_ten_seconds_is_kept():
    """More samples than slots need: the newest of each ten seconds."""
    ring = GaugeRing(["power_w"], rows_max=4)
    for at_s, value in ((100.0, 1.0), (104.0, 2.0), (110.0, 3.0)):
        put(ring, 0, at_s, value)
    held = ring.history(np.array([0]))
    assert held.values[0, 0, -2:].tolist() == [2.0, 3.0]
    assert held.at_s[0, -2:].tolist() == [104.0, 110.0]


def test_a_clock_that_is_hours_off_takes_nothing_from_others():
    """Each row has slots of its own: a row from tomorrow leaves another's history, and its own when set right."""
    ring = GaugeRing(["power_w"], rows_max=4)
    put(ring, 0, 100.0, 1.0)
    put(ring, 1, 90_000.0, 2.0)
    put(ring, 1, 110.0, 3.0)
    assert ring.history(np.array([0])).values[0, 0, -1] == 1.0
    assert ring.history(np.array([1])).values[0, 0, -2:].tolist() == [2.0, 3.0]


def test_memory_is_bounded_by_fewer_slots_for_more_rows():
    """Rows grow to their maximum, cells never over what is allowed, and what was held stays."""
    ring = GaugeRing(["a", "b"], rows_max=5_000, cells=200_000)
    ring.put(np.array([0]), 5.0, np.array([[7.0], [8.0]]))
    ring.put(np.array([4_999]), 5.0, np.array([[1.0], [2.0]]))
    assert ring.rows == 5_000
    assert SLOTS_MIN <= ring.slots <= 20
    assert ring.history(np.array([0])).values[:, 0, -1].tolist() == [7.0, 8.0]


def test_slots_go_round():
    """The oldest goes, the order stays."""
    ring = GaugeRing(["a"], rows_max=64, cells=64 * SLOTS_MIN)
    for tick in range(SLOTS_MIN + 3):
        put(ring, 0, tick * 10.0, float(tick))
    assert ring.history(np.array([0])).values[0, 0].tolist() == [float(tick) for tick in range(3, SLOTS_MIN + 3)]


def test_what_is_no_number_is_not_measured():
    """Infinite and huge values leave a gap."""
    ring = GaugeRing(["a"], rows_max=4)
    for tick, value in enumerate((np.inf, 1e38, np.nan)):
        put(ring, 0, tick * 10.0, value)
    assert np.isnan(ring.history(np.array([0])).values).all()
