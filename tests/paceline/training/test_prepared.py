"""Gradient reducers that a framework prepares itself, beside DDP's own forward."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.forking import Forking

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
STEPS, LATE_S = 8, 0.1


def test_waiting_for_the_late_rank_is_communication(
    new_listener: Callable[[], Any], two_ranks: Callable[[], Forking], scripts: Path
) -> None:
    """Where its backward exchanges gradients, the other rank waits and does not compute.

    A busy machine makes all of it longer: one undisturbed step is enough to see where the late rank's time is told.
    """
    listener, forked = new_listener(), two_ranks()
    done = listener.run(*forked.command, str(scripts / "prepared.py"), str(STEPS), environ=forked.environ)
    assert done.returncode == 0, forked.said()
    steps = listener.heard[0].steps()
    assert len(steps) == STEPS
    waited = max(step["communication"] for step in steps)
    assert waited > 0.7 * LATE_S
    assert waited > min(step["backward"] for step in steps)
