"""A cluster over days: hours used, idle and lost, and which node they were lost to."""

import pytest

from paceline.events import Cost, DeviceWindow
from streams.reports.cluster_report import ClusterBuilder
from streams.reports.documents.cluster_document import cluster_document
from streams.reports.documents.document import Table
from streams.reports.documents.quantities import UNKNOWN
from tests.derived_events import finding, job_window

HOUR_S, DAY_S = 3600.0, 86_400.0


def device(start_s, busy, node="n", job=None, length_s=HOUR_S, **mean):
    held = {} if job is None else {"job": job}
    means = mean | ({} if busy is None else {"utilization_ratio": busy})
    return DeviceWindow(
        cluster="c",
        start_s=start_s,
        length_s=length_s,
        node=node,
        device=f"GPU-{node}",
        samples=6,
        mean=means,
        max={},
        **held,
    )


@pytest.fixture
def report_of():
    def of(*events, **options):
        builder = ClusterBuilder(**options)
        for event in events:
            builder.update(event, getattr(event, "start_s", 0.0))
        return builder.report()

    return of


def test_hours_are_used_idle_held_or_not_measured(report_of):
    """Idle ones that a job holds are told apart, and what nobody measured is not idle."""
    use = report_of(
        device(0, 0.9), device(HOUR_S, 0.0), device(2 * HOUR_S, 0.01, job="j"), device(3 * HOUR_S, None)
    ).use
    assert (use.used, use.idle, use.held, use.unknown) == (1.0, 2.0, 1.0, 1.0)


def test_windows_of_two_lengths_and_repetitions_count_once(report_of):
    """Windows of ten seconds tell the same hour."""
    minutes = [device(60.0 * at, 0.9, length_s=60.0) for at in range(60)]
    short = [device(10.0 * at, 0.9, length_s=10.0) for at in range(360)]
    report = report_of(*sorted(short + minutes, key=lambda one: one.start_s + one.length_s), *minutes)
    assert report.use.used == pytest.approx(1.0)


def test_days_are_apart(report_of):
    """By the day that a window begins on (UTC)."""
    days = report_of(device(DAY_S - HOUR_S, 0.9), device(DAY_S, 0.0)).days
    assert [(day.start_s, day.use.used, day.use.idle) for day in days] == [(0.0, 1.0, 0.0), (DAY_S, 0.0, 1.0)]


def test_hours_of_a_day_without_a_sampled_device_are_unknown(report_of):
    """They are not 0: nobody measured them."""
    cost = Cost(lost_s=9.0, gpu_hours=0.5, throughput_lost_ratio=0.1)
    document = cluster_document(report_of(job_window(), finding(cost=cost)))
    (table,) = (one for one in document.blocks if isinstance(one, Table) and one.head[0] == "day")
    assert [row[1:] for row in table.rows] == [(UNKNOWN, UNKNOWN, UNKNOWN, "0.5")]


def test_what_jobs_lost_is_put_down_to_causes_and_nodes(report_of):
    """A finding that accuses two nodes is shared out among them."""
    cost = Cost(lost_s=360.0, gpu_hours=4.0, throughput_lost_ratio=0.5)
    report = report_of(job_window(), finding(nodes=["a", "b"], cost=cost, first_step=100, last_step=109))
    assert [(one.cause, one.device_hours) for one in report.lost] == [("worker_compute", pytest.approx(4.0))]
    assert {one.node: one.lost_hours for one in report.nodes} == {"a": pytest.approx(2.0), "b": pytest.approx(2.0)}
    # Nobody sampled their devices: for how long these were throttled is not known.
    assert {one.throttled_hours for one in report.nodes} == {None}


def test_exonerated_nodes_are_not_blamed(report_of):
    """A finding that accuses no rank names no worst node."""
    cost = Cost(lost_s=360.0, gpu_hours=4.0, throughput_lost_ratio=0.5)
    report = report_of(job_window(), finding(kind="stage_imbalance", ranks=[], nodes=["a"], cost=cost, last_step=109))
    assert report.nodes == []
    assert report.lost_hours == pytest.approx(4.0)


def test_other_clusters_and_older_windows_are_left_out(report_of):
    """One cluster, from one moment on."""
    report = report_of(device(0, 0.9), device(DAY_S, 0.9), cluster="c", from_s=DAY_S)
    assert report.use.used == 1.0
    assert report_of(device(0, 0.9), cluster="other").devices == 0


def test_an_empty_period_is_empty(report_of):
    """Not an error of the builder."""
    assert (report_of().from_s, report_of().jobs) == (None, [])
