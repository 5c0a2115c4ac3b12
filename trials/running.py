"""Runs a trial: asks the decision what comes next, starts it, and tells the journal what came of it.

Rule of this file: a loop, and no rule of the trial. It looks a few times a second whether it is asked to end, so no
signal interrupts anything in the middle; however it ends, all jobs have ended.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from .candidates import Candidates
from .executor import Executor, ExecutorError, Job
from .halving import Halving, Place
from .jobs import job
from .journal import Journal
from .outcomes import OUTCOMES, run_of, told_of
from .result import Told
from .spec import Spec

LOOK_S = 0.2


class Running:
    """A trial that runs. ``tell`` is given a sentence for a person; ``stop`` is set where all is to end.

    ``show`` is given a line on what runs now, at every look: whoever reads it wants the newest alone.
    """

    def __init__(
        self,
        spec: Spec,
        command: tuple[str, ...],
        candidates: Candidates,
        executor: Executor,
        journal: Journal,
        halving: Halving,
        paceline: tuple[str, ...],
        folder: Path,
        tell: Callable[[str], None],
        stop: threading.Event,
        show: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._spec, self._command, self._folder, self._paceline = spec, command, folder, paceline
        self._placements = {one.number: one for one in candidates.possible}
        self._candidates = candidates
        self._executor, self._journal, self.halving = executor, journal, halving
        self._tell, self._show, self._stop = tell, show, stop
        self._jobs: dict[Place, tuple[Job, float]] = {}
        self._waiting: dict[Place, str] = {}

    def run(self) -> bool:
        """Until all is decided, or we are asked to end: whether it is decided.

        Raises:
            ExecutorError, JournalError: it cannot go on; all jobs have ended.
        """
        try:
            while not self.halving.done and not self._stop.is_set():
                self._fill()
                self._look()
                self._stop.wait(LOOK_S)
        except ExecutorError:
            if not self._stop.is_set():
                raise
        finally:
            if self._stop.is_set():
                self._tell("asked to end: what runs is ended, what was measured is kept")
            self._executor.close()
        return self.halving.done

    def _fill(self) -> None:
        while len(self._jobs) < self._executor.parallel and not self._stop.is_set():
            place = self.halving.next([*self._jobs])
            if place is None:
                return
            made = job(
                self._spec, place, self._placements[place.placement], self._command, self._folder, self._paceline
            )
            self._executor.start(made)
            self._jobs[place] = made, time.monotonic()

    def _look(self) -> None:
        for place, (made, began) in list(self._jobs.items()):
            if not self.halving.asks(place):
                self._executor.stop(made)
                del self._jobs[place]
                continue
            ended = self._executor.poll(made)
            if ended is None:
                self._wait(place, made)
                self._show(self._now_sentence(place, made, time.monotonic() - began))
                continue
            del self._jobs[place]
            self._waiting.pop(place, None)
            told = told_of(place, made, ended, self._placements[place.placement].samples, time.monotonic() - began)
            rung = self.halving.rung
            self._journal.add(told)
            self.halving.update(run_of(told))
            self._tell(self._sentence(told))
            if self.halving.rung != rung or self.halving.done:
                self._tell(self._cut_sentence(rung))

    def _wait(self, place: Place, made: Job) -> None:
        """Say once why a job waits."""
        why = self._executor.waits(made)
        if why and why != self._waiting.get(place):
            self._tell(f"{made.id} waits: {why}")
        self._waiting[place] = why

    def _head(self, place: Place | Told) -> str:
        name = self._candidates.label(self._placements[place.placement])
        return f"rung {place.rung + 1}, run {place.repeat + 1}: {name}:"

    def _now_sentence(self, place: Place, made: Job, since_s: float) -> str:
        how = "waits" if self._waiting[place] else "runs"
        about = f"; about {made.expected_s:.0f} s expected" if self._spec.seconds is not None and how == "runs" else ""
        return f"{self._head(place)} {how}, {since_s:.0f} s{about}"

    def _sentence(self, told: Told) -> str:
        head = self._head(told)
        if told.outcome != "measured":
            last = f"; its last line: {told.said.splitlines()[-1].strip()[:160]}" if told.said.strip() else ""
            out = self.halving.out(told.placement)
            return f"{head} {OUTCOMES[told.outcome]}: {told.reason}{last}; {'out' if out else 'tried once more'}"
        interval = self.halving.estimate(told.placement)
        unit = "samples/s" if self.halving.counts_samples else "steps/s"
        so_far = "" if interval is None else f"{interval.value:.4g} {unit} ({interval.low:.4g} to {interval.high:.4g})"
        return f"{head} {so_far}, {told.steps} steps in {told.took_s:.0f} s"

    def _cut_sentence(self, rung: int) -> str:
        left = len(self.halving.alive)
        return f"rung {rung + 1} is over: {left} of {len(self._placements)} placements left"
