"""What a collector does when it is asked to: by the name of the action.

Rule of this file: pure; the clock is an argument. An action changes the pace, in the thread that owns it.
"""

from collections.abc import Callable, Mapping

from paceline.command_rules import Action, RefusedError
from paceline.events import SAMPLE, Sample

from .pace import Pace, TooManyError


def actions(pace: Pace, clock: Callable[[], float], floor_s: float = 0.0) -> Mapping[str, Action]:
    """The actions on ``pace``; where GPUs are told no more often than every ``floor_s``, answers say so."""

    def sample(target: str, wish: Sample) -> str:
        now_s = clock()
        try:
            pace.ask(wish.lease, wish.interval_s, wish.seconds, adaptive=wish.adaptive, now_s=now_s)
        except TooManyError as error:
            raise RefusedError(str(error)) from None
        said = f"samples every {pace.interval_s(now_s):g} s"
        if wish.adaptive:
            said += f", every {wish.interval_s:g} s while something changes"
        if floor_s > wish.interval_s:
            said += f"; GPUs every {floor_s:g} s, as the exporter tells them"
        return f"{said}; the request is active for {wish.seconds:g} s"

    return {SAMPLE: Action(Sample, sample)}
