"""Training scripts that know nothing of Paceline, run unchanged with four processes on whatever cores there are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.analyzed import findings_in

SCRIPTS = Path(__file__).parent / "scripts"
PACELINE = [sys.executable, "-m", "paceline"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]

pytestmark = pytest.mark.training


@pytest.mark.parametrize(
    ("script", "fault", "rank", "cause"),
    [
        ("accumulation.py", "none", 0, None),
        ("accumulation.py", "compute", 2, "worker_compute"),
        ("sharded.py", "input", 1, "input_pipeline"),
    ],
)
def test_names_the_slow_rank_of_an_unchanged_script(tmp_path, script, fault, rank, cause):
    """The rank that turns slow is named with its cause, no other is, and nobody in a healthy run."""
    recording = tmp_path / "run.jsonl.zst"
    train = [*TORCHRUN, str(SCRIPTS / script), fault, str(rank), str(tmp_path / "checkpoint.pt")]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*PACELINE, "run", "--record", str(recording), "--", *train], check=True, env=environ, timeout=500)
    findings = findings_in(recording)
    assert {tuple(finding["ranks"]) for finding in findings} == ({(rank,)} if cause else set())
    confirmed = [finding for finding in findings if finding["state"] == "confirmed"]
    assert {finding["cause"] for finding in confirmed} == ({cause} if cause else set())
    assert all(20 <= finding["first_step"] <= 45 for finding in findings)
