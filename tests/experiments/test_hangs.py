"""The benchmark of hangs: what counts as right, and that it goes on where it was ended."""

import json

import pytest

from experiments.hangs import __main__ as bench
from experiments.hangs.cases import BY_NAME, Outcome, judged
from experiments.hangs.look_cost import cost


def finding(state="confirmed", waited_s=24.0, **changes):
    evidence = [{"name": "waited", "value": waited_s}]
    told = {"state": state, "ranks": [2], "line": "hanging.py:30 spin", "summary": "…: …, it is computing."}
    return told | {"evidence": evidence} | changes


def test_what_is_reported_as_it_must_be_is_right():
    found = [finding("suspected", 12.0, line=""), finding()]
    assert judged(BY_NAME["loop"], found) == Outcome("loop", 12.0, 24.0, kind=True, ranks=True, line=True)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"ranks": [1, 2]}, "ranks"),
        ({"line": "hanging.py:9 main"}, "line"),
        ({"line": None}, "line"),
        ({"summary": "it is waiting there"}, "kind"),
    ],
)
def test_each_part_can_be_wrong(changes, wrong):
    outcome = judged(BY_NAME["loop"], [finding(**changes)])
    assert [name for name in ("kind", "ranks", "line") if not getattr(outcome, name)] == [wrong]


def test_a_rank_that_was_suspected_wrongly_counts():
    """Also where the confirmed finding names another."""
    assert not judged(BY_NAME["loop"], [finding("suspected", 12.0, ranks=[0]), finding()]).ranks


@pytest.mark.parametrize("found", [[], [finding("suspected", 12.0)]])
def test_a_hang_that_is_not_confirmed_is_wrong(found):
    assert not any(judged(BY_NAME["loop"], found)[3:])


def test_where_nothing_may_be_reported_nothing_is_right():
    assert all(judged(BY_NAME["checkpoint"], [])[3:])
    assert not any(judged(BY_NAME["checkpoint"], [finding("suspected", 12.0)])[3:])


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Runs that take no time; which, in their order."""
    done = []

    def hangs_of(name, folder, launcher, environ):
        done.append(name)
        return [finding("suspected", 12.0), finding()] if name == "loop" else []

    monkeypatch.setattr(bench, "hangs_of", hangs_of)
    return done


def test_it_goes_on_where_it_was_ended(runs, tmp_path, capsys):
    """A half line is of the run that was ended with it."""
    out = tmp_path / "hangs.jsonl"
    arguments = ["--only", "loop,checkpoint", "--out", str(out)]
    assert bench.main([*arguments, "--runs", "1"]) == 0
    with out.open("a") as file:
        file.write('{"case": "lo')
    assert bench.main([*arguments, "--runs", "2"]) == 0
    assert runs == ["loop", "checkpoint", "loop", "checkpoint"]
    assert [json.loads(line)["case"] for line in out.read_text().splitlines()] == runs
    assert "| a loop in Python | 2 | 12.0, at most 12.0 | 24.0, at most 24.0 | 2 of 2 |" in capsys.readouterr().out


def test_a_wrong_run_fails_it_and_its_recording_is_kept(runs, monkeypatch, tmp_path):
    """What led to it can be read again."""

    def hangs_of(name, folder, launcher, environ):
        (folder / "run.jsonl.zst").write_bytes(b"recorded")
        return []

    monkeypatch.setattr(bench, "hangs_of", hangs_of)
    assert bench.main(["--only", "lock", "--runs", "1", "--out", str(tmp_path / "o" / "hangs.jsonl")]) == 1
    (kept,) = (tmp_path / "o").glob("hang-lock-*.jsonl.zst")
    assert kept.read_bytes() == b"recorded"


def test_an_unknown_case_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        bench.main(["--only", "loop,lop", "--out", str(tmp_path / "hangs.jsonl")])
    assert "unknown case lop" in capsys.readouterr().err


@pytest.mark.slow
def test_what_a_look_costs_is_measured_on_real_processes():
    """Some processor time on either side."""
    found = cost(3)
    assert found.sidecar_s > 0.0
    assert found.rank_s > 0.0
