"""``paceline history`` of gaps, and of jobs by label."""

import json
from pathlib import Path

import pytest

from archive.writer import Writer
from paceline.commands.history import main
from paceline.history.store import open_store
from tests.archive.conftest import commit
from tests.archive.sources.conftest import window
from tests.derived_events import described

DAY = "2023-11-14"  # of 1.7e9 s


@pytest.fixture
def archive(tmp_path: Path) -> str:
    """Two jobs, and a GPU that is silent for an hour."""
    where = str(tmp_path / "archive")
    commit(
        Writer(open_store(where, {})),
        [
            described(job="ours", labels={"kubernetes_namespace": "ml", "team": "nl=p"}),
            described(job="theirs", labels={"kubernetes_namespace": "web"}),
            *(window(1.7e9 + 60.0 * minute) for minute in (0, 61, 62)),
        ],
    )
    return where


def asked(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, object]]:
    """What is answered, an object a row."""
    assert main([*options, "--since", DAY, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.long
def test_gaps_are_listed(archive: str, capsys: pytest.CaptureFixture[str]):
    [row] = asked(capsys, "gaps", "--from", archive)
    assert row == {"since": "2023-11-14T22:14:20Z", "until": "2023-11-14T23:14:20Z", "node": "node-1",
                   "device": "GPU-1", "hours": 1.0, "cluster": "c"}  # fmt: skip
    assert asked(capsys, "gaps", "--from", archive, "--node", "node-2") == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("labels", "jobs"),
    [
        (["kubernetes_namespace=ml"], ["ours"]),
        (["kubernetes_namespace=ml", "team=nl=p"], ["ours"]),
        (["kubernetes_namespace=ml", "team=other"], []),
        (["team=' OR 1=1 --"], []),
        ([], ["ours", "theirs"]),
    ],
)
def test_jobs_are_asked_for_by_label(archive: str, capsys: pytest.CaptureFixture[str], labels: list[str], jobs: object):
    options = [word for label in labels for word in ("--label", label)]
    assert sorted(str(row["job"]) for row in asked(capsys, "jobs", "--from", archive, *options)) == jobs


@pytest.mark.parametrize(
    "options", [["jobs", "--label", "team"], ["jobs", "--label", "=x"], ["devices", "--label", "a=b"]]
)
def test_a_label_has_a_name_and_a_value_and_is_a_jobs(options: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main([*options, "--from", "x"])
    assert "--label" in capsys.readouterr().err


@pytest.mark.long
def test_jobs_on_a_node_are_those_of_its_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Jobs of two clusters may share a name."""
    where = str(tmp_path / "archive")
    told = [
        described(cluster=cluster, node=node, job="train") for cluster, node in (("east", "gpu-1"), ("west", "gpu-9"))
    ]
    commit(Writer(open_store(where, {})), told)
    assert [row["cluster"] for row in asked(capsys, "jobs", "--from", where, "--node", "gpu-1")] == ["east"]
