"""Commits: all or nothing, once, and nothing is left that nobody needs."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from archive.writer import GRACE_S, Position, Writer
from paceline.history import manifest as manifests
from paceline.history.manifest import KEPT, Gap
from paceline.history.store import ConflictError, Store, StoreError
from tests.archive.conftest import buffered, commit
from tests.derived_events import finding, job_window

Ask = Callable[..., list[tuple[Any, ...]]]


@pytest.mark.long
def test_rows_and_position_are_committed_together(store: Store, ask: Ask):
    commit(Writer(store), [job_window(), job_window(start_s=1010.0)], read=2)
    held = store.newest()
    assert held is not None
    assert held.places() == {("paceline.window.v1", 0): 2}
    assert ask("SELECT start_s, kafka_offset FROM job_window ORDER BY ALL") == [(1000.0, 0), (1010.0, 1)]
    commit(Writer(store), [job_window(start_s=1020.0)], read=3)
    assert ask("SELECT count(*) FROM job_window") == [(3,)]


@pytest.mark.long
def test_files_that_were_not_committed_do_not_count_and_go_at_the_next_start(store: Store, ask: Ask):
    """As after a kill between the files and their manifest."""
    commit(Writer(store), [job_window()])
    killed = Writer(store)
    for place, table, rows in buffered([job_window(start_s=1010.0)]).finish():
        killed.put(place, table, rows)
    assert len(store.data_paths()) == 2
    assert ask("SELECT count(*) FROM job_window") == [(1,)]
    following = Writer(store)
    assert following.tidy() == 0  # Who wrote it may still be there, and about to commit.
    commit(following, [job_window(start_s=1010.0)], read=2)
    assert Writer(store).tidy() == 1
    assert ask("SELECT count(*) FROM job_window") == [(2,)]
    assert len(store.data_paths()) == 2


@pytest.mark.long
def test_of_two_writers_the_later_commit_is_refused_and_changes_nothing(store: Store, ask: Ask):
    one, other = Writer(store), Writer(store)
    commit(one, [job_window()])
    with pytest.raises(ConflictError):
        commit(other, [job_window()])
    other.tidy()
    assert ask("SELECT count(*) FROM job_window") == [(1,)]
    again = Writer(store)
    again.tidy()
    commit(again, [job_window(start_s=1010.0)], read=2)
    assert ask("SELECT count(*) FROM job_window") == [(2,)]


def test_gaps_and_what_was_unusable_are_added_up(store: Store):
    gap = Gap(topic="t", partition=0, expected=1, first=5, time_s=0.0)
    for _ in range(2):
        writer = Writer(store)
        writer.commit(buffered([job_window()]), Position({}, {}), [gap], {"window": 3})
    held = store.newest()
    assert held is not None
    assert (held.gap_count, len(held.gaps), held.unusable) == (2, 2, {"window": 6})


@pytest.mark.long
def test_a_file_is_deleted_once_nobody_can_be_reading_it(store: Store, ask: Ask):
    now_s = [1000.0]
    writer = Writer(store, lambda: now_s[0])
    commit(writer, [job_window()])
    old = writer.manifest.files
    writer.replace(old, [])
    now_s[0] += GRACE_S - 1
    assert writer.sweep() == 0
    assert store.data_paths() == [old[0].path]
    now_s[0] += 1
    assert writer.sweep() == 1
    assert store.data_paths() == []
    assert writer.manifest.gone == []
    assert ask("SELECT count(*) FROM job_window") == [(0,)]


def test_a_clock_that_is_set_back_keeps_no_file_for_ever(store: Store):
    now_s = [1e6]
    writer = Writer(store, lambda: now_s[0])
    commit(writer, [job_window()])
    writer.replace(writer.manifest.files, [])
    now_s[0] = 10.0
    assert writer.sweep() == 1


@pytest.mark.long
def test_few_manifests_are_kept(store: Store):
    writer = Writer(store)
    for number in range(KEPT + 5):
        commit(writer, [job_window(start_s=1000.0 + number)], read=number + 1)
    writer.sweep()
    assert store.versions() == list(range(6, KEPT + 6))


def test_a_store_of_a_later_version_is_not_written(store: Store):
    commit(Writer(store), [job_window()])
    later = msgspec.structs.replace(store.newest(), version=2, format=manifests.FORMAT + 1)  # type: ignore[type-var]
    store.files.create(manifests.manifest_path(2), manifests.encode(later))
    with pytest.raises(StoreError, match="use the version that wrote it"):
        Writer(store)


@pytest.mark.slow
def test_clusters_and_days_are_folders_and_many_clusters_share_one(store: Store, ask: Ask):
    made = [job_window(cluster=f"c{number}") for number in range(100)]
    made += [job_window(cluster="*", start_s=86_400.0 * 3)]
    commit(Writer(store), made)
    held = store.newest()
    assert held is not None
    assert len(held.files) == 66
    assert ask("SELECT count(DISTINCT cluster) FROM job_window") == [(101,)]
    [file] = [file for file in held.files if file.cluster == "*" and file.date == "1970-01-01"]
    assert file.rows == 36


def test_rows_of_clocks_far_ahead_lie_at_the_day_on_which_they_were_published(store: Store):
    commit(Writer(store), [job_window(start_s=1e11), job_window(start_s=1.7e9)], published_s=1.7e9)
    held = store.newest()
    assert held is not None
    assert {file.date for file in held.files} == {"2023-11-14"}
    assert max(file.last_s for file in held.files) == 1e11


@pytest.mark.slow
def test_days_without_end_share_files(store: Store):
    commit(Writer(store), [job_window(start_s=86_400.0 * number) for number in range(200)])
    held = store.newest()
    assert held is not None
    assert len(held.files) == 65
    assert sum(file.rows for file in held.files) == 200


@pytest.mark.long
def test_a_finding_told_twice_in_one_commit_is_there_once(store: Store, ask: Ask):
    commit(Writer(store), [finding(), finding(revision=2), finding()])
    assert ask("SELECT revision, kafka_offset FROM finding ORDER BY ALL") == [(1, 2), (2, 1)]
    assert ask("SELECT revision FROM findings") == [(2,)]
