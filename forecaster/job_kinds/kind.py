"""The answer of this package: a kind, and how sure it is."""

from collections.abc import Mapping
from dataclasses import dataclass

#: What a job can be; ``unknown`` is the answer when none of these is likely enough.
JOB_KINDS = ("training", "inference", "interactive", "data_prep", "batch_inference", "idle")
UNKNOWN = "unknown"


@dataclass(frozen=True)
class JobKindEstimate:
    """A job's kind.

    Attributes:
        kind: one of ``KINDS`` or ``unknown``.
        probability: of the likeliest kind, 0-1; where ``kind`` is unknown, still that of the likeliest.
        probabilities: one a kind, adding up to 1; empty where nothing could be said.
        note: one line: what it rests on, or why it is unknown.
    """

    kind: str
    probability: float
    probabilities: Mapping[str, float]
    note: str


def unknown(note: str, probabilities: Mapping[str, float] | None = None) -> JobKindEstimate:
    """No kind is likely enough, or nothing was measured."""
    chances = dict(probabilities or {})
    return JobKindEstimate(UNKNOWN, max(chances.values(), default=0.0), chances, note)
