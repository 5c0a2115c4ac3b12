"""The versions of what a node trains with: two ranks of one job that differ in them are a fault worth naming.

Rule of this file: PyTorch is an argument; None: it is not installed. A version that nothing tells is left out.
"""

import platform
from collections.abc import Mapping
from typing import Any


def versions(torch: Any | None, driver: Mapping[str, str]) -> dict[str, str]:
    """``python``, and where they are there ``pytorch``, ``cuda`` (or ``rocm``), ``cudnn``, ``nccl`` and ``driver``.

    ``cuda`` is the one that PyTorch was built with; the driver's own is in the node's inventory.
    """
    told: dict[str, object] = {"python": platform.python_version(), **driver}
    if torch is not None:
        told |= {"pytorch": torch.__version__, "cuda": torch.version.cuda, "rocm": torch.version.hip}
        told |= {"cudnn": torch.backends.cudnn.version(), "nccl": _nccl(torch)}
    return {name: str(version) for name, version in told.items() if version}


def _nccl(torch: Any) -> str | None:
    """As NCCL writes it; PyTorch tells it only where it was built with it, and a build for CPUs has none."""
    try:
        return ".".join(map(str, torch.cuda.nccl.version()))
    except (AttributeError, RuntimeError, ImportError):
        return None
