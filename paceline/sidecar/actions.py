"""What a sidecar does when it is asked to: by the name of the action.

Rule of this file: pure; the clock is an argument. An action changes the batcher, in the thread that owns it.
"""

from collections.abc import Callable, Mapping

from paceline.command_rules import Action, RefusedError, job_target
from paceline.events import CAPTURE, FULL_ROWS, CaptureAsked, FullRows
from paceline.sidecar.batch import Batcher
from paceline.sidecar.captures import Captures

OFF = "captures are off in this run: start it with `paceline run --captures` (or PACELINE_CAPTURES=1)"


def actions(batcher: Batcher, clock: Callable[[], float], captures: Captures | None) -> Mapping[str, Action]:
    """The actions on the jobs of ``batcher``; ``clock`` is that of its ``tick``.

    ``captures`` is None where the run was started without them.
    """

    def full_rows(target: str, wish: FullRows) -> str:
        attempts = [key for key in batcher.ranks() if job_target(key[0]) == target]
        if not attempts:
            raise LookupError("none of its ranks is here any more")
        for key in attempts:
            batcher.send_full_rows(key, clock() + wish.seconds)
        return f"every collective is sent for {wish.seconds:g} s"

    def capture(target: str, wish: CaptureAsked) -> str:
        asked = {int(rank) for rank in wish.ranks.split(",")}
        attempts = {key: ranks for key, ranks in batcher.ranks().items() if job_target(key[0]) == target}
        here = sorted({rank for ranks in attempts.values() for rank in ranks})
        for key, ranks in attempts.items():
            if mine := sorted(asked & set(ranks)):
                if captures is None:
                    raise RefusedError(OFF)
                try:
                    captures.ask(key, mine, wish.capture, wish.steps)
                except (ValueError, OSError) as error:
                    raise RefusedError(str(error)) from None
                return f"{wish.steps} steps of ranks {', '.join(map(str, mine))} are being captured"
        raise RefusedError(f"none of these ranks is here; here are {', '.join(map(str, here[:20]))}")

    return {CAPTURE: Action(CaptureAsked, capture), FULL_ROWS: Action(FullRows, full_rows)}
