"""What the views of an archive answer where jobs do not keep to the period, or tell of themselves again and again."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from archive.writer import Writer
from paceline import topics
from paceline.events import Cost, JobWindow
from paceline.history.store import Store
from paceline.history.views import Scope
from paceline.lost_time import lost_s, shares
from streams.processor import Processor
from streams.reports.job_level import JobLevel
from streams.reports.summary import Summary
from tests.archive.conftest import commit
from tests.derived_events import described, finding, job_window
from tests.streams.conftest import training

Ask = Callable[..., list[tuple[Any, ...]]]
DAY_S, NOW_S = 86_400.0, 1.7e9
WEEK = Scope(NOW_S - 7 * DAY_S, NOW_S)


@pytest.mark.long
@pytest.mark.parametrize(
    ("began", "ended", "is_listed"),
    [(-30, -20, False), (-30, -8, False), (-30, -6, True), (-6, -5, True), (-6, None, True), (-30, None, False)],
)
def test_a_job_is_listed_where_it_was_there_in_the_period(
    store: Store, ask: Ask, began: int, ended: int | None, is_listed: bool
):
    """Days before now. Of one that began long ago and never said that it ended nobody knows that it was still there."""
    end_s = None if ended is None else NOW_S + ended * DAY_S
    told = described(started_s=NOW_S + began * DAY_S, ended_s=end_s)
    commit(Writer(store), [told], published_s=NOW_S + began * DAY_S)
    assert [row[0] for row in ask("SELECT job FROM jobs", scope=WEEK)] == ["train"] * is_listed


@pytest.mark.long
def test_a_job_that_began_long_ago_is_listed_where_it_made_steps(store: Store, ask: Ask):
    commit(Writer(store), [described(started_s=NOW_S - 30 * DAY_S)], 1, published_s=NOW_S - 30 * DAY_S)
    commit(Writer(store), [job_window(start_s=NOW_S - DAY_S)], 2)
    assert ask("SELECT job, started_s FROM jobs", scope=WEEK) == [("train", NOW_S - 30 * DAY_S)]


@pytest.mark.long
def test_of_each_part_of_a_job_the_last_word_counts(store: Store, ask: Ask):
    """Two pods of one node are two parts; a part that tells of itself again is one."""
    pods = [{"kubernetes_pod": name} for name in ("a", "b")]
    told = [described(started_s=NOW_S, labels=labels) for labels in pods]
    told += [described(started_s=NOW_S, ended_s=NOW_S + 5, exit_status=3, labels=pods[1])]
    commit(Writer(store), told, published_s=NOW_S)
    assert ask("SELECT count(*), count(ended_s) FROM job_parts") == [(2, 1)]
    assert ask("SELECT ended_s, exit_status FROM jobs") == [(None, 3)]


@pytest.mark.long
def test_a_jobs_step_is_the_median_as_in_its_report(store: Store, ask: Ask):
    """A first minute of long steps and one of an evaluation move a mean, and no median; a step of 0 s is one, too."""
    chance, level = random.Random(3), JobLevel(60.0)
    paces = [9.0, *(chance.lognormvariate(-1.0, 0.4) for _ in range(41)), 30.0, 0.0]
    windows = [
        job_window(start_s=NOW_S + 60 * at, length_s=60.0, step_median_s=pace, steps=max(1, int(60 / max(pace, 0.1))))
        for at, pace in enumerate(paces)
    ]
    for window in windows:
        level.add_job(window)
    commit(Writer(store), windows)
    ((step_s,),) = ask("SELECT step_s FROM jobs")
    assert step_s == pytest.approx(level.medians.quantile(0.5), rel=0.02)
    assert step_s < sum(one.step_median_s * one.steps for one in windows) / sum(one.steps for one in windows)


@pytest.mark.long
def test_a_job_waits_a_share_of_its_time_not_of_its_steps(store: Store, ask: Ask):
    """Forty quick steps that wait little and forty slow ones that wait much: the slow ones are most of the time.

    What does not report it counts for nothing.
    """
    of = {"steps": 40, "length_s": 10.0}
    windows = [
        job_window(start_s=NOW_S, step_median_s=0.05, own_median_s=0.045, wait_ratio=0.1, **of),
        job_window(start_s=NOW_S + 10, step_median_s=0.5, own_median_s=0.35, wait_ratio=0.3, **of),
        job_window(start_s=NOW_S + 20, step_median_s=9.0, wait_ratio=None, **of),
    ]
    commit(Writer(store), windows)
    ((waiting,),) = ask("SELECT wait_ratio FROM jobs")
    assert waiting == pytest.approx((0.1 * 2 + 0.3 * 20) / 22)


@pytest.mark.long
def test_one_long_wait_counts_though_the_median_of_its_minute_does_not_see_it(store: Store, ask: Ask):
    """Ninety steps of 0.1 s a minute; in the second minute one of them hung for 39 s."""
    of = {"steps": 90, "length_s": 60.0, "step_median_s": 0.1, "own_median_s": 0.1}
    windows = [
        job_window(start_s=NOW_S, wait_ratio=0.0, **of),
        job_window(start_s=NOW_S + 60, wait_ratio=39 / 48, **of),
    ]
    commit(Writer(store), windows)
    ((waiting,),) = ask("SELECT wait_ratio FROM jobs")
    assert waiting == pytest.approx(39 / 57)


@pytest.mark.long
def test_of_windows_without_waiting_or_time_it_is_not_known(store: Store, ask: Ask):
    commit(Writer(store), [job_window(start_s=NOW_S, wait_ratio=None)], 1)
    commit(Writer(store), [job_window(job="b", start_s=NOW_S, steps=0, wait_ratio=0.5)], 2)
    assert ask("SELECT wait_ratio FROM jobs") == [(None,), (None,)]


@pytest.mark.long
def test_history_report_and_panel_count_the_same_steps(store: Store, ask: Ask):
    """Of a job that ends in the middle of a window."""
    processor, summary, level = Processor(recorded=True), Summary(), JobLevel(10.0)
    windows = []
    for event in training(seconds=5)[:-2]:
        summary.update(event)
        windows += [answer for _, answer in processor.update(topics.OP, event)]
    windows = [one for one in [*windows, *(answer for _, answer in processor.finish())] if isinstance(one, JobWindow)]
    for window in windows:
        if window.length_s == level.length_s:
            level.add_job(window)
    commit(Writer(store), windows)
    (job,) = summary.jobs.values()
    assert (ask("SELECT steps FROM jobs"), level.steps) == ([(job.steps,)], job.steps)


@pytest.mark.long
def test_a_job_lost_what_page_and_reports_count(store: Store, ask: Ask):
    """Of findings that overlap in steps the largest, and nothing of suspicions: SQL and Python agree on random ones."""
    chance, jobs = random.Random(3), {}
    for name in ("a", "b", "c", "d"):
        jobs[name] = [
            finding(
                id=f"{name}{number}",
                job=name,
                state=chance.choice(["confirmed", "recovered", "suspected"]),
                first_step=(first := chance.choice([-1, 0, 10, 20, 30])),
                last_step=first + chance.choice([-5, 0, 5, 15, 40]),
                cost=Cost(lost_s=chance.choice([0.0, 5.0, 40.0]), gpu_hours=number + 0.5, throughput_lost_ratio=0.1),
            )
            for number in range(chance.randint(4, 9))
        ]
    jobs["e"] = [msgspec.structs.replace(jobs["a"][0], id="e0", job="e", state="suspected")]
    told = [described(job=name, started_s=NOW_S) for name in jobs] + [one for found in jobs.values() for one in found]
    commit(Writer(store), told, published_s=NOW_S)
    for name, lost, hours in ask("SELECT job, lost_s, lost_gpu_hours FROM jobs"):
        assert lost == pytest.approx(lost_s(jobs[name]))
        assert hours == pytest.approx(sum(share.device_hours for share in shares(jobs[name])))
    assert all(lost_s(jobs[name]) > 0.0 for name in "abcd")


@pytest.mark.long
def test_a_job_lost_in_the_period_what_its_steps_there_cost(store: Store, ask: Ask):
    """Of a finding that began before, the part since; of one whose steps lie before, nothing."""
    windows = [job_window(start_s=NOW_S - at * DAY_S, first_step=1000 - 100 * at, last_step=1000) for at in (9, 5)]
    commit(Writer(store), [described(started_s=NOW_S - 9 * DAY_S), *windows])
    cost = Cost(lost_s=100.0, gpu_hours=1.0, throughput_lost_ratio=0.1)
    told = [finding(first_step=0, last_step=999, cost=cost), finding(id="f2", first_step=0, last_step=499, cost=cost)]
    commit(Writer(store), told, 2, published_s=NOW_S - DAY_S)
    assert ask("SELECT lost_s, lost_gpu_hours, findings FROM jobs", scope=WEEK) == [
        (pytest.approx(50.0), pytest.approx(0.5), 2)
    ]
