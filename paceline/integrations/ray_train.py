"""Ray Train: ``start()`` at the top of the training function, and ``report`` in place of ``ray.train.report``.

Rule of this file: points go with the metrics that the training function reports, under names of their own; Ray takes
those of rank 0.
"""

from __future__ import annotations

from typing import Any

import ray.train

from paceline.integrations.inside import begin as start
from paceline.integrations.inside import end as stop
from paceline.integrations.inside import taken

__all__ = ["report", "start", "stop"]


def report(metrics: dict[str, Any], *args: Any, **options: Any) -> None:
    """``ray.train.report`` with what was measured since the last time beside ``metrics``, which win."""
    ray.train.report({**taken(), **metrics}, *args, **options)
