"""``paceline compare`` as a CI job runs it: what its exit status says, on simulated runs."""

import json

import pytest

from paceline import recording
from simulator.fault import parse
from simulator.job import Job
from simulator.spec import Spec
from streams.compare import main


@pytest.fixture(scope="module")
def simulate(tmp_path_factory):
    """A recording of a simulated run: as long as a test of it can be short."""

    def of(seed, *faults, ranks=4, steps=100, job="simulated"):
        path = tmp_path_factory.mktemp("run") / "run.jsonl"
        writer = recording.Writer(str(path))
        for message in Job(
            Spec(ranks=ranks, steps=steps, seed=seed, job=job, faults=tuple(map(parse, faults)))
        ).messages():
            writer.write_event(message)
        writer.close()
        return str(path)

    return of


@pytest.fixture(scope="module")
def usual(simulate):
    return simulate(1)


@pytest.fixture(scope="module")
def slow(simulate):
    return simulate(2, "slowdown:size=0.15")


@pytest.mark.slow
def test_equal_runs_pass(usual, simulate, capsys):
    """Status 0, and it says within what."""
    assert main([usual, simulate(3)]) == 0
    assert "The second run is not slower" in capsys.readouterr().out


@pytest.mark.slow
def test_a_slower_run_fails_and_is_told_why(usual, slow, capsys):
    """Status 1."""
    assert main([usual, slow, "--fail-over", "5%"]) == 1
    assert "The second run is slower (+1" in capsys.readouterr().out


@pytest.mark.slow
def test_what_is_allowed_passes(usual, slow):
    """Fifteen percent are less than thirty."""
    assert main([usual, slow, "--fail-over", "30%"]) == 0


@pytest.mark.slow
def test_the_other_way_round_it_is_faster(usual, slow, capsys):
    """Status 0."""
    assert main([slow, usual]) == 0
    verdict = next(line for line in capsys.readouterr().out.splitlines() if "The second run is faster (-" in line)
    assert verdict.count(":") == 1


@pytest.mark.slow
def test_json_has_what_the_page_has(usual, slow, capsys):
    """One object, numbers in seconds and ratios."""
    assert main([usual, slow, "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "slower"
    assert told["step"]["low"] > 0.05
    assert {"forward", "backward", "communication"} <= {row["name"] for row in told["rows"]}


@pytest.mark.slow
def test_html_is_one_file(usual, slow, tmp_path):
    """As reports are."""
    out = tmp_path / "compared.html"
    assert main([usual, slow, "-o", str(out)]) == 1
    assert "<script" not in out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_other_sizes_are_status_2(usual, simulate, capsys):
    """Not comparable, said why."""
    assert main([usual, simulate(4, ranks=2)]) == 2
    assert "batch size" in capsys.readouterr().err


@pytest.mark.long
def test_a_short_run_is_status_2(usual, simulate, capsys):
    """It says how much it takes."""
    assert main([usual, simulate(5, steps=25)]) == 2
    assert "too short" in capsys.readouterr().err


@pytest.mark.slow
def test_several_jobs_ask_which(usual, simulate, tmp_path, capsys):
    """And name those there are."""
    both = tmp_path / "both.jsonl"
    with open(both, "wb") as stream:
        for path in (usual, simulate(6, job="other")):
            with open(path, "rb") as part:
                stream.write(part.read())
    assert main([usual, str(both)]) == 2
    assert "say --job NAME, one of: other, simulated" in capsys.readouterr().err
    assert main([str(both), str(both), "--job", "simulated", "--other-job", "other"]) == 0


@pytest.mark.long
def test_a_job_that_is_not_there_is_status_2(usual, capsys):
    """With those that are."""
    assert main([usual, usual, "--job", "absent"]) == 2
    assert "no job 'absent' with steps; it has simulated" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["five", "-1%", "2000%", "nan"])
def test_a_limit_that_is_none_is_refused(usual, wrong, capsys):
    """With an example of one."""
    with pytest.raises(SystemExit, match="2"):
        main([usual, usual, f"--fail-over={wrong}"])
    assert "5%" in capsys.readouterr().err


@pytest.mark.slow
def test_jobs_of_several_clusters_are_not_compared(tmp_path, capsys):
    """They may share a name and nothing else."""
    path = tmp_path / "both.jsonl"
    writer = recording.Writer(str(path))
    for cluster in ("east", "west"):
        for message in Job(Spec(ranks=4, steps=100, cluster=cluster, job="train")).messages():
            writer.write_event(message)
    writer.close()
    assert main([str(path), str(path)]) == 2
    assert "'train' of several clusters: east, west" in capsys.readouterr().err
