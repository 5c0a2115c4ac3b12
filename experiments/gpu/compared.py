"""What Paceline told beside what the script timed itself.

Rule of this file: pure.
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from experiments.gpu.recorded import Row

#: A phase shorter than this share of its step is measured against this share.
LEAST_SHARE = 0.05


class Difference(NamedTuple):
    """How far what was told of a phase is from the truth, as a share of the phase; both in seconds."""

    phase: str
    told_s: float
    true_s: float
    error: float

    @property
    def words(self) -> str:
        """Both numbers.

        >>> Difference("forward", 0.0102, 0.01, 0.02).words
        'forward 10.20 ms (own 10.00)'
        """
        return f"{self.phase} {self.told_s * 1e3:.2f} ms (own {self.true_s * 1e3:.2f})"


def differences(
    rows: Sequence[Row], truth: Sequence[dict[str, float]], phases: dict[str, tuple[str, ...]], steps: range
) -> list[Difference]:
    """For each of ``phases`` (as the script names it, with the phases that Paceline tells of it) the median difference
    in ``steps``; ``rows`` are one rank's.

    >>> rows = [Row(0, step, 0.0, 1.0, {"forward": 0.11}) for step in range(3)]
    >>> (one,) = differences(rows, [{"step": 1.0, "forward": 0.1}] * 3, {"forward": ("forward",)}, range(3))
    >>> one.words, round(one.error, 6)
    ('forward 110.00 ms (own 100.00)', 0.1)

    Raises:
        StatisticsError: no step of ``steps`` was told.
    """
    pairs = [(row, truth[row.step]) for row in rows if row.step in steps and row.step < len(truth)]
    return [_difference(name, told, pairs) for name, told in phases.items()]


def _difference(name: str, told: tuple[str, ...], pairs: list[tuple[Row, dict[str, float]]]) -> Difference:
    told_s = [sum(row.phases.get(phase, 0.0) for phase in told) for row, _ in pairs]
    true_s = [true.get(name, 0.0) for _, true in pairs]
    apart_s = statistics.median(a - b for a, b in zip(told_s, true_s, strict=True))
    least_s = LEAST_SHARE * statistics.median(true["step"] for _, true in pairs)
    middle_s = statistics.median(true_s)
    return Difference(name, middle_s + apart_s, middle_s, abs(apart_s) / max(middle_s, least_s))
