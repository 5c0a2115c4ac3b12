"""torch.compile makes the same graphs, with the same breaks and the same results, whether the probe is in or not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


class Seen(NamedTuple):
    pairs: dict[str, list[Any]]
    steps: list[dict[str, float]]


@pytest.fixture(scope="module")
def seen(new_listener: Callable[[], Any], scripts: Path) -> Seen:
    """One process that compiles everything without the probe, then with it."""
    listener = new_listener()
    own = {"PACELINE_SOCKET": "", "PYTHONPATH": ""}
    done = listener.run(str(scripts / "compiled.py"), str(listener.path), environ=own)
    assert done.returncode == 0, done.stderr
    return Seen(json.loads(done.stdout.splitlines()[-1]), listener.heard[0].steps())


@pytest.mark.parametrize(
    "way",
    [
        "compile(ddp)",
        "ddp(compile), one graph",
        "ddp.compile()",
        "whole step",
        "all_reduce, one graph",
        "all_reduce within a model",
    ],
)
def test_graphs_breaks_and_results_are_the_same(seen: Seen, way: str) -> None:
    """However DDP and torch.compile are combined."""
    without, with_probe = seen.pairs[way]
    assert with_probe == without


def test_compiled_steps_are_seen_with_their_phases(seen: Seen) -> None:
    """Three steps a way, each with its phases; one whose optimizer is compiled ends where the next way begins."""
    assert len(seen.steps) == 15
    assert [sorted({"forward", "backward", "optimizer"} - set(step)) for step in seen.steps[:11]] == [[]] * 11


def test_generated_code_that_waits_for_other_ranks_is_communication(seen: Seen) -> None:
    """Not the forward pass that it stands in; no backward here waits for anybody."""
    assert [step.get("communication", 0.0) > 0 for step in seen.steps[-2:]] == [True, True]
