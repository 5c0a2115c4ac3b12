"""When a step of a job was made, from the windows that the session holds.

Rule of this file: pure and bounded. A step before the first window is one from before the session: its start counts.
"""

from bisect import bisect_right

from paceline.events import JobWindow

#: Windows that are kept of all jobs: what is over is not.
MOST_WINDOWS = 200_000


class StepTimes:
    """The first step, start and length of each job's windows.

    >>> StepTimes().time_s("j", 0, 7) is None
    True
    """

    def __init__(self) -> None:
        self._windows: dict[tuple[str, int], dict[int, tuple[float, float, int]]] = {}
        self._count = 0

    def add(self, window: JobWindow) -> None:
        """Note a window; of those that begin with the same step the shortest counts."""
        if self._count >= MOST_WINDOWS:
            return
        held = self._windows.setdefault((window.job, window.attempt), {})
        steps = max(1, window.last_step - window.first_step + 1)
        known = held.get(window.first_step)
        self._count += known is None
        if known is None or window.length_s < known[1]:
            held[window.first_step] = window.start_s, window.length_s, steps

    def time_s(self, job: str, attempt: int, step: int) -> float | None:
        """When the step was made; None of a job without windows, or of no step."""
        held = self._windows.get((job, attempt))
        if not held or step < 0:
            return None
        firsts = sorted(held)
        at = bisect_right(firsts, step) - 1
        if at < 0:
            return held[firsts[0]][0]
        start_s, length_s, steps = held[firsts[at]]
        return start_s + length_s * min(1.0, (step - firsts[at]) / steps)
