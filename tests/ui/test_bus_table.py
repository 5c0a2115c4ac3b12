import numpy as np

from paceline.events import CollectiveLine, JobWindow
from ui.bus_table import bus_lines, chosen_windows, lateness


def window(start_s, length_s=10.0, *lines):
    return JobWindow(
        cluster="c", start_s=start_s, length_s=length_s, job="j", attempt=0, ranks=4, steps=1, first_step=0,
        last_step=0, step_median_s=1.0, step_p95_s=1.0, own_median_s=1.0, own_worst_s=1.0, worst_rank=0,
        wait_ratio=None, phase_median_s={}, collectives=list(lines),
    )  # fmt: skip


def line(operation="all_reduce", calls=2, moved=4_000, took_s=0.001):
    return CollectiveLine(
        operation=operation, least_bytes=1024, calls=calls, bytes=moved, wait_s=0.5, duration_s=took_s
    )


def test_windows_are_summed_by_operation_and_size():
    """Calls, bytes and seconds of all windows; bus bandwidth as nccl-tests count it."""
    (one,) = bus_lines([window(0.0, 10.0, line()), window(10.0, 10.0, line())], 4)
    assert (one.calls, one.bytes, one.wait_s) == (4, 8_000, 1.0)
    assert one.bytes_per_s == 4e6
    assert one.bus_bytes_per_s == 6e6


def test_what_has_no_bandwidth_has_none():
    """A barrier, a collective that took no time, and a job of one rank."""
    barrier, quick = line("barrier"), line("all_gather", took_s=0.0)
    assert [one.bus_bytes_per_s for one in bus_lines([window(0.0, 10.0, barrier, quick)], 4)] == [None, None]
    assert bus_lines([window(0.0, 10.0, line())], 1)[0].bus_bytes_per_s is None


def test_windows_of_one_length_alone_are_summed():
    """A minute's window holds what its six windows of 10 s do: never both; the longer where it covers more."""
    tens = tuple(window(at, 10.0) for at in (600.0, 610.0, 620.0))
    minutes = tuple(window(at, 60.0) for at in (0.0, 60.0, 600.0))
    assert chosen_windows({10.0: tens, 60.0: minutes}, (0.0, 700.0)) == minutes


def test_the_rank_that_waits_least_is_the_late_one():
    """Of each step; ranks that tell nothing are not late, and a step that few told makes nobody late."""
    waiting = np.array([[0.5, 0.5, np.nan], [0.1, 0.1, 0.1], [0.5, 0.4, np.nan], [np.nan] * 3], np.float32)
    late = lateness(waiting)
    assert np.allclose(late[:3], [0.0, 0.4, 0.05])
    assert np.isnan(late[3])
    assert lateness(np.empty((2, 0), np.float32)).shape == (2,)
