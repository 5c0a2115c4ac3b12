"""What an analysis tells in a file, for a process beside it: findings as they come, and the panel at the end.

Rule of this file: whoever reads it is never waited for. One JSON object a line, ``{"finding": …}`` or ``{"panel": …}``;
a disk that refuses, or too much, ends it, and the analysis goes on.
"""

import json
import os

from paceline import wire
from paceline.events import Finding

#: Whatever is found, the file grows no larger.
MOST_BYTES = 64 * 1024 * 1024


class ToldFile:
    """The file at ``path``, which is made again.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._left = MOST_BYTES

    def finding(self, finding: Finding) -> None:
        """Tell a revision of a finding."""
        self._append(b'{"finding":' + wire.encode(finding) + b"}\n")

    def panel(self, text: str) -> None:
        """Tell what is shown at the end."""
        self._append(json.dumps({"panel": text}).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        if len(line) > self._left:
            return
        try:
            self._left -= os.write(self._descriptor, line)
        except OSError:
            self._left = 0
