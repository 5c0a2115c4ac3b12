"""``paceline report`` as people run it."""

import sys

import msgspec
import pytest

from paceline import recording, topics, wire
from paceline.events import JobDescribed
from paceline.install import install
from simulator.job import Job
from simulator.spec import Spec
from streams.report import main
from streams.report_source import Source
from streams.reports.builder import ReportBuilder
from tests.derived_events import finding, job_window


@pytest.fixture
def write(tmp_path):
    """A recording of events, each of one topic."""

    def of(topic, events, name="run.jsonl", folder=tmp_path):
        path = folder / name
        writer = recording.Writer(str(path))
        for event in events:
            time_ms = int(1000 * getattr(event, "t0_s", getattr(event, "start_s", 0.0)))
            writer.write(topic.name, getattr(event, "job", None), time_ms, wire.encode(event))
        writer.close()
        return str(path)

    return of


@pytest.fixture
def run(write, make_training):
    return write(topics.OP, make_training(slow=2, seconds=30, slow_from_s=6))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "md", "html"])
def test_a_recording_is_told_in_every_format(run, kind, capsys):
    """Rank 2 is named, with what it cost."""
    assert main([run, "--format", kind]) == 0
    out = capsys.readouterr().out
    assert "rank 2" in out
    assert "slow computation on the worker" in out


@pytest.mark.slow
def test_the_name_of_the_file_says_the_format(run, tmp_path, capsys):
    """And the file is whole or not there."""
    out = tmp_path / "run.html"
    assert main([run, "-o", str(out)]) == 0
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert capsys.readouterr() == ("", f"paceline report: wrote {out} ({out.stat().st_size:,} bytes)\n")
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


@pytest.mark.slow
def test_a_pdf_is_one(run, tmp_path):
    """Pages of the same HTML."""
    weasyprint = pytest.importorskip("weasyprint")
    assert weasyprint
    out = tmp_path / "run.pdf"
    assert main([run, "-o", str(out)]) == 0
    assert out.read_bytes().startswith(b"%PDF-")


@pytest.mark.slow
def test_without_its_extra_a_pdf_says_which_one(run, monkeypatch, capsys):
    """Exit status 2, and what to install."""
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    assert main([run, "--format", "pdf"]) == 2
    assert capsys.readouterr().err.endswith(f"needs WeasyPrint; {install('reports')}\n")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "nothing to report"), (b"nonsense\n", "nothing to report"), (None, "cannot read")],
)
def test_nothing_to_tell_is_said_in_a_line(content, reason, tmp_path, capsys):
    """Exit status 2."""
    path = tmp_path / "run.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert main([str(path)]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.slow
def test_a_job_that_is_not_there_is_said(run, capsys):
    """With what would list those that are."""
    assert main([run, "--job", "other"]) == 2
    assert "nothing of a job 'other'" in capsys.readouterr().err


@pytest.mark.slow
def test_bad_lines_are_told_in_the_report(run, capsys):
    """And the rest is reported all the same."""
    with open(run, "ab") as stream:
        stream.write(b"nonsense\n")
    assert main([run]) == 0
    assert "1 line of the recording could not be read" in capsys.readouterr().out


def test_a_recording_of_windows_alone_is_enough(write, capsys):
    """What was found on the bus is taken where raw timings are not there."""
    events = [job_window(start_s=1000.0 + 10 * at, first_step=10 * at, last_step=10 * at + 9) for at in range(5)]
    path = write(topics.WINDOW, events)
    with open(path, "ab") as stream:
        stream.write(
            recording.render(topics.FINDING.name, "train", 0, wire.encode(finding(first_step=10, last_step=40)))
        )
    assert main([path]) == 0
    out = capsys.readouterr().out
    assert "50" in out
    assert "Rank 3 is slow since step 100." in out


@pytest.mark.long
def test_findings_told_beside_raw_timings_are_found_again_not_twice(write, make_training, capsys):
    """Of a job with raw timings nothing derived is taken."""
    path = write(topics.OP, make_training(seconds=20))
    told = msgspec.structs.replace(finding(), job="job")
    with open(path, "ab") as stream:
        stream.write(recording.render(topics.FINDING.name, "job", 0, wire.encode(told)))
    assert main([path]) == 0
    assert "Rank 3 is slow" not in capsys.readouterr().out


@pytest.mark.long
def test_a_session_s_folder_is_read_with_what_it_misses(write, make_training, tmp_path, capsys):
    """Segments in order, and the manifest's count of what never came."""
    events = make_training(seconds=20)
    for number, part in enumerate((events[:20], events[20:])):
        write(topics.OP, part, f"segment-{number:06}.jsonl.gz")
    state = {"schema_version": 1, "cluster": "c", "name": "s", "id": "i", "state": "stopped", "missing": 7}
    state |= {"started_s": 1.0, "updated_s": 2.0}
    (tmp_path / "manifest.json").write_bytes(msgspec.json.encode({"format": 1, "state": state}))
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "7 numbered messages did not reach the session" in out
    assert "4 of 4 ranks reported" in out


@pytest.mark.long
def test_a_damaged_manifest_is_told_and_the_session_read(write, make_training, tmp_path, capsys):
    """What it misses is not known then."""
    write(topics.OP, make_training(seconds=20), "segment-000000.jsonl.gz")
    (tmp_path / "manifest.json").write_bytes(b"{")
    assert main([str(tmp_path)]) == 0
    assert "manifest could not be read" in capsys.readouterr().out


def test_a_folder_that_is_no_session_s_is_refused(tmp_path, capsys):
    """It says what it lacks."""
    assert main([str(tmp_path)]) == 2
    assert "no session's folder" in capsys.readouterr().err


@pytest.mark.slow
def test_a_cluster_is_told_from_so_far_back(run, capsys):
    """Hours, jobs and nodes of the last day of the recording."""
    assert main([run, "--cluster", "c", "--since", "1d"]) == 0
    assert "Report of cluster c" in capsys.readouterr().out
    assert main([run, "--cluster", "d"]) == 2
    assert "a cluster 'd'" in capsys.readouterr().err


@pytest.mark.parametrize("of_cluster", [["--since", "3d"], ["--cluster", "c"]])
def test_of_a_job_of_an_archive_it_says_what_goes_with_a_cluster_alone(of_cluster, tmp_path, capsys):
    """A job's name is no file, and is not looked for as one."""
    assert main(["train", "--archive", str(tmp_path), *of_cluster]) == 2
    said = capsys.readouterr().err
    assert "train is no recording and no session" in said
    assert "leave them out for a job of an archive" in said


@pytest.mark.parametrize("wrong", [["--since", "soon"], ["--since", "-1d"], ["--since", "1d", "--job", "j"]])
def test_what_makes_no_sense_is_refused(run, wrong, capsys):
    """By the command line's parser, with status 2."""
    with pytest.raises(SystemExit, match="2"):
        main([run, *wrong])


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_said(run, tmp_path, capsys):
    """After the work, but in a line."""
    assert main([run, "-o", str(tmp_path / "no" / "run.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.slow
def test_each_of_two_runs_of_one_name_has_its_own_description(tmp_path):
    """Both say attempt 0: what each was and how it ended goes with its steps."""
    path = tmp_path / "twice.jsonl"
    writer = recording.Writer(str(path))
    for began_s, batch, status in ((1.7e9, 8, 0), (1.7e9 + 3600.0, 64, 1)):
        for one in Job(Spec(ranks=4, steps=60, job="train", began_s=began_s)).messages():
            event = one.event
            if isinstance(event, JobDescribed):
                ended = None if event.ended_s is None else status
                event = msgspec.structs.replace(event, batch_size=batch, exit_status=ended)
            writer.write_event(one._replace(event=event))
    writer.close()
    builder = ReportBuilder("Report")
    for told in Source(str(path)).events():
        builder.update(told.event)
    runs = [(one.attempt, one.exit_status, one.batch_size, one.steps, len(one.nodes)) for one in builder.report().jobs]
    assert sorted(runs) == [(0, 0, 8, 60, 1), (1, 1, 64, 60, 1)]
