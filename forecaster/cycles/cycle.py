"""The answer of this package: a period, or why there is none."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cycle:
    """A job's cycle.

    Attributes:
        period_s: seconds from one cycle to the next; None is *no stable period*, which ``note`` explains.
        confidence: 0-1, how sure the period is; 0.0 where there is none.
        next_s: seconds after the last sample or event until the next cycle's mark (its event, or the deepest dip or
            highest peak of the signal); None where unknown.
        drift_ratio: how much longer (+) or shorter (-) the cycles became from the first third of the record that
            was used to its last, relative to the period; None where it was not measured.
        note: one line: where the period comes from, or why there is none.
    """

    period_s: float | None
    confidence: float
    next_s: float | None
    drift_ratio: float | None
    note: str


def no_cycle(note: str) -> Cycle:
    """*No stable period*, and why."""
    return Cycle(period_s=None, confidence=0.0, next_s=None, drift_ratio=None, note=note)
