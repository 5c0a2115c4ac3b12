"""What reports are made of: in any number, told twice, late, of kinds nobody knows here, or not at all."""

import math

import msgspec
import pytest

from paceline.energy.tariff import Tariff
from paceline.events import Cost, DeviceWindow, JobProfile, NodeDescribed, RankPlace
from streams.reports import job_book, machine_book
from streams.reports.documents.as_text import as_text
from streams.reports.documents.document import Notice, Tiles
from streams.reports.documents.job_sections import job_sections
from streams.reports.documents.report_document import report_document
from streams.reports.time_grid import COLUMNS
from tests.derived_events import described, finding, job_window, rank_window, suggestion


def test_nothing_at_all_is_an_empty_report(report_of):
    """Not an error: the period was empty."""
    report = report_of()
    assert (report.jobs, report.devices, report.suggestions) == ([], [], [])


def test_a_slow_rank_is_the_worst_and_its_phases_say_why(report_of, make_windows):
    """Median rank beside the one that works longest."""
    (job,) = report_of(*make_windows(30, slow=2)).jobs
    assert (job.worst_rank, job.steps, job.heard.ranks_heard) == (2, 60, 4)
    forward = next(one for one in job.phases if one.name == "forward")
    assert (round(forward.median_s, 3), round(forward.worst_s, 3)) == (0.15, 0.375)
    assert job.step_median_s == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(
    ("slow_s", "title", "words"),
    [
        (0.4, "No rank is slow all the time", "Rank 1 works 44.1 ms a step longer than the others on average. 3 "),
        (0.152, "Nothing slowed it down", "3 ranks compared over 40 steps."),
    ],
)
def test_the_verdict_does_not_deny_a_rank_that_works_longer(report_of, make_windows, slow_s, title, words):
    """Three windows of rank 1 are slow and no finding names it; the first steps of rank 0 do not count."""
    events = []
    for event in make_windows(20, ranks=3):
        second, rank = int(event.start_s), getattr(event, "rank", None)
        spent_s = {0: 1.0 if second < 3 else 0.15, 1: slow_s if second % 7 == 3 else 0.15}.get(rank, 0.15)
        if rank is not None:
            phases = event.phase_mean_s | {
                "forward": spent_s,
                "communication": max(slow_s, 1.0 * (second < 3)) - spent_s,
            }
            event = msgspec.structs.replace(event, phase_mean_s=phases)
        events.append(event)
    (job,) = report_of(*events).jobs
    (notice,) = [block for block in job_sections(job) if isinstance(block, Notice)]
    assert notice.title == title
    assert notice.text.startswith(words)


def test_of_three_ranks_one_saves_and_the_median_rank_does_not(report_of, make_windows):
    """Windows have the median of those that save; the waiting is one number in tile and table."""
    events = []
    for event in make_windows(10, ranks=3):
        if getattr(event, "rank", None) == 0:
            event = msgspec.structs.replace(event, phase_mean_s=event.phase_mean_s | {"checkpoint": 0.08})
        if hasattr(event, "phase_median_s"):
            medians = event.phase_median_s | {"checkpoint": 0.08}
            event = msgspec.structs.replace(event, phase_median_s=medians, wait_ratio=0.64)
        events.append(event)
    (job,) = report_of(*events).jobs
    (saved,) = [one for one in job.phases if one.name == "checkpoint"]
    assert (saved.median_s, saved.worst_s) == (0.0, pytest.approx(0.08))
    (tiles,) = [block for block in job_sections(job) if isinstance(block, Tiles)]
    assert [tile.value for tile in tiles.tiles if tile.label == "waiting for others"] == ["6 %"]


def test_ninety_five_of_a_hundred_steps_take_less_than_it_says(report_of):
    """A tenth of the windows hold longer steps: they are in what the slowest steps take, and not in the median."""
    took_s = [0.5 if second % 10 else 1.5 for second in range(100)]
    events = [
        job_window(start_s=float(at), first_step=at, last_step=at, steps=1, step_median_s=one, step_p95_s=one)
        for at, one in enumerate(took_s)
    ]
    (job,) = report_of(*events).jobs
    assert (job.step_median_s, job.step_p95_s) == (pytest.approx(0.5, rel=0.01), pytest.approx(1.5, rel=0.01))


def test_of_windows_alike_it_says_what_each_of_them_says(report_of, make_windows):
    """Their own 95 % quantile."""
    (job,) = report_of(*make_windows(30)).jobs
    assert job.step_p95_s == pytest.approx(0.55, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "samples"),
    [
        ({}, "32/s"),
        ({"tp": [0, 1, 0, 1], "dp": [0, 0, 1, 1]}, "16/s"),
        ({"pp": [0, 1, 2, 3], "dp": [0, 0, 0, 0]}, "8/s"),
        ({"tp": [0, 1, 0, 1]}, None),
        ({"batch_size": None}, None),
    ],
)
def test_a_batch_counts_once_for_the_ranks_that_share_it(report_of, make_windows, changes, samples):
    """Four ranks of a tensor- or pipeline-parallel job do not read four batches; unknown is no number."""
    places = [
        {"rank": rank, "local_rank": rank, "node": "node-1", "device": "", "pid": rank}
        | {name: values[rank] for name, values in changes.items() if name != "batch_size"}
        for rank in range(4)
    ]
    one = described(
        world_size=4, batch_size=changes.get("batch_size", 4), places=[RankPlace(**held) for held in places]
    )
    report = report_of(one, *make_windows(30))
    tiles = [tile for block in job_sections(report.jobs[0]) if isinstance(block, Tiles) for tile in block.tiles]
    assert next((tile.value for tile in tiles if tile.label == "samples"), None) == samples


def test_windows_told_twice_count_once(report_of, make_windows):
    """Delivery is at least once."""
    events = list(make_windows(20))
    once, twice = report_of(*events), report_of(*(one for event in events for one in (event, event)))
    assert once.jobs[0].steps == twice.jobs[0].steps
    assert once.jobs[0].phases == twice.jobs[0].phases


def test_windows_of_several_lengths_tell_the_same_steps(report_of, make_windows):
    """Windows of ten seconds beside those of one add nothing."""
    coarse = [job_window(start_s=10.0 * at, first_step=20 * at, last_step=20 * at + 19, steps=20) for at in range(3)]
    (job,) = report_of(*make_windows(30), *coarse).jobs
    assert job.steps == 60
    assert job.course.column_s == 1.0


def test_of_a_large_job_windows_that_tell_of_the_slowest_alone_are_not_read(report_of, make_windows):
    """A second's windows hold 100 ranks; what holds them all counts."""
    fine = [
        msgspec.structs.replace(one, ranks=1024) if hasattr(one, "worst_rank") else one
        for one in make_windows(30, ranks=100)
    ]
    coarse = [
        job_window(start_s=10.0 * at, ranks=1024, first_step=20 * at, last_step=20 * at + 19, steps=20)
        for at in range(3)
    ]
    (job,) = report_of(*fine, *coarse).jobs
    assert job.course.column_s == 10.0
    assert (job.worst_rank, len(job.course.ranks)) == (None, 0)


def test_where_ranks_are_told_by_the_minute_alone_they_stand_beside_a_finer_course(report_of):
    """As an archive keeps them; what comes after the report changes nothing of it."""
    jobs = [job_window(start_s=10.0 * at, first_step=20 * at, last_step=20 * at + 19, steps=20) for at in range(12)]
    ranks = [
        rank_window(rank, 0.9 if rank == 3 else 0.5, start_s=60.0 * at, length_s=60.0, steps=120)
        for at in range(2)
        for rank in range(4)
    ]
    (job,) = report_of(*jobs, *ranks).jobs
    assert (job.course.column_s, job.worst_rank, job.heard.ranks_heard) == (10.0, 3, 8)
    assert job.course.own.shape == (4, 12)
    assert (job.course.own[3] > job.course.own[0]).all()


def test_the_highest_revision_of_a_finding_counts_whatever_the_order(report_of):
    """At least once, and late."""
    newer = finding(revision=2, state="recovered")
    for order in ([finding(), newer], [newer, finding()], [newer, finding(), newer]):
        (job,) = report_of(*order).jobs
        assert [one.finding.revision for one in job.episodes] == [2]


def test_a_finding_has_the_time_of_its_steps(report_of, make_windows):
    """Steps become moments by the windows that hold them."""
    (job,) = report_of(*make_windows(100, t0_s=5000.0), finding(first_step=40, last_step=99)).jobs
    assert (job.episodes[0].from_s, job.episodes[0].to_s) == (5020.0, 5050.0)


def test_a_step_that_nobody_finished_is_at_the_end(report_of, make_windows):
    """As a suspected hang's, which costs nothing."""
    (job,) = report_of(*make_windows(10), finding(kind="hang", state="suspected", first_step=20, last_step=20)).jobs
    assert (job.episodes[0].from_s, job.episodes[0].to_s, job.elapsed_s) == (9.0, 10.0, 10.0)


@pytest.mark.parametrize(("ended_s", "until_s"), [(None, 70.0), (40.0, 70.0), (92.5, 92.5)])
def test_a_job_was_watched_as_long_as_it_hung(report_of, make_windows, ended_s, until_s):
    """A hang makes no steps; its time is the job's all the same, and no more than all of it is lost."""
    hang = finding(
        kind="hang", first_step=19, last_step=19, cost=Cost(lost_s=60.0, gpu_hours=0.07, throughput_lost_ratio=1.0)
    )
    (job,) = report_of(*make_windows(10), described(ended_s=ended_s), hang).jobs
    assert job.elapsed_s == until_s
    assert (job.episodes[0].from_s, job.episodes[0].to_s) == (9.0, math.ceil(until_s))
    assert job.course.own.shape[1] == len(job.course.step_s) == math.ceil(until_s)


@pytest.mark.parametrize(("state", "at_the_end"), [("confirmed", True), ("recovered", False)])
def test_a_job_dies_at_its_end_though_its_last_step_hung_before(report_of, make_windows, state, at_the_end):
    """One whose ranks came again died at its step."""
    hang = finding(
        kind="hang", first_step=19, last_step=19, cost=Cost(lost_s=60.0, gpu_hours=0.07, throughput_lost_ratio=1.0)
    )
    died = finding(id="died", kind="died", state=state, first_step=19, last_step=19)
    (job,) = report_of(*make_windows(10), described(ended_s=None), hang, died).jobs
    (found,) = (one for one in job.episodes if one.finding.kind == "died")
    assert (found.to_s == job.to_s) == at_the_end
    assert (found.from_s == job.to_s - job.course.column_s) == at_the_end


def test_a_hang_that_ended_is_drawn_as_long_as_it_took(report_of, make_windows):
    """The step in which it hung began in one column; it is not as short as that."""
    cost = Cost(lost_s=20.0, gpu_hours=0.02, throughput_lost_ratio=1.0)
    hang = finding(kind="hang", state="recovered", first_step=19, last_step=19, cost=cost)
    late = job_window(start_s=39.0, length_s=1.0, first_step=20, last_step=21, steps=2)
    (job,) = report_of(*make_windows(10), late, hang).jobs
    assert (job.episodes[0].from_s, job.episodes[0].to_s) == (9.0, 29.0)


def verdict_of(report):
    return next(one for one in job_sections(report.jobs[0]) if isinstance(one, Notice))


def test_a_job_that_died_is_not_called_well(report_of, make_windows):
    """It lost no time; that a rank was killed is the one thing to know, and the finding is not open."""
    nothing = Cost(lost_s=0.0, gpu_hours=0.0, throughput_lost_ratio=0.0)
    died = finding(kind="died", first_step=19, last_step=19, summary="Died: rank 2: killed (SIGKILL).", cost=nothing)
    report = report_of(*make_windows(10), described(world_size=4, exit_status=1), died)
    assert (verdict_of(report).title, verdict_of(report).text) == ("It died", "rank 2: killed (SIGKILL).")
    assert "19, open" not in as_text(report_document(report))


def test_a_job_that_failed_is_not_called_well_either(report_of, make_windows):
    """Its exit status alone says so."""
    notice = verdict_of(report_of(*make_windows(10), described(world_size=4, exit_status=1)))
    assert (notice.title, notice.tone) == ("It failed, and nothing slowed it down", "caution")


def test_an_hour_in_a_hang_stays_in_the_columns_of_a_picture(report_of, make_windows):
    """Columns get longer; what was measured before stays where it was."""
    hang = finding(
        kind="hang", first_step=19, last_step=19, cost=Cost(lost_s=3600.0, gpu_hours=4.0, throughput_lost_ratio=1.0)
    )
    (job,) = report_of(*make_windows(10), hang).jobs
    assert len(job.course.step_s) <= COLUMNS
    assert job.course.step_s[0] == pytest.approx(0.5)
    assert job.episodes[0].to_s == pytest.approx(3610.0, abs=job.course.column_s)


def test_what_a_jobs_logs_say_is_the_jobs(report_of, make_windows):
    """They count no steps, and name nodes."""
    report = report_of(*make_windows(10), finding(kind="died", first_step=-1, last_step=-1))
    assert [one.finding.kind for one in report.jobs[0].episodes] == ["died"]
    assert report.node_findings == []


def test_one_job_is_told_of_alone_where_it_is_asked_for(report_of, make_windows):
    """Others, their suggestions and the findings of their nodes are left out."""
    other = finding(id="n", first_step=-1, last_step=-1, nodes=["elsewhere"])
    report = report_of(
        *make_windows(5), described(), job_window(job="other"), other,
        suggestion(job="other"), suggestion(id="mine"), job="train",
    )  # fmt: skip
    assert [one.job for one in report.jobs] == ["train"]
    assert report.node_findings == []
    assert [one.id for one in report.suggestions] == ["mine"]


def test_a_job_is_shown_with_the_machines_of_its_own_cluster(report_of, make_windows):
    """Another cluster has a node of the same name."""
    machines = []
    for cluster, busy in (("c", 0.9), ("other", 0.1)):
        mean = {"utilization_ratio": busy}
        machines += [
            DeviceWindow(
                cluster=cluster, start_s=0.0, length_s=60.0, node="node-1", device="G", samples=60, mean=mean, max={}
            ),
            NodeDescribed(
                cluster=cluster, producer=cluster, sequence=0, node="node-1", time_s=0.0, cpu_model=None, cpu_count=1,
                memory_total_bytes=1, kernel="",
            ),
            finding(
                cluster=cluster, id=f"of {cluster}", kind="device_fault", first_step=-1, last_step=-1, nodes=["node-1"]
            ),
        ]  # fmt: skip
    report = report_of(*make_windows(5), described(node="node-1"), *reversed(machines), job="train")
    assert [one.utilization_ratio for one in report.devices] == [0.9]
    assert [one.cluster for one in report.nodes_described] == ["c"]
    assert [one.finding.id for one in report.node_findings] == ["of c"]


def test_ranks_never_heard_are_counted(report_of, make_windows):
    """The job says how many it has."""
    (job,) = report_of(*make_windows(5), described(world_size=8)).jobs
    assert (job.heard.ranks_expected, job.heard.ranks_heard) == (8, 4)


def test_time_in_which_nothing_was_told_is_known(report_of, make_windows):
    """A gap of an hour in the middle."""
    later = [
        job_window(
            start_s=3600.0 + at,
            length_s=1.0,
            first_step=100 + 2 * at,
            last_step=101 + 2 * at,
            steps=2,
            step_median_s=0.5,
        )
        for at in range(10)
    ]
    (job,) = report_of(*make_windows(10), *later).jobs
    assert job.elapsed_s == 3610.0
    assert job.heard.told_s == 20.0


def test_a_month_of_a_thousand_ranks_is_bounded(report_of):
    """The picture has so many columns however long it lasts."""
    events = [
        job_window(start_s=3600.0 * at, length_s=60.0, ranks=1024, first_step=at, last_step=at, steps=1)
        for at in range(30 * 24)
    ]
    (job,) = report_of(*events).jobs
    assert len(job.course.step_s) <= 240
    assert job.elapsed_s == pytest.approx(30 * 86_400, rel=0.01)


def test_odd_numbers_raise_nothing(report_of):
    """Windows of no length, steps told backwards, a kind of finding of a later version."""
    odd = [
        job_window(length_s=0.0),
        job_window(first_step=500, last_step=3, steps=0),
        finding(
            id="odd",
            kind="cosmic_ray",
            state="foretold",
            cause="sun",
            cost=Cost(lost_s=0.0, gpu_hours=0.0, throughput_lost_ratio=0.0),
        ),
        JobProfile(cluster="c", job="train", attempt=0, time_s=1.0, kind="quantum"),
    ]
    (job,) = report_of(*odd).jobs
    assert job.kind == "quantum"
    assert job.course is None


def test_a_job_that_began_before_the_detail_is_reported_from_its_start(report_of):
    """Of its last days an archive has windows of ten seconds, of all of them those of a minute."""
    minutes = [
        job_window(start_s=60.0 * at, length_s=60.0, first_step=60 * at, last_step=60 * at + 59, steps=60)
        for at in range(20)
    ]
    short = [
        job_window(start_s=300.0 + 10.0 * at, first_step=300 + 10 * at, last_step=309 + 10 * at, steps=10)
        for at in range(90)
    ]
    (job,) = report_of(*minutes, *short).jobs
    assert (job.steps, job.from_s, job.to_s) == (1200, 0.0, 1200.0)


def test_ranks_of_five_minutes_and_of_one_are_the_same_ranks(report_of):
    """Older windows are made coarser, and are as long as there is data: no rank's time is lost, no column is blank."""
    jobs = [
        job_window(start_s=60.0 * at, length_s=60.0, first_step=60 * at, last_step=60 * at + 59, steps=60)
        for at in range(20)
    ]
    lengths = {0.0: 300.0, 300.0: 240.0} | {600.0 + 60.0 * at: 60.0 for at in range(10)}
    ranks = [
        rank_window(rank, 0.9 if rank == 3 else 0.5, start_s=start_s, length_s=length_s, steps=round(length_s))
        for start_s, length_s in lengths.items()
        for rank in range(4)
    ]
    (job,) = report_of(*jobs, *ranks).jobs
    assert (job.worst_rank, job.own_worst_s) == (3, pytest.approx(0.9))
    assert job.course.own.shape == (4, 20)
    assert [at for at, value in enumerate(job.course.own[3]) if value != pytest.approx(0.9)] == [9]


def test_what_is_beyond_the_limits_is_in_the_report(report_of, monkeypatch):
    """Of jobs, of devices and of findings, whichever it is."""
    monkeypatch.setattr(job_book, "MOST_FINDINGS", 1)
    monkeypatch.setattr(machine_book, "MOST_DEVICES", 1)
    windows = [
        DeviceWindow(cluster="c", start_s=0.0, length_s=60.0, node="n", device=f"GPU-{at}", samples=6, mean={}, max={})
        for at in range(3)
    ]
    report = report_of(job_window(), *(finding(id=str(at)) for at in range(4)), *windows)
    assert report.left_out == {"findings of jobs": 3, "devices": 2}
    text = as_text(report_document(report, Tariff()))
    assert "Left out, for a report has limits: 2 devices." in text


def test_waiting_is_a_share_of_time_not_of_steps(report_of):
    """One step of 9 s that nobody waited in, and one of 1 s that was all waiting."""
    windows = [
        job_window(start_s=10.0 * at, steps=1, step_median_s=s, own_median_s=s * (1 - w), wait_ratio=w)
        for at, s, w in ((0, 9.0, 0.0), (1, 1.0, 1.0))
    ]
    assert report_of(*windows).jobs[0].wait_ratio == pytest.approx(0.1)


def test_one_long_wait_counts_though_the_median_of_its_window_does_not_see_it(report_of):
    """Ninety steps of 0.1 s, and in another window as many with one of 39 s among them, in a collective that hung."""
    windows = [
        job_window(start_s=0.0, steps=90, step_median_s=0.1, own_median_s=0.1, wait_ratio=0.0),
        job_window(start_s=60.0, steps=90, step_median_s=0.1, own_median_s=0.1, wait_ratio=39 / 48),
    ]
    assert report_of(*windows).jobs[0].wait_ratio == pytest.approx(39 / 57)


def test_the_verdict_is_of_what_is_counted(report_of, make_windows):
    """A mere suspicion costs nothing, however large: the sentence is that of the confirmed one."""
    cost = Cost(lost_s=12.5, gpu_hours=0.1, throughput_lost_ratio=0.3)
    sure = finding(id="a", cost=cost, first_step=0, last_step=59, summary="Rank 3 works longer.")
    maybe = finding(
        id="b",
        state="suspected",
        ranks=[9],
        cost=msgspec.structs.replace(cost, lost_s=30.0),
        summary="Rank 9 may be slow.",
    )
    (job,) = report_of(*make_windows(30, slow=2), sure, maybe).jobs
    (notice,) = [block for block in job_sections(job) if isinstance(block, Notice)]
    assert notice.text.startswith("Rank 3 works longer.")
