"""A target: something that reads foreign bytes, and what it may answer to bad ones.

Rule of this file: it knows no target. Whatever a target does but return or raise one of its documented refusals, in
``MOST_S`` seconds and ``MOST_BYTES`` bytes, is a finding.
"""

import resource
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

#: Seconds of the processor that one input may take.
MOST_S = 2.0
#: What one input may add to the largest memory that the process ever had: a snapshot alone may unpack to half of it.
MOST_BYTES = 1024**3
ROOT = Path(__file__).parents[2]
#: Real messages, and inputs that were findings once: a folder a target.
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
#: How its inputs are built, so that a change of one value leaves a message that can still be read.
Form = Literal["bytes", "json", "json lines", "msgpack"]


class BoundError(Exception):
    """An input took longer, or more memory, than any may."""


@dataclass(frozen=True)
class Target:
    """``feed`` is given an input; it may raise ``refusals``. ``seeds`` makes real inputs that it reads."""

    name: str
    feed: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    refusals: tuple[type[Exception], ...] = ()
    form: Form = "bytes"
    longest: int = 4096
    #: Its share of the time, beside the others'.
    share: float = 1.0

    def check(self, data: bytes) -> bool:
        """Give it ``data``; whether it was taken, not refused.

        Raises:
            BoundError: that took too long, or too much memory.
            BaseException: anything that the target's documentation does not name.
        """
        began_s, before = time.process_time(), _peak_bytes()
        try:
            self.feed(data)
            taken = True
        except self.refusals:
            taken = False
        took_s, more = time.process_time() - began_s, _peak_bytes() - before
        if took_s > MOST_S:
            raise BoundError(f"{took_s:.1f} s of processor; {MOST_S:g} s are allowed")
        if more > MOST_BYTES:
            raise BoundError(f"{more / 2**20:.0f} MiB of memory; {MOST_BYTES / 2**20:.0f} MiB are allowed")
        return taken

    def corpus(self) -> list[Path]:
        """Stored inputs, by name."""
        return sorted(path for path in (CORPUS / self.name).glob("*") if path.is_file())


def place_of(error: BaseException) -> str:
    """What went wrong and where in our code: two inputs with the same place are one finding."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(ROOT)]
    ours = [frame for frame in frames if ".venv" not in frame.filename and "fuzzing" not in frame.filename]
    where = ours or frames
    at = f"{Path(where[-1].filename).relative_to(ROOT)}:{where[-1].lineno}" if where else "?"
    return f"{type(error).__name__} at {at}"


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
