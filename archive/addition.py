"""Rows that another source than the bus adds to an archive, on their way to whoever writes it.

Rule of this file: data, and no more.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from paceline.history.manifest import DataFile
from paceline.history.table import Table

from .buffers import Place


class SourceError(Exception):
    """A source that cannot be read now: which, why, and the mend."""


class Addition(NamedTuple):
    """Rows by the file that they go to, and the files that they stand in the place of.

    ``filled``: they are windows of five minutes for times of which the bus has told nothing.
    """

    parts: Sequence[tuple[Place, Table, pa.Table]]
    instead_of: Sequence[DataFile] = ()
    filled: bool = False

    @property
    def rows(self) -> int:
        """How many rows they are."""
        return sum(rows.num_rows for _, _, rows in self.parts)
