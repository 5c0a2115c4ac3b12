"""How high the comb climbs by chance: noise of the same length and memory has no cycle, yet something in it is best.

Rule of this file: a table and how to read it. ``python -m experiments.forecasting.cycle_chance`` makes the table.
"""

from collections.abc import Sequence

import numpy as np

#: Samples of the record, and the correlation of each with the next.
LENGTHS: Sequence[float] = (60, 150, 400, 1200, 3000)
MEMORIES: Sequence[float] = (0.0, 0.3, 0.6, 0.8, 0.9, 0.95, 0.99)
#: Fewer cycles than this in the part that shows them are few. There are fewer such periods to choose among by chance.
FEW_CYCLES = 6.0
#: Of noise of that length (a row) and memory (a column), 2.25 of 100 records have a period of few cycles above this …
FEW: Sequence[Sequence[float]] = (
    (3.66, 4.19, 4.38, 4.13, 3.94, 3.82, 3.64),
    (3.51, 4.26, 4.34, 4.43, 4.22, 4.07, 4.01),
    (3.64, 3.99, 4.41, 4.35, 4.46, 4.50, 3.84),
    (3.82, 4.05, 4.27, 4.31, 4.43, 4.68, 4.22),
    (3.83, 4.06, 4.19, 4.36, 4.32, 4.45, 4.58),
)
#: … and 2.25 one of many cycles above this, which is nowhere less than what few need.
MANY: Sequence[Sequence[float]] = (
    (4.25, 4.53, 4.38, 4.13, 3.94, 3.82, 3.64),
    (4.83, 5.37, 5.48, 4.55, 4.22, 4.07, 4.01),
    (4.40, 5.09, 5.69, 5.26, 4.79, 4.50, 3.84),
    (4.15, 4.69, 5.31, 5.87, 5.60, 5.08, 4.22),
    (4.16, 4.57, 5.12, 5.37, 5.56, 5.61, 4.58),
)
#: Never less than this: noise of rare dips or bursts climbs higher than the normal noise of the tables.
LEAST = 4.25


def critical_sigmas(samples: int, memory: float, cycles: float) -> float:
    """The height, in standard deviations, that a period must reach to be more than chance.

    Between the table's lengths (by their logarithm) and memories by straight lines, beyond them by the nearest.
    """
    table = FEW if cycles < FEW_CYCLES else MANY
    row = [float(np.interp(memory, MEMORIES, levels)) for levels in table]
    return max(LEAST, float(np.interp(np.log(max(samples, 1)), np.log(LENGTHS), row)))
