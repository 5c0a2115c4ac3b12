"""From what an excess consists of to its cause.

Rule of this file: pure, one rule a cause, tried in order. Overlays come first: a collection or a thread without a
processor shows inside whatever phase it hits, and would otherwise be blamed on that phase.
"""

from collections.abc import Mapping
from typing import NamedTuple

from paceline.events import Cause

#: Cause -> the parts of an excess that speak for it, in the order in which they are tried.
RULES: tuple[tuple[Cause, tuple[str, ...]], ...] = (
    ("garbage_collection", ("gc",)),
    ("cpu_contention", ("cpu_wait",)),
    ("input_pipeline", ("data", "prepare")),
    ("worker_compute", ("forward", "backward", "optimizer", "prepare", "other", "evaluation")),
)
_OVERLAYS = ("gc", "cpu_wait")


class Verdict(NamedTuple):
    """A cause, the share of the excess it explains, and what was cleared, with the number."""

    cause: Cause
    share: float
    cleared: list[str]


def judge(parts: Mapping[str, float], has_loader: bool, least_share: float) -> Verdict:
    """The cause of an excess.

    Args:
        parts: excess over the peers, by phase and overlay, in one unit; negative where the rank was faster.
        has_loader: the job reads its data through a DataLoader. Then time before the forward that the loader does not
            account for is the worker's own; without one it is where hand-made batches come from.
        least_share: share of the whole excess that a cause must explain.
    """
    phases = {name: max(value, 0.0) for name, value in parts.items() if name not in _OVERLAYS}
    whole = sum(phases.values())
    if whole <= 0.0:
        return Verdict("unknown", 0.0, [])
    cleared: list[str] = []
    for cause, names in RULES:
        if cause == "input_pipeline" and has_loader:
            names = ("data",)
        if cause == "worker_compute" and not has_loader:
            names = tuple(name for name in names if name != "prepare")
        share = min(sum(max(parts.get(name, 0.0), 0.0) for name in names) / whole, 1.0)
        if share >= least_share:
            return Verdict(cause, share, cleared)
        cleared.append(f"{cause.replace('_', ' ')}: {share:.0%} of the excess")
    return Verdict("unknown", 0.0, cleared)
