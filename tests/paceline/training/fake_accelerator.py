"""Paceline's own view of a fake device: what a clock is given."""

from types import SimpleNamespace

from paceline.training.accelerator import Accelerator
from tests.paceline.training.fake_cuda import FakeCuda


def accelerator(cuda: FakeCuda, index: int = 0) -> Accelerator:
    """The device of this number."""
    return Accelerator(SimpleNamespace(cuda=cuda), SimpleNamespace(type="cuda", index=index))
