"""What importing the package brings: a service that uses the controller loads no PyTorch."""

import subprocess
import sys

import pytest

import paceline.balance


@pytest.mark.slow
def test_the_controller_comes_without_pytorch() -> None:
    code = (
        "import sys, paceline.balance.controller; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_not_there_is_said_so() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Sampler'"):
        _ = paceline.balance.Sampler
