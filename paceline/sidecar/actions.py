"""What a sidecar does when it is asked to: by the name of the action.

Rule of this file: pure; the clock is an argument. An action changes the batcher, in the thread that owns it.
"""

from collections.abc import Callable, Mapping

from paceline.command_rules import Action, job_target
from paceline.events import FULL_ROWS, FullRows
from paceline.sidecar.batch import Batcher


def actions(batcher: Batcher, clock: Callable[[], float]) -> Mapping[str, Action]:
    """The actions on the jobs of ``batcher``; ``clock`` is that of its ``tick``."""

    def full_rows(target: str, wish: FullRows) -> str:
        attempts = [key for key in batcher.ranks() if job_target(key[0]) == target]
        if not attempts:
            raise LookupError("none of its ranks is here any more")
        for key in attempts:
            batcher.send_full_rows(key, clock() + wish.seconds)
        return f"every collective is sent for {wish.seconds:g} s"

    return {FULL_ROWS: Action(FullRows, full_rows)}
