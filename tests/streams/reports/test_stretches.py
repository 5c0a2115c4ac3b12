"""Where an archive's detail ends and its five minutes begin, no time is lost and none is counted twice."""

import msgspec
import pytest

from paceline.events import DeviceWindow, HostWindow
from streams.reports import cluster_use, machine_book
from streams.reports.cluster_use import ClusterUse
from streams.reports.machine_book import MachineBook


def device(start_s, length_s=60.0, busy=0.9, name="GPU-0", node="n", cluster="c", job=msgspec.UNSET, joules=6.0):
    return DeviceWindow(
        cluster=cluster,
        start_s=start_s,
        length_s=length_s,
        node=node,
        device=name,
        samples=6,
        mean={"utilization_ratio": busy},
        max={"temperature_celsius": 50.0 + start_s / 60.0},
        job=job,
        energy_j=joules,
    )


def host(start_s, length_s=60.0, cluster="c", busy=0.5):
    return HostWindow(
        cluster=cluster, start_s=start_s, length_s=length_s, node="n", samples=6, mean={"cpu_ratio": busy}, max={}
    )


def both(*windows):
    """What a job's report and a cluster's make of the windows."""
    book, use = MachineBook(), ClusterUse()
    for window in windows:
        book.update(window)
        if isinstance(window, DeviceWindow):
            use.update(window)
    return book, use


#: Three stretches of five minutes made coarser, of which one lacks a minute; then two in detail.
OLDER = [device(0.0, 300.0, joules=30.0), device(300.0, 240.0, joules=24.0), device(600.0, 300.0, joules=30.0)]
NEWER = [device(900.0 + 60.0 * at) for at in range(10)]


@pytest.mark.parametrize("times", [1, 2])
def test_detail_and_five_minutes_add_up(times):
    """24 minutes, however often each window comes."""
    book, use = both(*(one for one in OLDER + NEWER for _ in range(times)))
    (told,) = book.devices()
    assert told.seconds == pytest.approx(1440.0)
    assert told.energy_j == pytest.approx(144.0)
    assert told.temperature_max_celsius == pytest.approx(50.0 + 1440.0 / 60.0)
    assert use.sums().total.used == pytest.approx(1440.0 / 3600.0)


def test_hosts_add_up_as_devices_do():
    """The means are weighted by time."""
    book, _ = both(
        host(0.0, 300.0, busy=0.1), host(300.0, 180.0, busy=0.1), *(host(600.0 + 60 * at) for at in range(8))
    )
    (told,) = book.hosts()
    assert told.seconds == pytest.approx(960.0)
    assert told.cpu_ratio == pytest.approx(0.3)


def test_short_windows_beside_those_of_a_minute_count_once():
    """As in a recording, whose last minute is not whole: what tells of more of the five minutes counts."""
    windows = [device(10.0 * at, 10.0, joules=1.0) for at in range(33)] + [device(60.0 * at) for at in range(5)]
    book, use = both(*sorted(windows, key=lambda one: one.start_s + one.length_s))
    (told,) = book.devices()
    assert (told.seconds, told.energy_j) == (pytest.approx(330.0), pytest.approx(33.0))
    assert use.sums().total.used == pytest.approx(330.0 / 3600.0)


def test_windows_of_a_minute_count_where_short_ones_are_gone():
    """Kept for a day, say, beside a month."""
    windows = [device(60.0 * at) for at in range(20)] + [device(1140.0 + 10.0 * at, 10.0) for at in range(6)]
    assert both(*windows)[0].devices()[0].seconds == pytest.approx(1200.0)


def test_two_jobs_on_a_gpu_within_five_minutes_both_count():
    """They have a row each, from the same start on."""
    book, use = both(device(0.0, 120.0, job="a"), device(0.0, 180.0, job="b"), device(300.0, job="b"))
    (told,) = book.devices()
    assert (told.seconds, told.jobs) == (pytest.approx(360.0), ("a", "b"))
    assert use.sums().total.used == pytest.approx(0.1)
    same = both(device(0.0, 150.0, job="a"), device(0.0, 150.0, job="b"), device(0.0, 150.0, job="a"))
    assert same[0].devices()[0].seconds == pytest.approx(300.0)


def test_a_report_changes_nothing_of_what_comes_after_it():
    """It may be asked for at any time."""
    book, use = both(*OLDER)
    assert book.devices() == book.devices()
    assert use.sums().total == use.sums().total
    for window in NEWER:
        book.update(window)
        use.update(window)
    assert book.devices()[0].seconds == pytest.approx(1440.0)
    assert use.sums().total.used == pytest.approx(0.4)


def test_devices_of_one_name_on_two_nodes_or_in_two_clusters_are_apart():
    """Where there is no UUID, GPUs are called gpu0 on every node, and nodes n0 in every cluster."""
    windows = [device(0.0, name="gpu0", node=node, cluster=cluster) for node in ("n0", "n1") for cluster in ("c", "d")]
    book, use = both(*windows, host(0.0), host(0.0, cluster="d"))
    assert (len(book.devices()), len(book.hosts()), use.devices) == (4, 2, 4)
    assert {(one.cluster, one.node) for one in book.devices()} == {(one, n) for one in "cd" for n in ("n0", "n1")}
    assert {(one.cluster, one.node) for one in book.hosts()} == {("c", "n"), ("d", "n")}
    assert use.sums().total.used == pytest.approx(4 / 60)


def test_a_gpu_under_mig_is_one_gpu():
    """Its instances tell of themselves beside it."""
    _, use = both(*(device(0.0, name=name) for name in ("GPU-a", "MIG-1", "MIG-2", "MIG-GPU-a/7/0")))
    assert (use.devices, use.sums().total.used) == (1, pytest.approx(1 / 60))


def test_days_and_nodes_are_the_same_hours():
    """Stretches that are past and those that are open."""
    windows = [device(86_400.0 * day + 60.0 * at, node=node) for day in range(2) for at in range(30) for node in "ab"]
    sums = both(*windows)[1].sums()
    assert {day: use.used for day, use in sums.days.items()} == {0: pytest.approx(1.0), 1: pytest.approx(1.0)}
    assert {node: use.used for (_, node), use in sums.nodes.items()} == {
        "a": pytest.approx(1.0),
        "b": pytest.approx(1.0),
    }


def test_what_is_beyond_the_limits_is_counted(monkeypatch):
    """Once a device, not once a window."""
    monkeypatch.setattr(machine_book, "MOST_DEVICES", 1)
    monkeypatch.setattr(cluster_use, "MOST_DEVICES", 1)
    windows = [device(60.0 * at, name=f"GPU-{name}") for at in range(3) for name in range(2)]
    book, use = both(*windows, host(0.0))
    assert book.left_out == {"devices": 1}
    assert use.sums().left_out == {"devices": 1}
