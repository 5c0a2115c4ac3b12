"""What a node's part of a job reads and writes; how it starts and ends a training is in ``test_trial_runs``."""

import json
import os

import msgspec
import pytest

from trials import inside
from trials.executor import RESULT_MARK
from trials.result import MOST_BYTES, NodeResult, Verdict, decode
from trials.steps_heard import StepsHeard


def finding(**changed):
    told = {"id": "f", "kind": "straggler", "state": "confirmed", "cost": {"lost_s": 1.0}, "ranks": [1]} | changed
    return json.dumps(told).encode()


def test_confirmed_findings_by_their_last_word():
    """The most expensive first, three at most; what is no finding is left out."""
    lines = [
        finding(),
        finding(id="gone"),
        finding(id="gone", state="resolved"),
        finding(id="open", state="suspected"),
        finding(id="thin", kind="insufficient_data"),
        *(finding(id=str(cost), cost={"lost_s": float(cost)}) for cost in (5, 9, 7)),
        b"no finding",
        b"{}",
        b"\xff",
    ]

    assert [one.lost_s for one in inside.confirmed(lines, ended_by_us=True)] == [9.0, 7.0, 5.0]


@pytest.mark.parametrize(("ended_by_us", "kinds"), [(True, ["straggler"]), (False, ["straggler", "died"])])
def test_that_a_run_died_is_a_finding_where_it_ended_by_itself(ended_by_us, kinds):
    """Most runs are ended by the trial, once they have measured enough: that is no finding of theirs."""
    lines = [finding(), finding(id="end", kind="died", cost={"lost_s": 0.0})]

    assert [one.kind for one in inside.confirmed(lines, ended_by_us=ended_by_us)] == kinds


def test_a_finding_is_bounded():
    """However long its words, however many its ranks."""
    long = finding(kind="k" * 999, cause="c" * 999, summary="s" * 99_999, ranks=[*range(9999)], cost={"lost_s": -1})
    (verdict,) = inside.confirmed([long], ended_by_us=True)

    assert len(msgspec.json.encode(verdict)) < 2000
    assert verdict.lost_s == 0.0


def test_a_finding_counts_the_ranks_that_it_does_not_name():
    """One for many names some, and its evidence has their number."""
    count = {"name": "alike", "value": 300.0, "unit": "ranks", "peers": None, "rule": ""}
    (verdict,) = inside.confirmed([finding(ranks=[*range(256)], evidence=[count])], ended_by_us=True)

    assert (len(verdict.ranks), verdict.rank_count) == (64, 300)


class Heard(StepsHeard):
    def __init__(self):
        super().__init__(0)
        self.events = []

    def update(self, event):
        self.events.append(event)


def test_a_recording_is_followed_as_it_grows(tmp_path):
    """Whole lines, once each; damaged ones and unknown topics are passed over."""
    path, heard = tmp_path / "recording", Heard()
    follower = inside.Follower(path, heard)
    follower.read()
    value = {
        "cluster": "c", "producer": "p", "sequence": 0, "job": "j", "attempt": 0, "node": "n", "world_size": 1,
        "backend": "gloo", "framework": "torch", "started_s": 1.0, "places": [], "schema_version": 1,
    }  # fmt: skip
    line = json.dumps({"topic": "paceline.job.v1", "key": "j/n", "timestamp_ms": 1, "value": value}).encode() + b"\n"
    with path.open("wb", buffering=0) as file:
        file.write(line + line[:20])
        follower.read()
        assert len(heard.events) == 1
        file.write(line[20:] + b"nonsense\n" + line.replace(b"paceline.job.v1", b"paceline.unknown"))
        follower.read()
        follower.read()
    follower.close()
    assert [event.job for event in heard.events] == ["j", "j"]


def test_an_output_is_passed_on_and_its_end_is_kept(capfd):
    """Memory is seen also where its word is torn in two; the pipe is read to its end."""
    output = inside.Output()
    os.write(output.writer, b"one\nCUDA out of mem")
    os.write(output.writer, b"ory\x1b[2J\nKeyError\n")
    output.follow()
    output.drain()

    assert output.memory == "out of memory"
    assert output.said() == "one\nCUDA out of memory [2J\nKeyError"
    assert capfd.readouterr().out.startswith("one\nCUDA out of memory")


def test_the_end_of_a_long_output_is_bounded(capfd):
    """The last twenty lines, four thousand characters."""
    output = inside.Output()
    os.write(output.writer, b"".join(b"%d %s\n" % (line, b"x" * 300) for line in range(100)))
    output.follow()
    output.drain()

    assert len(output.said()) == 4096
    assert output.said().splitlines()[-1].startswith("99 ")


def test_a_document_is_written_and_said(tmp_path, capfd):
    """In the job's folder all at once, and as a line of its own behind the mark."""
    result = NodeResult(job="j", node="n", outcome="measured")
    inside._tell(result, tmp_path, 3)

    assert [path.name for path in tmp_path.iterdir()] == ["result-3.json"]
    assert decode((tmp_path / "result-3.json").read_bytes(), "j") == result
    (line,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith(RESULT_MARK)]
    assert decode(line.removeprefix(RESULT_MARK).encode(), "j") == result


def test_a_document_fits_whatever_it_holds(tmp_path, capfd):
    """Without a folder it is said alone; what would be too long loses its findings first."""
    verdict = Verdict(kind="\x01" * 8000, cause="\x01" * 8000)
    inside._tell(NodeResult(job="j", node="n", outcome="crashed", findings=[verdict] * 3), tmp_path / "none", 0)
    said = capfd.readouterr().out

    assert len(said) < MOST_BYTES
    assert decode(said.strip().removeprefix(RESULT_MARK).encode(), "j").findings == []


@pytest.mark.parametrize("words", [[], ["{", "0", "--", "x"], ["{}", "0", "--"], ["null", "0", "--", "x"]])
def test_words_that_are_no_jobs_are_one_line(words, capsys):
    """Somebody has typed what is for jobs alone."""
    assert inside.main(words) == 2
    assert capsys.readouterr().err.startswith("paceline: trial: --inside is for a trial's own jobs")
