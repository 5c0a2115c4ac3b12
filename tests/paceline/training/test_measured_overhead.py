"""``paceline run --measure-overhead``: a real run says at its end what the probe cost it, or why it cannot."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.forking import Forking

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]

#: 20 steps of warm-up, six pairs of windows of ten steps each, and some more.
STEPS = 150
INTERVAL = re.compile(
    r"^  Probe    .*95 % interval ([+-]\d+(?:\.\d+)?) to ([+-]\d+(?:\.\d+)?) ms.*, from (\d+) pairs of windows of "
    r"10 steps$",
    re.M,
)


@pytest.fixture(scope="module")
def panel(
    python: Callable[..., Any],
    scripts: Path,
    two_ranks: Callable[[], Forking],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., str]:
    """The panel of two ranks that take so many steps."""

    def run(*arguments: str) -> str:
        folder, forked = tmp_path_factory.mktemp("run"), two_ranks()
        own = ["-m", "paceline", "run", "--measure-overhead", "--brokers", "none", "--quiet", "--"]
        command = [*own, sys.executable, *forked.command, str(scripts / "paced.py"), *arguments]
        done = python(*command, environ={"TMPDIR": str(folder), **forked.environ}, cwd=folder)
        assert done.returncode == 0, done.stderr + forked.said()
        return str(done.stderr)

    return run


def test_a_run_says_what_the_probe_cost_it(panel: Callable[..., str]) -> None:
    """Both ranks were switched together, and half of the steps have no rows.

    The figure is the machine's: how it comes from the steps' times is tested in ``sidecar/test_probe_windows.py``.
    """
    text = panel(str(STEPS))
    (found,) = INTERVAL.findall(text)
    low, high = map(float, found[:2])
    assert low <= high
    assert int(found[2]) >= 6
    assert "the probe was off in 60 steps" in text or "the probe was off in 70 steps" in text
    assert "2 of 2 ranks, 0 messages missing" in text


def test_ranks_that_count_other_steps_have_no_figure(panel: Callable[..., str]) -> None:
    """One made six steps of its own before: it is on where the other is off."""
    text = panel(str(STEPS), "uneven")
    assert "cost not measured: in " in text
    assert "the ranks were not switched together" in text


def test_a_compiled_optimizer_has_none_and_loses_nothing(panel: Callable[..., str]) -> None:
    """Its steps cannot be counted in the process: the probe stays on."""
    text = panel("60", "compiled")
    assert "cost not measured: no end of a step was seen" in text
    assert "the probe was off" not in text
