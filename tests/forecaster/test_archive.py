"""Back-fill from an archive: the same windows come to the same series as from the bus, and gaps stay gaps."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from archive.buffers import Buffers
from archive.merger import Merger
from archive.merging import Days
from archive.messages import rows_of
from archive.writer import Position, Writer
from forecaster import server
from forecaster.aggregates import PATIENCE
from forecaster.archive import backfill, filled
from forecaster.learning.command import archived
from forecaster.learning.command import main as train
from forecaster.memory import Memory
from paceline import events
from paceline.history.query import Connection, History
from paceline.history.store import StoreError, open_store
from paceline.install import install
from tests.derived_events import described, job_window

NOW_S = 86_400.0 * 20_000
MINUTES = 400
#: Minutes in which nothing of node-1 was heard.
AWAY = range(100, 130)
#: Jobs that never say that they end, on a GPU that is idle until minute 50, and in 150 to 199 and 300 to 349: when each
#: was described to be there. Of the first steps are heard in ``STEPS``: a quarter of an hour later it has left, but
#: where the GPU is in use. The second is named by the windows of another GPU.
SILENT, STEPS = {10: "killed", 205: "named"}, (*range(10, 14), 36, 37)


def device_window(node: str, device: int, minute: int, **changes: Any) -> events.DeviceWindow:
    """A minute of a GPU: some are idle, and not all tell SM activity."""
    busy = 0.0 if (minute // 50 + device) % 3 == 0 else 0.5 + 0.001 * minute
    mean = {"utilization_ratio": busy, "power_w": 100.0 + minute, "fb_used_bytes": 1e9, "fb_total_bytes": 8e10}
    if device == 1:
        mean["sm_active_ratio"] = busy / 2
    held: dict[str, Any] = {
        "cluster": "c", "node": node, "device": f"GPU-{node}-{device}", "start_s": NOW_S - 60.0 * (MINUTES - minute),
        "length_s": 60.0, "samples": 60, "mean": mean, "max": {**mean, "fb_total_bytes": 8.1e10},
    }  # fmt: skip
    return events.DeviceWindow(**{**held, **changes})


def happened() -> Iterator[tuple[float, Any]]:
    """What two nodes reported, with two GPUs each, one of which has an instance; with the time of its publication."""
    place = events.RankPlace(rank=0, local_rank=0, node="node-0", device="GPU-node-0-0", pid=1)
    at_s = NOW_S - 60.0 * 300
    for minute in range(MINUTES):
        start_s = NOW_S - 60.0 * (MINUTES - minute)
        if start_s == at_s:
            yield at_s, described(cluster="c", node="node-0", started_s=at_s, places=[place])
        if minute == 300:
            yield (
                start_s,
                described(cluster="c", node="node-0", started_s=at_s, ended_s=start_s, places=[place], sequence=1),
            )
        if minute in SILENT:
            on = events.RankPlace(rank=0, local_rank=0, node="node-1", device="GPU-node-1-0", pid=1)
            yield start_s, described(cluster="c", node="node-1", job=SILENT[minute], started_s=start_s, places=[on])
        if minute in STEPS:
            yield start_s + 20.0, job_window(cluster="c", job="killed", start_s=start_s + 10.0)
        for node in ("node-0", "node-1"):
            if node == "node-0" or minute not in AWAY:
                for device in range(2):
                    told = {"job": "named"} if node == "node-1" and device == 1 and minute > 200 else {}
                    yield start_s + 60.0, device_window(node, device, minute, **told)
                instance = device_window(node, 0, minute, job="of-instance")
                yield start_s + 60.0, msgspec.structs.replace(instance, device=f"MIG-{node}-0")
                mean = {"cpu_ratio": 0.25, "memory_used_bytes": 1e9 + minute}
                yield (
                    start_s + 60.0,
                    events.HostWindow(
                        cluster="c", node=node, start_s=start_s, length_s=60.0, samples=60, mean=mean,
                        max={"memory_total_bytes": 2e9},
                    ),
                )  # fmt: skip
        yield start_s + 60.0, job_window(cluster="c", start_s=start_s, steps=minute % 3, wait_ratio=None)
        yield start_s + 60.0, job_window(cluster="c", start_s=start_s + 10.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of it, in several commits; some windows were told twice."""
    made = tmp_path_factory.mktemp("archive")
    writer = Writer(open_store(str(made), {}))
    told = list(happened())
    for first in range(0, len(told), 1000):
        buffers = Buffers()
        for offset, (published_s, event) in enumerate(told[max(0, first - 10) : first + 1000]):
            for rows in rows_of(event, published_s):
                buffers.add(rows, 0, first + offset, published_s)
        writer.commit(buffers, Position({}, {}))
    return made


def series(memory: Memory) -> dict[str, Any]:
    """All that it holds, by key."""
    held = (memory.find(line.subject.key) for line in memory.lines())
    return {one.subject.key: one for one in held if one is not None}


@pytest.mark.slow
def test_the_same_windows_come_to_the_same_series_as_from_the_bus(folder: Path):
    heard, read = Memory(), Memory()
    for _, event in happened():
        heard.update(event)
    assert backfill(str(folder), {}, read, NOW_S) > 10 * MINUTES
    by_bus, by_archive = series(heard), series(read)
    assert by_archive.keys() == by_bus.keys()
    for key, expected in by_bus.items():
        got = by_archive[key]
        assert got.subject == expected.subject, key
        assert got.time_s == expected.time_s, key
        np.testing.assert_allclose(got.values, expected.values, rtol=1e-6, err_msg=key)


@pytest.mark.slow
def test_how_many_gpus_there_were_is_known(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Those of a node that is away for minutes are waited for, also where the hours that are read at a time end."""
    monkeypatch.setattr("forecaster.archive.SPAN_S", 60.0 * 149)  # One begins in minute 103.
    memory = Memory()
    backfill(str(folder), {}, memory, NOW_S)
    sizes, free = memory.find("c/cluster/gpus"), memory.find("c/cluster/free_gpus")
    assert sizes is not None
    assert free is not None
    assert free.sizes is not None
    assert free.sizes.tolist() == sizes.values.tolist()
    assert sizes.values.tolist() == [2.0 if minute in AWAY[PATIENCE - 1 :] else 4.0 for minute in range(MINUTES)]


@pytest.mark.slow
def test_a_job_that_was_killed_keeps_no_gpu(folder: Path):
    """Also over the end of the hours that are read at a time, which is in minute 40."""
    memory = Memory()
    backfill(str(folder), {}, memory, NOW_S)
    free = memory.find("c/node/node-1/free_gpus")
    assert free is not None
    idle = [minute for minute in range(MINUTES) if (minute // 50) % 3 == 0]
    held = [*range(10, 29), *range(36, 50), *range(300, 350)]
    of_others = np.array([float(minute // 50 % 3 == 2 and minute <= 200) for minute in range(MINUTES)])
    expected = of_others + np.isin(range(MINUTES), idle) - np.isin(range(MINUTES), held)
    heard = ~np.isin(range(MINUTES), AWAY)
    np.testing.assert_array_equal(free.values[heard], expected[heard])


@pytest.mark.long
def test_gaps_stay_gaps(folder: Path):
    memory = Memory()
    backfill(str(folder), {}, memory, NOW_S)
    held = memory.find("c/node/node-1/cpu_ratio")
    assert held is not None
    assert np.flatnonzero(np.isnan(held.values)).tolist() == list(AWAY)


@pytest.mark.long
def test_what_is_older_than_the_memory_reaches_back_is_left(folder: Path):
    memory = Memory()
    later_s = NOW_S + 3 * 86_400.0 - 3600.0
    backfill(str(folder), {}, memory, later_s)
    held = memory.find("c/node/node-0/cpu_ratio")
    assert held is not None
    assert len(held.values) == 60


@pytest.mark.slow
@pytest.mark.parametrize(("days", "quarters"), [(10, MINUTES // 15 + 1), (27, MINUTES // 15 + 1), (40, None)])
def test_of_clusters_the_quarter_hours_of_weeks_are_filled(folder: Path, days: int, quarters: int | None):
    """Where nothing else reaches back so far; the archive says then what was, not what is."""
    memory = Memory()
    backfill(str(folder), {}, memory, NOW_S + days * 86_400.0)
    for name in ("free_gpus_15min", "gpus_15min"):
        held = memory.find(f"c/cluster/{name}")
        assert (None if held is None else len(held.values)) == quarters
    assert memory.find("c/node/node-0/cpu_ratio") is None


@pytest.mark.slow
def test_of_clusters_also_what_the_archive_has_merged_is_read(folder: Path, tmp_path: Path):
    """Minutes are windows of five after a week: by default most of the weeks that a forecast of the day ahead wants."""
    merged, now_s = tmp_path / "merged", NOW_S + 10 * 86_400.0
    shutil.copytree(folder, merged)
    store = open_store(str(merged), {})
    merger = Merger(store, Writer(store), Days(), lambda: now_s)
    while merger.turn():
        pass
    of_minutes, of_fives = Memory(), Memory()
    backfill(str(folder), {}, of_minutes, now_s)
    backfill(str(merged), {}, of_fives, now_s)
    for name in ("free_gpus_15min", "gpus_15min", "gpu_busy_ratio_15min", "gpu_power_w_15min"):
        fine, coarse = of_minutes.find(f"c/cluster/{name}"), of_fives.find(f"c/cluster/{name}")
        assert fine is not None
        assert coarse is not None
        assert coarse.subject == fine.subject
        assert coarse.time_s == fine.time_s
        # A GPU that a job takes within five minutes is not free for all of them.
        most = 1.0 if "gpus" in name else 0.1 * np.nanmax(fine.values)
        np.testing.assert_allclose(coarse.values, fine.values, atol=most)
        assert np.nanmean(np.abs(coarse.values - fine.values)) <= 0.2 * most


@pytest.mark.slow
def test_of_many_gpus_fewer_days_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Also where none of them was heard lately: by the windows there are, of which it may read half of these."""
    monkeypatch.setattr("forecaster.archive.CLUSTERS_ROWS", 2 * MINUTES)
    memory = Memory()
    backfill(str(folder), {}, memory, NOW_S + 10 * 86_400.0)
    assert len(memory) == 0


@pytest.mark.long
def test_what_the_bus_has_later_wins(folder: Path):
    memory = Memory()
    backfill(str(folder), {}, memory, NOW_S)
    memory.update(device_window("node-0", 0, MINUTES - 1, mean={"power_w": 7.0}))
    held = memory.find("c/device/node-0/GPU-node-0-0/power_w")
    assert held is not None
    assert held.values[-1] == 7.0
    assert held.values[-2] == 100.0 + MINUTES - 2


@pytest.mark.long
def test_more_gpus_than_there_is_room_for_are_filled_as_nodes_and_jobs(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forecaster.archive.SERIES", 20)
    memory = Memory()
    backfill(str(folder), {}, memory, NOW_S)
    keys = series(memory).keys()
    assert "c/cluster/free_gpus" in keys
    assert "c/node/node-1/gpu_busy_ratio" in keys
    assert not [key for key in keys if key.startswith("c/device/")]


@pytest.mark.slow
def test_the_network_learns_from_the_newest_days_of_an_archive(folder: Path):
    held = Memory()
    backfill(str(folder), {}, held, NOW_S)
    learned = archived(str(folder))
    assert len(learned) == len(held)
    assert sorted(np.nansum(one.values) for one in learned) == pytest.approx(
        sorted(np.nansum(one.values) for one in series(held).values())
    )


def test_questions_to_the_archive_leave_the_series_their_memory(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A container of the forecaster has 2 GiB in all."""
    connect, limits = History.connect, set[str]()

    def watched(*asked: Any) -> Connection:
        made = connect(*asked)
        limits.update(row[0] for row in made.ask("SELECT current_setting('memory_limit')").rows)
        return made

    monkeypatch.setattr(History, "connect", watched)
    assert backfill(str(folder), {}, Memory(), NOW_S) > 0
    assert limits == {"488.2 MiB"}


def test_without_an_archive_nothing_is_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert train(["--from-archive", str(tmp_path / "none"), "--out", str(tmp_path / "never.npz")]) == 2
    assert "no archive at" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        train(["--out", str(tmp_path / "never.npz")])
    assert "--from-archive" in capsys.readouterr().err


@pytest.mark.long
def test_no_archive_and_a_broken_one_cost_a_line(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with pytest.raises(StoreError):
        backfill(str(tmp_path), {}, Memory())
    broken = tmp_path / "broken"
    writer = Writer(open_store(str(broken), {}))
    buffers = Buffers()
    for rows in rows_of(device_window("n", 0, MINUTES), NOW_S):
        buffers.add(rows, 0, 0, NOW_S)
    writer.commit(buffers, Position({}, {}))
    next((broken / "data").rglob("*.parquet")).write_bytes(b"PAR1 no more")
    for where in (tmp_path / "none", broken):
        caplog.clear()
        memory = Memory()
        filled(str(where), {}, memory, NOW_S + 60.0)
        assert len(memory) == 0
        [record] = caplog.records
        assert record.levelname == "WARNING"
        assert "\n" not in record.getMessage()
        assert str(where) in record.getMessage()


def test_where_nothing_can_read_an_archive_it_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setitem(sys.modules, "forecaster.archive", None)
    server._fill("history", Memory())
    [record] = caplog.records
    assert install("history") in record.getMessage()
