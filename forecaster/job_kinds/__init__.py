"""Kinds of job: training, inference, interactive, data preparation, batch inference, idle, or unknown.

Rule of this package: ``classify`` is a pure decision over a shipped, versioned model (``model.json``: numbers, no
code); only ``recordings`` and ``train`` touch other files.
"""

from .classifier import classify
from .kind import JOB_KINDS, JobKindEstimate

__all__ = ["JOB_KINDS", "JobKindEstimate", "classify"]
