"""Balancing: workers of a synchronous training run get as many samples as their speed allows, with exact gradients.

Rule of this package: it runs in the user's training process, so it needs the standard library, and PyTorch in the files
that train; what decides (`controller`, and all that it imports; `stages`) is pure and runs anywhere.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Names that users import from here, and the module that each is loaded from on first use: services have no PyTorch.
_LATER = {"BalancedSampler": "sampler", "balance": "balancer"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
