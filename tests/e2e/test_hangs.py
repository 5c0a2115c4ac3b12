"""Real hangs of four gloo ranks, named with their line of code; and long work on one rank that is no hang."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

SCRIPT = Path(__file__).parent / "scripts" / "hanging.py"
PACELINE = [sys.executable, "-m", "paceline"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]

pytestmark = [pytest.mark.training, pytest.mark.slow]


def hangs_of(case, folder):
    """The findings on hangs of a run in which ``case`` happens."""
    recording = folder / "run.jsonl.zst"
    train = [*TORCHRUN, str(SCRIPT), case, str(folder / "checkpoint.pt")]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*PACELINE, "run", "--no-panel", "--record", str(recording), "--", *train]
    subprocess.run(command, check=False, env=environ, timeout=500)
    told = subprocess.run(
        [*PACELINE, "analyze", str(recording), "--json"], check=True, capture_output=True, timeout=PATIENCE_S
    )
    findings = [json.loads(line) for line in told.stdout.splitlines()]
    return [finding for finding in findings if finding["kind"] == "hang"]


@pytest.mark.parametrize(("case", "function"), [("loop", "spin"), ("lock", "blocked"), ("loader", "load")])
def test_the_rank_that_is_missing_is_named_with_its_line(tmp_path, case, function):
    """It is confirmed while the rank is away, with the line that it is at and the line at which the others wait."""
    found = hangs_of(case, tmp_path)
    confirmed = [finding for finding in found if finding["state"] == "confirmed"]
    assert [finding["ranks"] for finding in confirmed] == [[2]]
    assert confirmed[0]["line"].endswith(f" {function}")
    assert "hanging.py:" in confirmed[0]["line"]
    assert confirmed[0]["others_line"].endswith(" main")
    assert confirmed[0]["victims"] == [0, 1, 3]
    assert confirmed[0]["next"].startswith("py-spy dump --pid ")
    assert confirmed[0]["line"] in confirmed[0]["summary"]


def test_a_rank_that_is_stopped_is_named_with_the_command_that_continues_it(tmp_path):
    """It cannot answer; the kernel says that it is stopped."""
    found = hangs_of("stop", tmp_path)
    confirmed = [finding for finding in found if finding["state"] == "confirmed"]
    assert [finding["ranks"] for finding in confirmed] == [[2]]
    assert "its process is stopped" in confirmed[0]["summary"]
    assert confirmed[0]["next"].startswith("kill -CONT ")


def test_a_rank_that_skipped_a_collective_is_named(tmp_path):
    """All wait under the same number; the operations differ, and the one that calls another is named."""
    found = hangs_of("skip", tmp_path)
    confirmed = [finding for finding in found if finding["state"] == "confirmed"]
    assert [finding["ranks"] for finding in confirmed] == [[2]]
    assert "calls differ: ranks 0, 1 and 3 called all_reduce, rank 2 called barrier" in confirmed[0]["summary"]


@pytest.mark.parametrize("case", ["checkpoint", "evaluation"])
def test_long_work_on_one_rank_is_no_hang(tmp_path, case):
    """The others wait for longer than any threshold, and nothing is reported: the rank moves."""
    assert hangs_of(case, tmp_path) == []
