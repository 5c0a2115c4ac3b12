"""What older PyTorch lacks is left out."""

from types import SimpleNamespace
from typing import Any

from paceline.training.probe import Probe
from paceline.training.session import Session, follow_process_groups


def test_groups_are_followed_where_there_are_no_device_meshes() -> None:
    """PyTorch 2.3 does not import them by itself, and the probe imports nothing of PyTorch."""
    c10d = SimpleNamespace(init_process_group=print, destroy_process_group=print)
    torch = SimpleNamespace(distributed=SimpleNamespace(distributed_c10d=c10d))
    replaced: dict[str, Any] = {}
    follow_process_groups(Session(Probe(), torch), None, torch, lambda name, _, new: replaced.setdefault(name, new))
    assert set(replaced) == {"init_process_group", "destroy_process_group"}
