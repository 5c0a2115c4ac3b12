"""How one run is measured: the words that go with a job to where it runs.

Rule of this file: pure data. It stands in the job's command line, so nothing secret may be in it.
"""

from pathlib import Path

import msgspec

from paceline.decoders import json_decoder

from .estimate import LEAST_BLOCKS, LEAST_STEPS

#: Steps of which less is never enough.
LEAST = LEAST_BLOCKS * LEAST_STEPS
#: What follows the measuring, at most: from SIGTERM to SIGKILL of the training, and the analysis.
TERM_S, ANALYSE_S = 20.0, 180.0


class Measuring(msgspec.Struct, frozen=True, kw_only=True):
    """What is enough, and what is too long. ``folder`` is the job's, where that can be written on its node."""

    job: str
    folder: str
    nodes: int = 1
    warm_up: int
    seconds: float | None = None
    steps: int | None = None
    start_s: float
    hang_s: float
    limit_s: float

    def enough(self, steps: int, seconds: float) -> bool:
        """Whether so many steps after the warm-up, which took so long, are what was asked for."""
        if steps < LEAST:
            return False
        return steps >= self.steps if self.steps is not None else seconds >= (self.seconds or 0.0)

    def nearly(self, steps: int, seconds: float) -> bool:
        """Whether they are half of it: all that a node has whose peers ended first."""
        return steps >= LEAST and self.enough(2 * steps, 2 * seconds)

    def encoded(self) -> str:
        """As one word of a command line."""
        return msgspec.json.encode(self).decode()


def decoded(word: str) -> Measuring:
    """The plan of a command line.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return json_decoder(Measuring).decode(word)


def recording(folder: Path, node_rank: int) -> Path:
    """Where a node's recording is."""
    return folder / f"recording-{node_rank}.jsonl"
