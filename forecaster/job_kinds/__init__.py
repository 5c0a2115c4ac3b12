"""Kinds of job: training, inference, interactive, data preparation, batch inference, idle, or unknown.

Rule of this package: ``classify`` is a pure decision over a shipped, versioned model (``model.json``: numbers, no
code); only ``recordings`` and ``train`` touch other files.
"""

from .classifier import classify
from .kind import KINDS, Kind

__all__ = ["KINDS", "Kind", "classify"]
