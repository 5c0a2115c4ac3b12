"""What a window of ticks adds up to, for the detectors that judge the job window by window.

Rule of this file: data and names of rows; no judgement is made here.
"""

from typing import NamedTuple

import numpy as np

from paceline.events import OP_INDEX

from ..robust import Array
from .job_episodes import JudgedWindow

#: Rows of ``WindowSums.seconds``.
FORWARD, BACKWARD, DATA, PREPARE = (OP_INDEX[name] for name in ("forward", "backward", "data", "prepare"))
COMPUTE = (FORWARD, BACKWARD)
#: Rows of ``WindowSums.pairs``: over the pairs of forward and backward times of one rank.
PAIR_SUMS = ("count", "f", "b", "ff", "bb", "fb")


class WindowSums(NamedTuple):
    """Sums of one window, a column a rank: ``seconds`` of each op, ``pairs`` of forward and backward times.

    ``held_back_s`` is by how much all its steps would be shorter if the data were cut evenly.
    """

    window: JudgedWindow
    steps: int
    seconds: Array
    pairs: Array
    held_back_s: float

    @property
    def compute(self) -> Array:
        """Each rank's seconds in forward and backward."""
        return np.asarray(self.seconds[list(COMPUTE)].sum(axis=0))

    def lost_ratio(self, lost_s: float) -> float:
        """``lost_s`` of this window as a share of the window without them."""
        return lost_s / max(self.window.span_s - lost_s, 1e-9)
