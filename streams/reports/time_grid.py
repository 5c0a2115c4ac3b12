"""Rows x time in a bounded number of columns, however long it lasts: a column gets twice as long instead.

Rule of this file: pure and bounded. A value counts with its weight; a cell that nothing was told of is NaN, never 0.
"""

import math
from typing import Any

import numpy as np

COLUMNS = 240
Matrix = np.ndarray[Any, np.dtype[np.float64]]


class TimeGrid:
    """Weighted means of rows x time. What comes before the first start counts in the first column.

    >>> grid = TimeGrid(1.0, columns=2)
    >>> for second in range(4):
    ...     grid.add(0, float(second), value=second, weight=1.0)
    >>> grid.column_s, grid.means().tolist()
    (2.0, [[0.5, 2.5]])
    """

    def __init__(self, column_s: float, columns: int = COLUMNS) -> None:
        self.column_s = column_s
        self.columns = columns
        self.start_s: float | None = None
        self.used = 0
        self._rows = 0
        self._sum: Matrix = np.zeros((1, columns))
        self._weight: Matrix = np.zeros((1, columns))

    def add(self, row: int, time_s: float, value: float, weight: float) -> None:
        """Count ``value`` of ``row`` in, at ``time_s``."""
        column = self._column(time_s)
        if row >= len(self._sum):
            more = max(row + 1 - len(self._sum), len(self._sum))
            self._sum, self._weight = (np.pad(one, ((0, more), (0, 0))) for one in (self._sum, self._weight))
        self._rows = max(self._rows, row + 1)
        self._sum[row, column] += value * weight
        self._weight[row, column] += weight

    def reach(self, time_s: float) -> None:
        """Have columns until ``time_s``, also where nothing was reported."""
        if self.start_s is not None and time_s > self.start_s + self.used * self.column_s:
            self._column(math.nextafter(time_s, self.start_s))

    def _column(self, time_s: float) -> int:
        if self.start_s is None:
            self.start_s = time_s
        column = int(max(time_s - self.start_s, 0.0) // self.column_s)
        while column >= self.columns:
            self._halve()
            column //= 2
        self.used = max(self.used, column + 1)
        return column

    def _halve(self) -> None:
        """Join columns by twos."""
        half = (self.columns + 1) // 2
        for table in (self._sum, self._weight):
            padded = np.pad(table, ((0, 0), (0, 2 * half - self.columns)))
            table[:, :half] = padded[:, ::2] + padded[:, 1::2]
            table[:, half:] = 0.0
        self.column_s *= 2
        self.used = (self.used + 1) // 2

    def means(self) -> Matrix:
        """Rows x used columns; NaN where nothing was reported."""
        total, weight = self._sum[: self._rows, : self.used], self._weight[: self._rows, : self.used]
        means: Matrix = np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0)
        return means
