"""NCCL Inspector beside a sidecar: its files are looked into, and what they tell goes to the batcher.

Rule of this file: it joins the files, the matching and the batcher, is called from the sidecar's own thread, and says
each trouble once. Nothing it meets ends the timing of the ranks.
"""

import math
from collections.abc import Callable, Sequence

from paceline.sidecar.batch import Batcher
from paceline.sidecar.nccl_files import NcclFiles
from paceline.sidecar.nccl_times import Key, NcclTimes
from paceline.sidecar.rank_rows import StepRow

#: Between two looks; and looks at the end, for what the ranks wrote last.
LOOK_EVERY_S = 0.25
LAST_LOOKS = 8


class NcclInspector:
    """What ``files`` tell goes to ``batcher``, as the ranks that join have it."""

    def __init__(self, files: NcclFiles, batcher: Batcher, say: Callable[[str], None]) -> None:
        self._files = files
        self._times = NcclTimes()
        self._batcher = batcher
        self._say = say
        self._look_at = 0.0
        self._said: set[str] = set()

    def join(self, pid: int, key: Key, rank: int) -> None:
        """The process ``pid`` is a rank."""
        self._times.join(pid, key, rank)

    def append_steps(self, pid: int, rows: Sequence[StepRow]) -> None:
        """Steps that it has told."""
        self._times.append_steps(pid, rows)

    def tick(self, now_s: float) -> None:
        """Look, where it is time to (``now_s``: any clock that does not go back)."""
        if now_s < self._look_at:
            return
        self._look_at = now_s + LOOK_EVERY_S
        self._look(now_s)

    def close(self, now_s: float) -> None:
        """Look for the last time, and say what was left out."""
        for left in reversed(range(LAST_LOOKS)):
            if self._look_at < math.inf:
                self._look(now_s, last=left == 0)
        files = self._files
        for reason, count in sorted(files.dropped().items()):
            self._say(f"NCCL Inspector: left out {count} {reason}")
        if files.bytes_skipped:
            self._say(f"NCCL Inspector: {files.bytes_skipped >> 20} MiB were written faster than they are read")
        if self._times.pids() and not files.found and not files.refused:
            self._say(
                "NCCL Inspector wrote nothing beside the ranks of this node: NCCL was not used, or did not load it; "
                "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,PROFILE tells"
            )
        files.close()

    def _look(self, now_s: float, *, last: bool = False) -> None:
        try:
            for call in self._files.look(self._times.pids()):
                self._times.append(call, now_s)
            for key, rank, row in self._times.take(now_s, everything=last):
                self._batcher.update_nccl(key, rank, row)
        except Exception as error:  # Whatever stands in a file must not end the timing of the ranks.
            self._look_at = math.inf
            self._say(f"NCCL Inspector is no longer read: {type(error).__name__}: {error}; training goes on")
        for name, why in self._files.refused.items():
            self._say_once(f"NCCL Inspector: {name} is not read: {why}")
        if self._files.keeps_read:
            self._say_once("NCCL Inspector: its files stay until the end, for their file system gives no part back")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)
