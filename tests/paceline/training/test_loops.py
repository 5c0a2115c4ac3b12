"""Loops that are none of the usual: each of their iterations is one step, and they train as they would have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
KINDS = ("in_backward", "by_hooks", "scaled", "raising", "closures", "gradients", "penalised", "compiled")
STEPS = 6


@pytest.fixture(scope="module")
def steps(
    new_listener: Callable[[], Any], python: Callable[..., Any], scripts: Path
) -> dict[str, list[dict[str, float]]]:
    """The steps of each kind."""
    listener = new_listener()
    done = listener.run(str(scripts / "loops.py"))
    assert (done.returncode, done.stderr) == (0, "")
    assert python(str(scripts / "loops.py"), environ={}).stdout == done.stdout
    (heard,) = listener.heard
    told = heard.steps()
    assert len(told) == STEPS * len(KINDS)
    return {kind: told[index * STEPS : (index + 1) * STEPS] for index, kind in enumerate(KINDS)}


@pytest.mark.parametrize("kind", KINDS)
def test_each_iteration_is_one_step_with_a_backward(steps: dict[str, list[dict[str, float]]], kind: str) -> None:
    """Optimizers within backward, skipped and raising steps, closures and gradients without ``backward``."""
    assert all("backward" in step for step in steps[kind])


@pytest.mark.parametrize("kind", ["penalised", "compiled"])
def test_gradients_that_belong_to_the_forward_are_no_pass_of_their_own(
    steps: dict[str, list[dict[str, float]]], kind: str
) -> None:
    """One backward a step: no second micro-batch."""
    assert not any(name.startswith("backward ") for step in steps[kind] for name in step)


@pytest.mark.parametrize("kind", ["scaled", "raising", "gradients", "compiled"])
def test_every_step_has_its_optimizer(steps: dict[str, list[dict[str, float]]], kind: str) -> None:
    """Where it is skipped, the look for what overflowed."""
    assert all("optimizer" in step for step in steps[kind])
