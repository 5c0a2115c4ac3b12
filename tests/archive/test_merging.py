"""Merges: few files, no row twice or lost, windows coarser with their sums kept, and nothing kept too long."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from archive import merging
from archive.merger import Merger
from archive.merging import Days
from archive.writer import Writer
from paceline import events
from paceline.history import manifest as manifests
from paceline.history.manifest import DataFile
from paceline.history.store import Store
from tests.archive.conftest import commit
from tests.derived_events import finding, job_window, rank_window

Ask = Callable[..., list[tuple[Any, ...]]]
DAY_S = 86_400.0
NOW_S = 1.7e9


def device_window(minute: int, **changes: Any) -> events.DeviceWindow:
    held: dict[str, Any] = {
        "cluster": "c", "start_s": NOW_S // 300 * 300 + 60.0 * minute, "length_s": 60.0, "node": "n", "device": "g",
        "samples": 60, "mean": {"utilization_ratio": 0.5, "power_w": 100.0}, "max": {"power_w": 200.0 + minute},
        "job": "train",
    }  # fmt: skip
    return events.DeviceWindow(**{**held, **changes})


def merged(store: Store, now_s: float, days: Days = Days()) -> Writer:  # noqa: B008 - it cannot be changed
    """All merges that are to be made at ``now_s``."""
    writer = Writer(store, lambda: now_s)
    merger = Merger(store, writer, days, lambda: now_s)
    for _ in range(200):
        if not merger.turn():
            return writer
    raise AssertionError("merging does not end")


@pytest.mark.slow
def test_files_of_a_size_become_one_and_no_row_is_lost(store: Store, ask: Ask):
    writer = Writer(store)
    for number in range(100):
        commit(writer, [finding(id=f"f{number}"), finding(id=f"f{number}", revision=2)], number)
    assert merging.next_merge(writer.manifest.files[:7], Days(), NOW_S) is None
    writer = merged(store, NOW_S)
    assert len(writer.manifest.files) < 10
    assert ask("SELECT count(*), count(DISTINCT (id, revision)) FROM finding") == [(200, 200)]
    assert max(file.merged for file in writer.manifest.files) <= 3


@pytest.mark.slow
def test_a_day_that_is_over_becomes_one_file_a_table_and_cluster(store: Store, ask: Ask):
    for number in range(20):
        commit(Writer(store), [job_window(start_s=NOW_S + number), finding(id=f"f{number}")], number)
    writer = merged(store, NOW_S + 2 * DAY_S)
    assert sorted(file.table for file in writer.manifest.files) == ["finding", "job_window"]
    assert merged(store, NOW_S + 2 * DAY_S).manifest == writer.manifest
    assert ask("SELECT count(*) FROM job_window") == [(20,)]


@pytest.mark.slow
def test_what_was_told_twice_is_there_once_after_a_merge(store: Store, ask: Ask):
    """A worker that dies tells its latest windows again, in the same words or better ones: the last counts."""
    commit(Writer(store), [job_window(start_s=NOW_S, steps=10)], 1)
    commit(Writer(store), [job_window(start_s=NOW_S, steps=11), job_window(start_s=NOW_S + 10)], 3)
    assert ask("SELECT count(*) FROM job_window") == [(3,)]
    merged(store, NOW_S + 2 * DAY_S)
    assert ask("SELECT start_s, steps FROM job_window ORDER BY ALL") == [(NOW_S, 11), (NOW_S + 10, 10)]


@pytest.mark.slow
def test_old_windows_are_coarser_and_add_up_to_the_same(store: Store, ask: Ask):
    made = [device_window(minute, samples=30 + minute) for minute in range(10)]
    made[3] = device_window(3, mean={"utilization_ratio": 0.8}, samples=33)
    commit(Writer(store), made)
    sums = (
        "SELECT sum(length_s), sum(samples), sum(samples * mean_utilization_ratio), max(max_power_w) FROM device_window"
    )
    [before] = ask(sums)
    writer = merged(store, NOW_S + 20 * DAY_S)
    assert ask("SELECT count(*) FROM device_window") == [(2,)]
    assert ask(sums) == [pytest.approx(before)]
    assert ask("SELECT mean_power_w FROM device_window") == [(100.0,), (100.0,)]
    assert [file.coarse for file in writer.manifest.files] == [True]


@pytest.mark.slow
def test_of_joined_minutes_it_is_known_how_many_were_used(store: Store, ask: Ask):
    """Two of five, one was not measured; joining them again, with a minute that comes late, changes nothing of that."""
    busy = (0.9, 0.0, 0.0, 0.05)
    commit(Writer(store), [device_window(at, mean={"utilization_ratio": one}) for at, one in enumerate(busy)], 1)
    merged(store, NOW_S + 20 * DAY_S)
    commit(Writer(store), [device_window(4, mean={})], 2)
    merged(store, NOW_S + 20 * DAY_S)
    assert ask("SELECT length_s, used_s, idle_s FROM device_window") == [(300.0, 120.0, 120.0)]


@pytest.mark.slow
def test_of_minutes_that_an_older_version_joined_it_is_not_known(store: Store, ask: Ask):
    """Nor is it where a minute comes late."""
    commit(Writer(store), [device_window(0, length_s=240.0)], 1)
    merged(store, NOW_S + 20 * DAY_S)
    commit(Writer(store), [device_window(4)], 2)
    merged(store, NOW_S + 20 * DAY_S)
    assert ask("SELECT length_s, used_s, idle_s FROM device_window") == [(300.0, None, None)]


@pytest.mark.slow
def test_minutes_that_come_late_join_those_that_are_coarse_already(store: Store, ask: Ask):
    commit(Writer(store), [device_window(0), device_window(1)], 1)
    merged(store, NOW_S + 20 * DAY_S)
    commit(Writer(store), [device_window(2)], 2)
    merged(store, NOW_S + 20 * DAY_S)
    assert ask("SELECT length_s, samples FROM device_window") == [(180.0, 180)]


@pytest.mark.slow
def test_of_five_minutes_each_may_come_late_and_alone(store: Store, ask: Ask):
    """Sums of a minute each have the same start and length: they are no window that was published twice."""
    start_s = NOW_S // 300 * 300
    for minute in range(5):
        commit(
            Writer(store), [device_window(minute), rank_window(1, start_s=start_s + 60.0 * minute, length_s=60.0)], 10
        )
        if minute != 2:
            merged(store, NOW_S + 20 * DAY_S)
    merged(store, NOW_S + 20 * DAY_S)
    assert ask("SELECT length_s, samples, max_power_w FROM device_window") == [(300.0, 300, 204.0)]
    assert ask("SELECT length_s, steps FROM rank_window") == [(300.0, 5 * rank_window(1).steps)]


@pytest.mark.slow
def test_minutes_that_stay_in_detail_from_now_on_are_apart_from_those_that_are_coarse(store: Store, ask: Ask):
    """A sum of one minute has the start and the length that another minute has."""
    commit(Writer(store), [device_window(2)], 1)
    merged(store, NOW_S + 20 * DAY_S)
    commit(Writer(store), [device_window(0)], 2)
    for days in (Days(detail=30), Days()):
        merged(store, NOW_S + 20 * DAY_S, days)
        assert ask("SELECT sum(length_s), sum(samples) FROM device_window") == [(120.0, 120)]


@pytest.mark.slow
def test_of_an_old_minute_of_a_job_published_twice_one_stays(store: Store, ask: Ask):
    for steps in (10, 11):
        commit(Writer(store), [job_window(start_s=NOW_S, length_s=60.0, steps=steps)], steps)
        merged(store, NOW_S + 20 * DAY_S)
    assert ask("SELECT steps FROM job_window") == [(11,)]


@pytest.mark.slow
def test_two_jobs_of_one_gpu_in_five_minutes_stay_apart(store: Store, ask: Ask):
    commit(Writer(store), [device_window(0), device_window(1, job="other"), device_window(2, job="other")])
    merged(store, NOW_S + 20 * DAY_S)
    assert ask("SELECT job, length_s FROM device_window ORDER BY ALL") == [("other", 120.0), ("train", 60.0)]


@pytest.mark.long
def test_energy_adds_up_also_by_job(store: Store, ask: Ask):
    """Shares of jobs on one GPU, by names that mean harm; a window in which nothing was measured adds nothing."""
    odd = 'a"b\\c'
    made = [
        device_window(
            0, energy_j=30.0, energy_source="counter", energy_by_job={odd: 10.0, "b": 20.0}, energy_gap_j=5.0
        ),
        device_window(1, energy_j=12.0, energy_source="power", energy_by_job={odd: 12.0}),
        device_window(2),
        device_window(5, energy_j=1.0, energy_source="counter", energy_by_job={"b": 1.0}),
    ]
    commit(Writer(store), made)
    merged(store, NOW_S + 20 * DAY_S)
    rows = ask("SELECT energy_j, energy_source, energy_gap_j, energy_by_job FROM device_window ORDER BY start_s")
    assert [row[:3] for row in rows] == [(42.0, "mixed", 5.0), (1.0, "counter", None)]
    assert [msgspec.json.decode(row[3]) for row in rows] == [{odd: 22.0, "b": 20.0}, {"b": 1.0}]


@pytest.mark.long
def test_coarse_windows_of_ranks_count_steps_and_weigh_by_them(store: Store, ask: Ask):
    start_s = NOW_S // 300 * 300
    one = rank_window(1, start_s=start_s, length_s=60.0, steps=10, first_step=0, last_step=9, step_median_s=1.0)
    two = rank_window(1, start_s=start_s + 60, length_s=60.0, steps=30, first_step=10, last_step=39, step_median_s=2.0)
    commit(Writer(store), [two, one])
    merged(store, NOW_S + 20 * DAY_S)
    assert ask("SELECT steps, first_step, last_step, step_median_s FROM rank_window") == [(40, 0, 39, 1.75)]


@pytest.mark.long
def test_of_old_windows_of_a_job_those_of_a_minute_stay(store: Store, ask: Ask):
    commit(Writer(store), [job_window(start_s=NOW_S, length_s=length_s) for length_s in (10.0, 60.0)])
    merged(store, NOW_S + 20 * DAY_S)
    assert ask("SELECT length_s FROM job_window") == [(60.0,)]


@pytest.mark.long
def test_a_day_of_which_nothing_stays_has_no_file(store: Store, ask: Ask):
    commit(Writer(store), [job_window(start_s=NOW_S)])
    assert merged(store, NOW_S + 20 * DAY_S).manifest.files == []
    assert ask("SELECT count(*) FROM job_window") == [(0,)]


@pytest.mark.long
def test_what_is_too_old_goes_each_kind_in_its_time(store: Store, ask: Ask):
    commit(Writer(store), [device_window(0), finding(), job_window(start_s=NOW_S)], published_s=NOW_S)
    writer = Writer(store, lambda: NOW_S)
    later_s = NOW_S + 500 * DAY_S
    assert Merger(store, writer, Days(), lambda: NOW_S).expire() == 0
    assert Merger(store, writer, Days(), lambda: later_s).expire() == 2
    assert [file.table for file in writer.manifest.files] == ["finding"]
    assert ask("SELECT count(*) FROM device_window") == [(0,)]


def test_tables_that_this_version_does_not_know_are_left_alone():
    path = manifests.data_path("later", "1990-01-01", "c", "1-0")
    told = {"table": "later", "path": path, "date": "1990-01-01", "cluster": "c", "rows": 1, "bytes": 1}
    files = [DataFile(**told, first_s=0.0, last_s=0.0)] * 20
    assert merging.next_merge(files, Days(), NOW_S) is None
    assert merging.expired(files, Days(), NOW_S) == []


def test_merged_files_have_a_bound():
    path = manifests.data_path("device_window", "2023-11-14", "c", "1-0")
    told = {"table": "device_window", "path": path, "date": "2023-11-14", "cluster": "c", "bytes": 1}
    most = merging.most_rows("device_window")
    files = [DataFile(**told, rows=most // 3, first_s=0.0, last_s=0.0) for _ in range(8)]
    merge = merging.next_merge(files, Days(detail=1e5), NOW_S + 2 * DAY_S)
    assert merge is not None
    assert len(merge.files) == 3
    assert (
        merging.next_merge(
            [DataFile(**told, rows=most, first_s=0.0, last_s=0.0)] * 8, Days(detail=1e5), NOW_S + 2 * DAY_S
        )
        is None
    )


@pytest.mark.long
def test_what_windows_did_not_measure_is_not_0(store: Store, ask: Ask):
    """Prometheus has no power of some GPUs: their mean is over the windows that have it."""
    measured = {"utilization_ratio": 0.5, "power_w": 600.0, "throttled_ratio": 0.5}
    made = [device_window(0, mean=measured), device_window(1, mean={"utilization_ratio": 0.9})]
    commit(Writer(store), made, 1)
    assert ask("SELECT round(utilization_ratio, 6), power_w, throttled_ratio FROM devices") == [(0.7, 600.0, 0.5)]
