"""Marks that wait stay few, also where nothing ends a step: in a loop of one's own, or after the training."""

import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.training import marks, phase
from paceline.training.hooks import collectives
from paceline.training.hooks.autograd import Backward
from paceline.training.links import TcpLinks
from paceline.training.probe import Mark, Probe
from paceline.training.shipping import MOST, Shipping

TORCH: Any = SimpleNamespace(compiler=SimpleNamespace(is_dynamo_compiling=lambda: False))
#: Marks that one round may add.
ROUND = 4


def of_backward(probe: Probe) -> Callable[[], object]:
    """A backward whose gradients the script applies itself."""
    timed = Backward(probe, TORCH)
    probe.device = "cpu"
    return lambda: timed.enter(()) and timed.run(lambda: None)


def of_wait(probe: Probe) -> Callable[[], object]:
    return lambda: probe.waited(None, lambda: None)


def of_collective(probe: Probe) -> Callable[[], object]:
    groups: Any = SimpleNamespace(tell=None)
    timed: Callable[[], object] = collectives._timed(probe, groups, TORCH, lambda tensor=None: None, "reduce", "tensor")
    return timed


def of_garbage(probe: Probe) -> Callable[[], object]:
    """Python's collector, which goes on when a group is destroyed."""

    def run() -> None:
        probe.collected("start", {})
        probe.collected("stop", {})

    return run


def of_phase(probe: Probe) -> Callable[[], object]:
    def run() -> None:
        with phase("data"):
            pass

    return run


@pytest.mark.parametrize("of", [of_backward, of_wait, of_collective, of_garbage, of_phase])
def test_what_ends_no_step_keeps_few_marks(
    of: Callable[[Probe], Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest go, and are counted."""
    probe = Probe()
    monkeypatch.setattr(sys.modules[phase.__module__], "current", lambda: SimpleNamespace(probe=probe))
    monkeypatch.setattr(collectives, "skip_frame", lambda _: None)
    probe.most = 100
    run = of(probe)
    for _ in range(probe.most):
        run()
    assert len(probe.ring) <= probe.most + ROUND
    assert probe.lost >= probe.most - ROUND


class TrimmedMeanwhile(deque[Mark]):
    """Marks of which the training thread drops some while the other thread takes the first one."""

    def popleft(self) -> Mark:
        """The first one."""
        if len(self) > 2 * MOST:
            for _ in range(5):
                super().popleft()
        return super().popleft()


def test_marks_that_are_trimmed_while_they_are_sent_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that sends takes those that there are."""
    nothing: Any = None
    probe = Probe()
    probe.ring = TrimmedMeanwhile((at, marks.QUEUED, 0) for at in range(2 * MOST + 5))
    shipping = Shipping(probe, str(tmp_path / "gone"), lambda: nothing, TcpLinks(set()))
    monkeypatch.setattr(shipping, "_send_marks", lambda *sent: True)
    shipping._pass_on(None)
    assert (len(probe.ring), probe.taken) == (0, 2 * MOST)
