"""Captures of a real training run: asked by the command, made by its ranks, and read by our own importer."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.control.conftest import PACELINE, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.bus]
RANKS = 2


@pytest.fixture
def training(cluster: Cluster, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A run of two ranks that goes on until the test ends."""
    launch = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    script = ["-m", "paceline.training.example", "--fault", "none", "--seconds", "200"]
    command = [*PACELINE, "run", "--captures", "--job", "captured", "--", *launch, *script]
    with (tmp_path / "training.log").open("wb") as log:
        process = subprocess.Popen(command, env={**cluster.environ, "OMP_NUM_THREADS": "1"}, stdout=log, stderr=log)
    yield process
    process.terminate()
    process.wait()


@pytest.mark.xdist_group("pytorch")
def test_ranks_of_a_running_job_are_captured_and_the_traces_are_read(
    cluster: Cluster, training: "subprocess.Popen[bytes]", tmp_path: Path, until: Callable[..., None]
) -> None:
    """Of a rank that there is not, it is said."""
    heard = tmp_path / "heard.jsonl"

    def trains() -> bool:
        assert training.poll() is None
        done = cluster.run("tail", "op", "--job", "captured", "--from-beginning", "--seconds", "1")
        heard.write_text(done.stdout)
        return '"step"' in done.stdout

    until(trains)
    folder = tmp_path / "traces"
    options = ["--job", "captured", "--steps", "3", "-o", str(folder), "--no-analyze"]
    refused = cluster.run("capture", "--ranks", "0,1,7", *options)
    assert (refused.returncode, "ranks run from 0 to 1" in refused.stderr) == (1, True), refused.stderr
    done = cluster.run("capture", "--ranks", "0,1", *options)
    assert done.returncode == 0, done.stderr
    assert folder.exists(), done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [f"rank{rank}.pt.trace.json.gz" for rank in range(RANKS)]
    traces = map(str, folder.iterdir())
    imported = cluster.run("import", "kineto", *traces, "-o", str(tmp_path / "run.jsonl"))
    assert imported.returncode == 0, imported.stderr
    judged = cluster.run("analyze", str(tmp_path / "run.jsonl"), "--json")
    assert judged.returncode == 0, judged.stderr
    assert training.poll() is None
