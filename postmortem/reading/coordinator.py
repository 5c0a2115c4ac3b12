"""What JAX's coordinator says of processes: of which it has no heartbeat, and which did not come to a barrier.

Rule of this file: pure, a line at a time. A sentence ends with a list, one process a line, which is cut off at twenty;
older versions say a heartbeat's in one sentence each. JAX counts processes, of which each may have several devices.
"""

import re
from collections.abc import Iterator

from ..evidence import Failure, Source

_SENTENCES = {"(stopped sending heartbeats):": "no_heartbeat", "imed out task names:": "not_at_barrier"}
_STALE = " heartbeat timeout. This indicates that"
WORDS = (*_SENTENCES, _STALE)
_TASK = re.compile(r"/job:\w{1,40}/replica:\d{1,4}/task:(\d{1,7})\b")


class TaskList:
    """The lists of one voice."""

    def __init__(self) -> None:
        self.open = False
        self._name = ""

    def line(self, text: str, source: Source) -> Iterator[Failure]:
        """Take a line: a sentence, or what it lists."""
        if _STALE in text and (found := _TASK.search(text[: text.index(_STALE)], max(0, text.index(_STALE) - 100))):
            yield _of(found, "no_heartbeat", source)
            return
        rest = text.strip()
        for sentence, name in _SENTENCES.items():
            if sentence in text:
                self.open, self._name = True, name
                rest = text.rpartition(sentence)[2].strip()
                if not rest:
                    return
        found = _TASK.fullmatch(rest) if self.open else None
        self.open = found is not None
        if found:
            yield _of(found, self._name, source)


def _of(found: re.Match[str], name: str, source: Source) -> Failure:
    return Failure(source=source, role="waiter", name=name, text=found[0], ranks=(int(found[1]),))
