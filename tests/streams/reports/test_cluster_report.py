"""A cluster over days: hours used, idle and lost, and which node they were lost to."""

import msgspec
import pytest

from paceline.events import Cost, DeviceWindow
from streams.reports import cluster_report
from streams.reports.cluster_report import ClusterBuilder
from streams.reports.documents.cluster_document import cluster_document
from streams.reports.documents.document import Table
from streams.reports.documents.quantities import UNKNOWN
from tests.derived_events import described, finding, job_window

HOUR_S, DAY_S = 3600.0, 86_400.0


def device(start_s, busy, node="n", job=None, length_s=HOUR_S, use=None, **mean):
    held = {} if job is None else {"job": job}
    held |= {} if use is None else {"used_s": use[0], "idle_s": use[1]}
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


def test_of_joined_windows_the_part_that_was_used_counts(report_of):
    """A GPU that was busy for one minute of five is idle for four; what a window cannot hold is cut off."""
    joined = [
        device(0, 0.18, job="j", length_s=300.0, use=(60.0, 180.0)),
        device(300.0, 0.18, length_s=300.0, use=(9e9, -5.0)),
    ]
    report = report_of(*joined)
    assert [round(3600 * one) for one in report.use] == [360, 180, 180, 60]
    assert report.joined_hours == 0


def test_joined_windows_that_do_not_say_how_long_they_were_used_are_named(report_of):
    """Of an archive that an older version wrote: they count by their mean. Of one that was never busy it is known."""
    report = report_of(device(0, 0.18, length_s=300.0), device(300.0, 0.0, length_s=300.0))
    assert (report.use.used, report.joined_hours) == (pytest.approx(1 / 12), pytest.approx(1 / 12))
    assert any("do not say" in str(one) for one in cluster_document(report).blocks)
    assert not any("do not say" in str(one) for one in cluster_document(report_of(device(0, 0.0))).blocks)


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


def test_nodes_of_one_name_in_two_clusters_are_apart(report_of):
    """Each has its own hours and findings, and its cluster before its name."""
    cost = Cost(lost_s=360.0, gpu_hours=4.0, throughput_lost_ratio=0.5)
    east = msgspec.structs.replace(device(0, 0.9, node="gpu-01"), cluster="east")
    west = msgspec.structs.replace(device(0, 0.0, node="gpu-01", throttled_ratio=1.0), cluster="west")
    slow = finding(cluster="east", nodes=["gpu-01"], cost=cost)
    report = report_of(east, west, job_window(cluster="east"), slow)
    assert [(one.cluster, one.node, one.use.used, one.lost_hours, one.throttled_hours) for one in report.nodes] == [
        ("east", "gpu-01", 1.0, pytest.approx(4.0), 0.0),
        ("west", "gpu-01", 0.0, 0.0, 1.0),
    ]
    (table,) = (
        one
        for one in cluster_document(report).blocks
        if isinstance(one, Table) and one.head[1] == "device-hours lost to it"
    )
    assert [row[0] for row in table.rows] == ["east/gpu-01", "west/gpu-01"]


def test_an_empty_period_is_empty(report_of):
    """Not an error of the builder."""
    assert (report_of().from_s, report_of().jobs) == (None, [])


def run_of_a_week(revisions_h, recovered_h=None):
    """Two hundred hours of a step a second on 8 GPUs, a fifth of it lost; what was heard of it in the last day."""
    builder = ClusterBuilder("c", from_s=176 * HOUR_S)
    for hour in range(200):
        steps = 3600 * hour
        if hour in revisions_h:
            cost = Cost(lost_s=steps * 0.2, gpu_hours=steps * 0.2 * 8 / HOUR_S, throughput_lost_ratio=0.2)
            state = "recovered" if hour == recovered_h else "confirmed"
            builder.update(finding(revision=hour, state=state, first_step=0, last_step=steps, cost=cost), steps)
        window = job_window(start_s=steps, length_s=HOUR_S, steps=3600, first_step=steps, last_step=steps + 3599)
        builder.update(window, steps + HOUR_S)
    return builder.report()


@pytest.mark.parametrize("revisions_h", [(1, 2, 4, 8, 16, 32, 64, 128), (100, 180), (199,)])
def test_of_a_finding_the_steps_since_cost(revisions_h):
    """Whenever its last revision was published: a fifth of a day of 8 GPUs."""
    report = run_of_a_week(revisions_h)
    assert report.lost_hours == pytest.approx(0.2 * 24 * 8, rel=1e-3)
    assert [one.lost_hours for one in report.nodes] == [pytest.approx(report.lost_hours)]
    assert sum(day.lost_hours for day in report.days) == pytest.approx(report.lost_hours)


def test_of_a_finding_that_was_over_before_nothing_is_told():
    """Neither its cost nor its node."""
    report = run_of_a_week((1, 2, 4, 100), recovered_h=100)
    assert (report.lost, report.nodes, [job.episodes for job in report.jobs]) == ([], [], [[]])


def test_of_a_job_that_began_since_all_steps_count(report_of):
    """Also those whose windows are missing."""
    window = job_window(start_s=DAY_S, first_step=150, last_step=209)
    assert report_of(window, finding(state="recovered"), from_s=100.0).lost_hours == pytest.approx(0.03 * 51 / 101)
    whole = report_of(described(started_s=100.0), window, finding(state="recovered"), from_s=100.0)
    assert whole.lost_hours == pytest.approx(0.03)


def test_a_job_that_was_over_before_is_not_listed():
    """Its findings are heard, and belong to no window."""
    builder = ClusterBuilder("c", from_s=DAY_S)
    builder.update(finding(), 0.0)
    assert builder.report().jobs == []


def test_findings_of_many_jobs_before_are_bounded(monkeypatch):
    """The jobs heard last are kept."""
    monkeypatch.setattr(cluster_report, "MOST_JOBS", 2)
    builder = ClusterBuilder("c", from_s=DAY_S)
    for number in range(5):
        builder.update(finding(job=f"job-{number}", first_step=100, last_step=109), float(number))
    assert [job for _, job, _ in builder.earlier] == ["job-3", "job-4"]


def test_jobs_that_were_described_long_ago_take_no_room_from_those_of_the_period(monkeypatch, report_of):
    """An archive keeps what was said of jobs for years; what a job that goes on said before the period counts."""
    monkeypatch.setattr(cluster_report, "MOST_JOBS", 3)
    old = [described(job=f"job-{number}", started_s=float(number)) for number in range(4)]
    window = job_window(job="job-3", start_s=DAY_S + 60.0, length_s=60.0)
    report = report_of(*old, window, from_s=DAY_S)
    assert [one.job for one in report.jobs] == ["job-3"]
    assert report.left_out == {}
