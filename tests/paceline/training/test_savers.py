"""Savers of checkpoints are timed, and can be handed to other processes as before."""

import pickle
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from paceline.training.hooks import checkpoint
from paceline.training.probe import Probe


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``torch``, whose ``save`` is defined in another module of it."""
    monkeypatch.setattr(checkpoint, "skip_frame", lambda _: None)
    home = ModuleType("stand_in.serialization")
    exec("def save(*_): return 'saved'", vars(home))
    monkeypatch.setitem(sys.modules, home.__name__, home)
    package = ModuleType("stand_in")
    package.serialization = home  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    save = home.save
    return SimpleNamespace(save=save, compiler=SimpleNamespace(is_dynamo_compiling=lambda: False))


def test_a_saver_can_be_pickled(torch: Any) -> None:
    """A pool of processes takes it by its name in the module that defines it."""
    original = torch.save
    checkpoint.install(Probe(), torch)
    assert torch.save is not original
    assert pickle.loads(pickle.dumps(torch.save)) is torch.save


def test_saves_without_steps_keep_few_marks(torch: Any) -> None:
    """As a program that only converts checkpoints."""
    probe = Probe()
    checkpoint.install(probe, torch)
    for _ in range(probe.most):
        assert torch.save() == "saved"
    assert len(probe.ring) <= probe.most + 2


PICKLED = """
import pickle, torch, torch.distributed.checkpoint as dcp
for save in (torch.save, dcp.save, dcp.async_save):
    assert hasattr(save, "__wrapped__")
    assert pickle.loads(pickle.dumps(save)) is save
"""


@pytest.mark.e2e
@pytest.mark.xdist_group("pytorch")
def test_pytorchs_own_savers_can_be_pickled(new_listener: Callable[[], Any]) -> None:
    done = new_listener().run("-c", PICKLED)
    assert (done.returncode, done.stderr) == (0, "")
