"""Paceline's callbacks in frameworks: without ``paceline run``, the framework's own logger has the points."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
TORCHRUN = ["-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]


def train(script: str, folder: Path, *launcher: str) -> None:
    """Run ``script``, outside of the checkout, without ``paceline run``."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PACELINE_BROKERS": "none"}
    command = [sys.executable, *launcher, str(SCRIPTS / f"{script}.py"), str(folder)]
    subprocess.run(command, check=True, env=environ, cwd=folder, timeout=500)


def judge(points: list[dict[str, float]]) -> None:
    """Several points, of steps in order, that hold what a step is made of."""
    steps = [point["paceline/step"] for point in points]
    assert len(steps) >= 2
    assert steps == sorted(set(steps))
    assert all(0.05 < point["paceline/step_s"] < 30 for point in points), points
    assert all("paceline/phase/forward_s" in point for point in points)


def test_lightnings_logger_has_the_points(tmp_path: Path) -> None:
    train("callback_lightning", tmp_path)
    with next(tmp_path.rglob("metrics.csv")).open() as file:
        rows = [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]
    judge([row for row in rows if "paceline/step_s" in row])


def test_the_trainers_log_has_the_points(tmp_path: Path) -> None:
    train("callback_huggingface", tmp_path, *TORCHRUN)
    log = json.loads((tmp_path / "log.json").read_text())
    judge([entry for entry in log if "paceline/step_s" in entry])
    assert any("loss" in entry for entry in log)


def test_rays_metrics_have_a_point(tmp_path: Path) -> None:
    """Of each name the newest since the report before."""
    train("callback_ray", tmp_path)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["step"] == 80
    assert metrics["paceline/step"] > 40
    assert metrics["paceline/step_s"] > 0.05
