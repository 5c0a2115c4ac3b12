"""A line of the log that comes again and again is written seldom, with how often it came.

Rule of this file: other people's loggers only, and a line counts as the same whatever its numbers. What our own modules
say names a job or a partition, and is written each time.
"""

import logging
import re
from dataclasses import dataclass

#: The first wait until a line is written again; each next one is twice as long, up to the last.
FIRST_S, LAST_S = 30.0, 600.0
#: Lines that are remembered; beyond that all are forgotten, and each is written once more.
MOST_LINES = 500
OURS = ("paceline", "annotator", "archive", "streams", "forecaster", "ui", "collectors", "__main__")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass
class _Line:
    again_s: float
    wait_s: float = FIRST_S
    held: int = 0


class RepeatedLines(logging.Filter):
    """Lets a line through once, and then ever more seldom for as long as it keeps coming."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[tuple[str, str], _Line] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether ``record`` is written; its text then tells how many were not."""
        if record.name.partition(".")[0] in OURS:
            return True
        key = (record.name, _NUMBER.sub("#", record.getMessage()))
        line = self._lines.get(key)
        if line is None or record.created > line.again_s + line.wait_s:  # New, or it was quiet since.
            if len(self._lines) >= MOST_LINES:
                self._lines.clear()
            self._lines[key] = _Line(record.created + FIRST_S)
            return True
        if record.created < line.again_s:
            line.held += 1
            return False
        record.msg, record.args = f"{record.getMessage()} ({line.held} more like it)", None
        line.wait_s = min(LAST_S, line.wait_s * 2)
        line.again_s, line.held = record.created + line.wait_s, 0
        return True
