"""Reports and comparisons of an archive: the job's events alone, in order, and clear words where there are none."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archive.writer import Writer
from paceline import events
from paceline.__main__ import main
from paceline.history.store import open_store
from streams.archive_source import ArchiveSource
from streams.named_source import opened
from streams.report_source import Source, SourceError
from tests.archive.conftest import commit
from tests.derived_events import described, finding, job_window, rank_window, suggestion

MOST = 2**30


def device_window(node: str, job: str, start_s: float) -> events.DeviceWindow:
    return events.DeviceWindow(
        cluster="c", start_s=start_s, length_s=60.0, node=node, device=f"{node}-gpu", samples=60,
        mean={"utilization_ratio": 0.5}, max={"fb_total_bytes": 8e10}, job=job, energy_j=3e4, energy_source="counter",
        energy_by_job={job: 3e4},
    )  # fmt: skip


def told() -> Iterator[Any]:
    """Ten minutes of job ``train`` on node-0 and node-1, and of another on node-9."""
    for job, nodes in (("train", ("node-0", "node-1")), ("other", ("node-9",))):
        for node in nodes:
            yield described(job=job, node=node, started_s=1.7e9, ended_s=1.7e9 + 600, exit_status=0)
        for minute in range(10):
            at = {"start_s": 1.7e9 // 60 * 60 + 60 * minute, "length_s": 60.0, "job": job}
            first = {"first_step": 60 * minute, "last_step": 60 * minute + 59}
            yield job_window(**at, **first, steps=60)
            yield rank_window(3, job=job, start_s=at["start_s"], length_s=60.0)
            for node in nodes:
                yield device_window(node, job, at["start_s"])
        yield finding(id=f"f-{job}", job=job)
        yield finding(id=f"f-{job}", job=job, revision=2, state="recovered")
        yield suggestion(id=f"s-{job}", job=job)
    yield device_window("node-0", "next", 1.7e9 // 60 * 60 + 1200)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    folder = str(tmp_path / "archive")
    commit(Writer(open_store(folder, {})), told(), published_s=1.7e9 + 300)
    return folder


@pytest.mark.slow
def test_a_job_has_its_own_events_and_those_of_its_machines_in_order(archive: str):
    source = ArchiveSource(archive, job="train")
    read = list(source.events())
    assert [one.time_s for one in read] == sorted(one.time_s for one in read)
    assert not any(getattr(one.event, "job", "") == "other" for one in read)
    devices = [one.event for one in read if isinstance(one.event, events.DeviceWindow)]
    assert {one.node for one in devices} == {"node-0", "node-1"}
    assert {one.job for one in devices} == {"train"}, "its GPUs are another job's afterwards"
    assert sum(isinstance(one.event, events.JobWindow) for one in read) == 10
    assert [one.event.revision for one in read if isinstance(one.event, events.Finding)] == [1, 2]
    assert source.notes == []


@pytest.mark.slow
def test_a_report_of_a_job_and_of_its_cluster_are_made_of_it(archive: str, tmp_path: Path):
    page = tmp_path / "job.html"
    assert main(["report", "train", "--archive", archive, "-o", str(page)]) == 0
    assert "straggler" in page.read_text()
    assert "node-9" not in page.read_text()
    week = tmp_path / "week.md"
    assert main(["report", "--cluster", "c", "--archive", archive, "-o", str(week)]) == 0
    assert re.search(r"jobs\W+2\b", week.read_text())


@pytest.mark.slow
def test_of_a_cluster_findings_from_before_the_period_come_too(archive: str):
    """They may still cost; windows from before do not come, and findings alone are no period."""
    read = list(ArchiveSource(archive, cluster="c", since_s=1.7e9 + 400).events())
    assert sum(isinstance(one.event, events.Finding) for one in read) == 4
    assert min(one.event.start_s for one in read if isinstance(one.event, events.JobWindow)) >= 1.7e9 + 400
    with pytest.raises(SourceError, match="in that time"):
        list(ArchiveSource(archive, cluster="c", since_s=1.8e9).events())


@pytest.mark.slow
def test_two_jobs_of_it_are_compared(archive: str, capsys: pytest.CaptureFixture[str]):
    """Ten windows are too few to say which is slower, and it says so."""
    assert main(["compare", "train", "other", "--archive", archive]) == 2
    assert "takes 20" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nobody", "train' OR '1'='1", "../../etc"])
def test_a_job_that_it_does_not_know_is_told(archive: str, name: str):
    with pytest.raises(SourceError, match="holds nothing of a job"):
        list(ArchiveSource(archive, job=name).events())


def test_an_archive_that_is_not_there_is_told_with_the_mend(tmp_path: Path):
    with pytest.raises(SourceError, match=r"no archive at .*; fix: paceline archive --to"):
        list(ArchiveSource(str(tmp_path / "none"), job="train").events())


def test_a_name_is_a_file_then_a_session_then_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PACELINE_SESSIONS_DIR", str(tmp_path / "sessions"))
    (tmp_path / "sessions" / "tuesday").mkdir(parents=True)
    (tmp_path / "run").write_text("")
    monkeypatch.chdir(tmp_path)
    for name, path in (("run", "run"), ("tuesday", str(tmp_path / "sessions" / "tuesday")), ("x.jsonl", "x.jsonl")):
        source = opened(name, None, MOST)
        assert isinstance(source, Source)
        assert source.path == path
    assert isinstance(opened("train", str(tmp_path), MOST), ArchiveSource)
    with pytest.raises(SourceError, match=r"no recording and no session of this machine; .* --archive WHERE"):
        opened("train", None, MOST)


@pytest.mark.slow
def test_a_job_has_its_energy_and_what_it_cost(archive: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any):
    """Twenty windows of two GPUs, of 30 kJ each."""
    monkeypatch.setenv("PACELINE_KWH_PRICE", "0.3")
    monkeypatch.setenv("PACELINE_CURRENCY", "EUR")
    assert main(["report", "train", "--archive", archive]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "167 Wh of GPUs" in said
    assert "0.05 EUR" in said
