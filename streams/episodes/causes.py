"""The causes of an episode: one row a cause, and how a rank's excess is judged by them.

Rule of this file: pure; a cause stands here once, with what speaks for it, what is said of it and what to do about it.
Rows are tried in their order. Overlays come first: a collection or a thread without a processor shows inside whatever
phase it hits, and would otherwise be blamed on that phase. Its short name for the page stands beside the ``Cause``
literal in ``paceline.events``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from paceline.events import OVERLAYS, Cause


@dataclass(frozen=True)
class CauseRow:
    """What is known of one cause."""

    #: In a sentence: "The reason is ...".
    words: str
    #: The parts of a rank's excess that speak for it; none where a detector of its own finds it.
    parts: tuple[str, ...] = ()
    #: The same in a job that reads its data through a DataLoader, where that differs: then time before the forward that
    #: the loader does not account for is the worker's own; without one it is where hand-made batches come from.
    parts_with_loader: tuple[str, ...] | None = None
    #: Its parts lie inside the phases, and are not added to them.
    overlay: bool = False
    #: The overlay that tells, where it explains ``_BEHIND`` of an excess, that this stands behind longer computing.
    behind_computing: str = ""
    #: The quiet part of the work (``lateness_bar.QUIET``, or ``starved``) that speaks for it where it stands out alone.
    stands_out: str = ""
    #: Whether it can slow all ranks alike, so that it explains a slowdown of the whole job.
    slows_all: bool = False

    def speaking(self, has_loader: bool) -> tuple[str, ...]:
        """The parts that speak for it in a job with or without a DataLoader."""
        return self.parts_with_loader if has_loader and self.parts_with_loader is not None else self.parts


CAUSES: dict[Cause, CauseRow] = {
    "garbage_collection": CauseRow(
        words="Python's garbage collection",
        parts=("gc",),
        overlay=True,
        stands_out="gc",
        slows_all=True,
    ),
    "cpu_contention": CauseRow(
        words="waiting for a processor",
        parts=("cpu_wait",),
        overlay=True,
        stands_out="starved",
    ),
    "input_pipeline": CauseRow(
        words="its input pipeline",
        parts=("data", "prepare"),
        parts_with_loader=("data",),
        stands_out="input",
        slows_all=True,
    ),
    "worker_compute": CauseRow(
        words="its own computing",
        parts=("forward", "backward", "optimizer", "other", "evaluation"),
        parts_with_loader=("forward", "backward", "optimizer", "prepare", "other", "evaluation"),
    ),
    "host_bound": CauseRow(
        words="its GPU waiting for the host that feeds it",
        parts=("idle",),
        behind_computing="host_bound",
    ),
    "throttling": CauseRow(
        words="its GPU being throttled",
    ),
    "memory_pressure": CauseRow(
        words="memory running short on its node",
    ),
    "link": CauseRow(
        words="its network link",
    ),
    "pipeline_stage": CauseRow(
        words="the cut of the model into stages",
    ),
    "sequence_length": CauseRow(
        words="sequences of unequal length",
    ),
    "configuration": CauseRow(
        words="ranks that are set up differently",
    ),
    "unknown": CauseRow(
        words="not visible in these timings",
    ),
}
#: The share of an excess that what stands behind computing must explain: more than a cause seen directly, for all the
#: rest of the excess may be the device's. Once it has been named, less will do: shares go up and down.
_BEHIND, _STILL_BEHIND = 0.8, 0.6
#: Causes that say no more than that a rank computes longer: what is known of its node, device or host may say why.
COMPUTING: tuple[Cause, ...] = ("worker_compute", "unknown")


class Verdict(NamedTuple):
    """A cause, the share of the excess it explains, and what was cleared, with the number."""

    cause: Cause
    share: float
    cleared: list[str]


def judge(parts: Mapping[str, float], has_loader: bool, least_share: float, named: Cause = "unknown") -> Verdict:
    """The cause of an excess.

    >>> judge({"data": 0.01, "forward": 0.08, "backward": 0.01}, has_loader=True, least_share=0.5).cause
    'worker_compute'

    Args:
        parts: excess over the peers, by phase and overlay, in one unit; negative where the rank was faster.
        has_loader: the job reads its data through a DataLoader.
        least_share: share of the whole excess that a cause must explain.
        named: the cause that has been told of it so far.
    """
    whole = sum(max(value, 0.0) for name, value in parts.items() if name not in OVERLAYS)
    if whole <= 0.0:
        return Verdict("unknown", 0.0, [])
    cleared: list[str] = []
    for cause, row in CAUSES.items():
        if not row.parts:
            continue
        share = min(sum(max(parts.get(name, 0.0), 0.0) for name in row.speaking(has_loader)) / whole, 1.0)
        if share >= least_share:
            return _behind(Verdict(cause, share, cleared), parts, whole, named)
        cleared.append(f"{cause.replace('_', ' ')}: {share:.0%} of the extra time")
    return _behind(Verdict("unknown", 0.0, cleared), parts, whole, named)


def _behind(verdict: Verdict, parts: Mapping[str, float], whole: float, named: Cause) -> Verdict:
    """``verdict``, or what stands behind it where that is told: no device that waits for its host is slow by itself."""
    for cause, row in CAUSES.items():
        told = parts.get(row.behind_computing, 0.0)
        if not told:
            continue
        share = min(max(told, 0.0) / whole, 1.0)
        if share < (_STILL_BEHIND if cause == named else _BEHIND):
            return verdict._replace(
                cleared=[*verdict.cleared, f"{cause.replace('_', ' ')}: {share:.0%} of the extra time"]
            )
        cleared = [*verdict.cleared, f"worker compute: in {share:.0%} of the extra time the device had nothing to do"]
        return Verdict(cause, share, cleared) if verdict.cause in COMPUTING else verdict._replace(cleared=cleared)
    return verdict


def standing_out(part: str) -> Cause | None:
    """The cause that a quiet part of the work speaks for where it alone stands out of the noise."""
    return next((cause for cause, row in CAUSES.items() if row.stands_out == part), None)


def slowing_all(part: str, host_bound: float = 0.0) -> Cause:
    """The cause of a slowdown of the whole job in which ``part`` of the step has grown most.

    ``host_bound``: the share of the slowdown in which the devices waited for their hosts.

    >>> slowing_all("data"), slowing_all("forward"), slowing_all("forward", 0.9)
    ('input_pipeline', 'unknown', 'host_bound')
    """
    shown = next((cause for cause, row in CAUSES.items() if row.slows_all and part in row.parts), None)
    return shown or ("host_bound" if host_bound >= _BEHIND else "unknown")
