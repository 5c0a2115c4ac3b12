"""Whatever breaks in our hooks, PyTorch trains as without them, to the last bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.e2e
@pytest.mark.xdist_group("pytorch")
def test_no_broken_call_of_ours_reaches_the_script(python: Callable[..., Any], scripts: Path, tmp_path: Path) -> None:
    """Every call in the hooks and below them in turn; where the thread that ships cannot be started, too."""
    environ = {"PACELINE_SOCKET": str(tmp_path / "nobody"), "PYTHONPATH": str(ROOT)}
    done = python(str(scripts / "broken_steps.py"), environ=environ)
    *wrong, count = done.stdout.splitlines()
    assert wrong == []
    assert int(count) > 40
