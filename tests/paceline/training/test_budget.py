"""``paceline run --probe-budget``: a real run whose steps write many marks tells some of them, and says so."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.forking import Forking

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]

SCRIPT = Path(__file__).parents[3] / "experiments" / "overhead" / "many_marks.py"
STEPS = 200


@pytest.fixture(scope="module")
def panel(
    python: Callable[..., Any], two_ranks: Callable[[], Forking], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """The panel of two ranks whose steps write 200 marks."""

    def run(*options: str) -> str:
        folder, forked = tmp_path_factory.mktemp("run"), two_ranks()
        own = ["-m", "paceline", "run", "--brokers", "none", "--quiet", *options, "--"]
        small = ["--blocks", "100", "--width", "8", "--steps", str(STEPS), "--warm-up", "0"]
        command = [*own, sys.executable, *forked.command, str(SCRIPT), *small]
        done = python(*command, environ={"TMPDIR": str(folder), **forked.environ}, cwd=folder)
        assert done.returncode == 0, done.stderr + forked.said()
        return str(done.stderr)

    return run


def test_beyond_its_budget_a_run_is_told_in_part(panel: Callable[..., str]) -> None:
    """All its steps are counted, those up to the first look are told, and few of the others; nothing is missing."""
    text = panel("--probe-budget", "0.0001")  # a step of minutes could be told within it: none is that long
    found = re.search(r"0 messages missing; steps sampled: 1 in [\d.]+ \((\d+) of (\d+)\)", text)
    assert found, text
    assert 52 <= int(found[1]) < 140
    assert abs(int(found[2]) - STEPS) < 64


def test_without_a_budget_every_step_is_told(panel: Callable[..., str]) -> None:
    text = panel("--probe-budget", "0")
    assert f"2 ranks, {STEPS} steps" in text
    assert "sampled" not in text


def test_a_budget_that_cannot_be_is_refused_before_anything_runs(python: Callable[..., Any]) -> None:
    """On one line, by the name of the option."""
    done = python("-m", "paceline", "run", "--probe-budget", "101", "--", "true", environ={})
    assert done.returncode == 2
    assert done.stderr == "paceline: --probe-budget='101': out of range; allowed: 0 to 100\n"
