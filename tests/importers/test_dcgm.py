"""Texts of a dcgm-exporter become the samples that a live collector would have sent."""

import io
import os

import pytest

from importers.__main__ import main
from importers.dcgm import DcgmTexts
from importers.notes import Notes, SourceError
from paceline import recording, topics, wire
from paceline.events import DeviceSamples, NodeDescribed
from paceline.gpu import exporter_text

NOW_S = 1_795_000_000.0


def text(util=50, time="", node="n1", xid=0):
    labels = f'gpu="0",UUID="GPU-a",modelName="A100",Hostname="{node}"'
    return (
        f"# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{{{labels}}} {util} {time}\n"
        f"DCGM_FI_DEV_XID_ERRORS{{{labels}}} {xid} {time}\n"
    )


def load(*files):
    notes = Notes()
    texts = DcgmTexts(notes)
    for name, (content, modified_s) in enumerate(files):
        texts.read(io.BytesIO(content.encode()), f"{name}.prom", modified_s)
    events = [wire.decode(message.topic, wire.encode(message.event)) for message in texts.messages()]
    return [one for one in events if isinstance(one, DeviceSamples)], events, notes


def test_many_files_are_a_series_by_time():
    """Whatever their order, by the files' times; each is one message, numbered, and the node is described once."""
    samples, events, notes = load((text(30), NOW_S + 60), (text(20), NOW_S + 30), (text(10), NOW_S))
    assert [(one.sequence, one.t0_s - NOW_S, one.utilization_ratio) for one in samples] == [
        (0, 0.0, [0.1]),
        (1, 30.0, [0.2]),
        (2, 60.0, [0.3]),
    ]
    assert [type(one) for one in events].count(NodeDescribed) == 1
    assert any("modified" in remark for remark in notes.remarks)


def test_a_text_in_utf_16_is_read():
    """As a PowerShell writes what it redirects."""
    texts = DcgmTexts(Notes())
    texts.read(io.BytesIO(text(util=70).replace("\n", "\r\n").encode("utf-16")), "a.prom", NOW_S)
    (samples,) = [message.event for message in texts.messages() if isinstance(message.event, DeviceSamples)]
    assert list(samples.utilization_ratio) == [0.7]


def test_times_in_the_text_win():
    """One file may hold several looks then, and the file's own time says nothing."""
    content = text(10, int(NOW_S * 1000)) + text(20, int(NOW_S * 1000) + 30_000)
    samples, _, notes = load((content, 5.0))
    assert [one.t0_s - NOW_S for one in samples] == [0.0, 30.0]
    assert not any("modified" in remark for remark in notes.remarks)


def test_the_same_time_twice_is_counted():
    """Copied files share a time: the first counts."""
    samples, _, notes = load((text(10), NOW_S), (text(20), NOW_S))
    assert [one.utilization_ratio for one in samples] == [[0.1]]
    assert sum(notes.dropped.values()) == 1


UUID = "GPU-4cd9c5b2-6f2e-4f0a-9a3b-0d6f6f4d2c11"


def of_two(util, node, pod=None, uuid=UUID):
    """A look at one GPU by one of two exporters."""
    labels = f'gpu="0",UUID="{uuid}",modelName="A100",Hostname="{node}"' + ("" if pod is None else f',pod="{pod}"')
    return f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {util}\nDCGM_FI_DEV_XID_ERRORS{{{labels}}} 79\n"


@pytest.mark.parametrize("names", [("n1", "dcgm-exporter-x7k2p"), ("dcgm-exporter-x7k2p", "n1"), ("n1", "n1")])
def test_a_gpu_with_two_exporters_is_one(names):
    """In turn, one of them with the job: an old XID is not new, and no look says that the job has gone."""
    with_job, without = names
    looks = [of_two(10, with_job, "train-0"), of_two(11, without)] * 3
    samples, events, notes = load(*((one, NOW_S + 5 * at) for at, one in enumerate(looks)))
    assert {(one.node, *one.uuids) for one in samples} == {("n1", UUID)}
    assert [one.sequence for one in samples] == list(range(6))
    assert [[process.job for process in one.processes] for one in samples] == [["train-0"], []] * 3
    assert ["processes" in one.not_measured for one in samples] == [False, True] * 3
    assert [list(one.xid) for one in samples] == [[None], *[[0]] * 5]
    assert [type(one) for one in events].count(NodeDescribed) == 1
    assert ("nodes n1 and dcgm-exporter-x7k2p report the same GPUs: taken for n1" in notes.remarks) == (
        names != ("n1",) * 2
    )


@pytest.mark.parametrize("job_first", [True, False])
def test_of_two_exporters_at_a_time_the_one_with_the_job_counts(job_first):
    """In files of their own and in one text, where the GPU has both exporters' labels."""
    files = [of_two(10, "n1", "train-0"), of_two(11, "dcgm-exporter-x7k2p")][:: 1 if job_first else -1]
    for given in (files, ["".join(files)]):
        (one,), _, _ = load(*((text, NOW_S) for text in given))
        assert (one.node, one.uuids, [process.job for process in one.processes]) == ("n1", [UUID], ["train-0"])


def test_a_card_that_moved_and_names_that_many_have_are_not_one():
    """An hour apart it is in another node; GPU-0 may be in each."""
    moved, _, _ = load((of_two(10, "n1"), NOW_S), (of_two(11, "n2"), NOW_S + 3600))
    assert [one.node for one in moved] == ["n1", "n2"]
    for uuid in ("GPU-0", "GPU-00000000-0000-0000-0000-000000000000"):
        alike, _, _ = load((of_two(10, "n1", uuid=uuid), NOW_S), (of_two(11, "n2", uuid=uuid), NOW_S))
        assert [one.node for one in alike] == ["n1", "n2"]


def test_nodes_are_numbered_apart():
    """Each node is a producer of its own."""
    samples, _, _ = load((text(10) + text(20, node="n2"), NOW_S), (text(10, node="n2"), NOW_S + 30))
    assert sorted((one.node, one.sequence) for one in samples) == [("n1", 0), ("n2", 0), ("n2", 1)]
    assert len({one.producer for one in samples}) == 2


def test_an_old_xid_is_only_remarked():
    """Nobody knows when it came; one that comes between two texts is told."""
    samples, _, notes = load((text(xid=79), NOW_S), (text(xid=48), NOW_S + 30))
    assert [one.xid for one in samples] == [[None], [48]]
    assert any("XID 79" in remark for remark in notes.remarks)


@pytest.mark.parametrize("content", ["", "go_goroutines 5\n", "\x00\xff", "{}", "<html></html>"])
def test_what_is_no_exporters_text_is_named(content):
    """A file that says nothing of a GPU costs one line with its name."""
    with pytest.raises(SourceError, match=r"^0\.prom: "):
        load((content, NOW_S))


def test_a_huge_file_is_refused(monkeypatch):
    """Before it is parsed."""
    monkeypatch.setattr("importers.dcgm.MOST_BYTES", 100)
    assert exporter_text.MOST_BYTES > 100
    with pytest.raises(SourceError, match="more than"):
        load((text(), NOW_S))


def test_the_command_makes_a_recording(tmp_path, capsys):
    """By the files' times of modification."""
    for number in range(2):
        path = tmp_path / f"{number}.prom"
        path.write_text(text(10 * number))
        os.utime(path, (NOW_S + 30 * number,) * 2)
    out = tmp_path / "run.jsonl"
    assert main(["dcgm", str(tmp_path / "*.prom"), "-o", str(out)]) == 0
    lines = list(recording.read(str(out)))
    assert [one.topic for one in lines] == [topics.NODE.name, topics.DEVICE.name, topics.DEVICE.name]
    assert [one.timestamp_ms for one in lines] == [NOW_S * 1000, NOW_S * 1000, (NOW_S + 30) * 1000]
    assert "rules on them are not fed" in capsys.readouterr().err
