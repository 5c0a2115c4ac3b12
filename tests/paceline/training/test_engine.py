"""DeepSpeed's engine, which no other wrapper of PyTorch's tells of; a stand-in has its name and its place."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SLEEP_S = 0.05


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_what_comes_before_the_engines_forward_is_no_forward(
    new_listener: Callable[[], Any], scripts: Path, tmp_path: Path
) -> None:
    """A batch that the script makes itself is prepared, and a pass without gradients is an evaluation."""
    listener = new_listener()
    done = listener.run(str(scripts / "engine.py"), str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    (heard,) = listener.heard
    steps = heard.steps()
    assert heard.hello.framework.endswith("deepspeed")
    assert len(steps) == 6
    assert all(step["prepare"] >= SLEEP_S for step in steps[1:4])
    assert all(step["forward"] > 0.0 for step in steps)
    assert [place for place, step in enumerate(steps) if "evaluation" in step] == [4]
