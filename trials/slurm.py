"""A trial's jobs on Slurm: submitted by sbatch, asked for by scontrol, ended by scancel.

Rule of this file: one job of the trial is one job of Slurm, however often the trial is killed and goes on. So a job is
looked for, by the number in its folder and by its name and comment, before it is submitted, and its number counts only
with that comment, because Slurm's numbers come again when its state is lost. The folder lies on a disk that all nodes
share, and may show what was written a moment late.
"""

import contextlib
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar

from paceline.backoff import Backoff

from . import job_folder, on_node, slurm_script, slurm_states
from .executor import Ended, ExecutorError, Job
from .patience import Patience, Sleep
from .slurm_client import AwayError, RefusedError, asked
from .slurm_states import Told

How = Literal["ended", "killed", "gone"]
T = TypeVar("T")
#: How often one job is asked for at most; how long a job may take to go by itself, and after that by force.
ASK_S = 1.0
#: How long one asks Slurm again that is away, where a job is to end: somebody waits for it.
ENDING_S = 60.0
_WAYS: tuple[tuple[tuple[str, ...], float], ...] = (((), 60.0), (("--signal=KILL", "--full"), 120.0))


class _Held:
    """What is known of a job that was started: Slurm's number of it, and since when what is so."""

    def __init__(self, job: Job, now_s: float) -> None:
        self.job, self.number, self.waits = job, "", ""
        self.waits_since_s, self.asked_s = now_s, -ASK_S
        self.away_since_s: float | None = None
        self.over_since_s: float | None = None
        self.ended = False


#: What a person does about a batch script that Slurm refuses: everything in it that may not fit is in the spec.
FITS = "fix: let executor.slurm in the spec fit this cluster: sinfo -o '%P %D %c %m %G' lists its partitions and nodes"


class SlurmExecutor:
    """Runs jobs on the cluster that ``sbatch`` here belongs to."""

    def __init__(
        self,
        options: Mapping[str, Any],
        environ: Mapping[str, str] | None = None,
        asked: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep | None = None,
    ) -> None:
        """Take ``options`` of the spec, with the trial's ``name`` and ``folder``; nothing is asked or started yet.
        ``asked`` is set where all is to end.

        Raises:
            ExecutorError: an option is not allowed.
        """
        self.options = slurm_script.read(options)
        self.parallel = self.options.parallel
        self._environ = os.environ if environ is None else environ
        self._asking = slurm_script.environment(self.options, {}, self._environ)
        self._clock, self._patience = clock, Patience(asked, clock, sleep)
        self._python = self.options.python or sys.executable
        self._jobs: dict[str, _Held] = {}

    def manifest(self, job: Job) -> str:
        """The batch script, and what each node is told."""
        names = ", ".join(sorted(job.environ)) or "nothing"
        told = f"# {slurm_script.TOLD}: {slurm_script.told(job)}\n# in the environment besides yours: {names}\n"
        return slurm_script.script(self.options, job, self._python) + told

    def start(self, job: Job) -> None:
        """Submit ``job``, or find it where an earlier run of the trial has.

        Raises:
            ExecutorError: it is refused, or Slurm was away for all of ``patience_s``.
        """
        script, told = slurm_script.script(self.options, job, self._python), slurm_script.told(job)
        held = self._jobs[job.id] = _Held(job, self._clock())
        if self._was_started(held, script, told):
            return
        job.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        job_folder.cleared(job.folder, slurm_script.STATUS, slurm_script.NUMBER, slurm_script.LOG)
        shutil.copyfile(on_node.__file__, job.folder / slurm_script.LAUNCHER)
        (job.folder / slurm_script.TOLD).write_text(told)
        (job.folder / slurm_script.SCRIPT).write_text(script)
        self._with_patience(lambda: self._submit(held))

    def _was_started(self, held: _Held, script: str, told: str) -> bool:
        """Whether this very job is known to Slurm, or has left how it ended."""
        folder = held.job.folder
        same = _text(folder / slurm_script.SCRIPT) == script and _text(folder / slurm_script.TOLD) == told
        held.number = _number(folder) if same else ""
        if held.number and self._goes_on(held):
            return True
        held.number = self._with_patience(lambda: self._look(held.job)) if same else ""
        return bool(held.number)

    def _goes_on(self, held: _Held) -> bool:
        """Whether the job that was submitted counts: one that was cancelled, by Ctrl-C or by others, does not."""
        told = self._with_patience(lambda: self._told(held))
        return _status(held.job.folder) is not None if told is None else told.meaning != "gone"

    def _submit(self, held: _Held) -> None:
        # An answer that was lost on its way is no reason to submit a second time.
        held.number = self._look(held.job)
        if not held.number:
            words = ["sbatch", "--parsable", str(held.job.folder / slurm_script.SCRIPT)]
            try:
                said = asked(words, slurm_script.environment(self.options, held.job.environ, self._environ))
            except RefusedError as refusal:
                raise ExecutorError(f"{refusal}; {FITS}") from refusal
            held.number = slurm_states.submitted(said)
        if not held.number:
            raise ExecutorError(f"sbatch printed no job number, but: {slurm_states.plain(said) or 'nothing'}")
        path = held.job.folder / slurm_script.NUMBER
        path.with_suffix(".new").write_text(held.number)
        path.with_suffix(".new").replace(path)

    def poll(self, job: Job) -> Ended | None:
        """How ``job`` ended; None while it runs, waits, or cannot be asked for.

        Raises:
            ExecutorError: Slurm has been away for all of ``patience_s``.
        """
        held, now_s = self._held(job), self._clock()
        if now_s < held.asked_s + ASK_S:
            return None
        held.asked_s = now_s
        try:
            told = self._told(held) if held.number else None
        except AwayError as error:
            held.away_since_s = now_s if held.away_since_s is None else held.away_since_s
            away_s = now_s - held.away_since_s
            held.waits = f"Slurm does not answer, for {away_s:.0f} s now ({error})"
            if away_s > self.options.patience_s:
                raise ExecutorError(
                    f"job {job.id}: {held.waits}; fix: scontrol ping; the trial can continue"
                ) from error
            return None
        held.away_since_s = None
        ended = self._over(held, now_s) if told is None else self._judged(held, told, now_s)
        held.ended = ended is not None
        return ended

    def _judged(self, held: _Held, told: Told, now_s: float) -> Ended | None:
        held.waits = told.waits
        if told.meaning == "waits" and now_s - held.waits_since_s > self.options.wait_s:
            self.stop(held.job)
            return self._ended(held, "gone", None, f"it has not started in {self.options.wait_s:g} s: {told.waits}")
        if told.meaning == "runs" and told.ran_s > held.job.limit_s:
            self.stop(held.job)
            return self._ended(held, "killed", None, f"its limit of {held.job.limit_s:g} s is over")
        if told.meaning in ("waits", "runs"):
            held.over_since_s = None
            return None
        if told.meaning == "ended":
            status = told.status if told.status or told.state == "COMPLETED" else 137
            return self._ended(
                held, "ended", status, "" if told.state == "COMPLETED" else f"Slurm: {told.state}", now_s
            )
        how: How = "killed" if told.meaning == "killed" else "gone"
        return self._ended(held, how, None, f"Slurm: {told.state} {told.reason}", now_s)

    def _over(self, held: _Held, now_s: float) -> Ended | None:
        """A job that Slurm has forgotten: its script has left how it ended, if not yet for all to see."""
        status = _status(held.job.folder)
        if status is not None:
            return self._ended(held, "ended", status, "", now_s)
        held.over_since_s = now_s if held.over_since_s is None else held.over_since_s
        if now_s - held.over_since_s <= self.options.late_s:
            return None
        return self._ended(held, "gone", None, "Slurm has forgotten it, and it left no status")

    def _ended(self, held: _Held, how: How, status: int | None, why: str, now_s: float | None = None) -> Ended | None:
        """The end; None where documents may still be on their way: where all went well, and some are missing."""
        found = job_folder.results(held.job.folder, held.job.nodes)
        if now_s is not None and status == 0 and len(found) < held.job.nodes:
            held.over_since_s = now_s if held.over_since_s is None else held.over_since_s
            if now_s - held.over_since_s <= self.options.late_s:
                return None
        said = job_folder.last_lines(held.job.folder / slurm_script.LOG)
        return Ended(how, status, found, "\n".join(filter(None, (said, why.strip()))))

    def waits(self, job: Job) -> str:
        """Why ``job`` has not begun, in Slurm's words, as of the last ``poll``; "" where it runs."""
        return self._held(job).waits

    def stop(self, job: Job) -> None:
        """End ``job``: scancel, and after a minute by force.

        Raises:
            ExecutorError: something of it is left, and the command that a person ends it by.
        """
        held = self._held(job)
        held.number = held.number or self._ending(job, lambda: self._look(job, again=True))
        if not held.number:
            held.ended = True
            return
        for force, within_s in _WAYS:
            self._ending(job, partial(self._cancel, held, force))
            if self._went(held, within_s):
                held.ended = True
                return
        raise ExecutorError(f"job {job.id}: Slurm's {held.number} has not ended; fix: scancel {held.number}")

    def _cancel(self, held: _Held, force: tuple[str, ...]) -> None:
        told = self._told(held)
        if told is not None and told.meaning in ("waits", "runs"):
            # It may have ended in between: then that is told, and no error.
            with contextlib.suppress(RefusedError):
                asked(["scancel", *force, held.number], self._asking)

    def _went(self, held: _Held, within_s: float) -> bool:
        end_s = self._clock() + within_s
        while self._clock() < end_s:
            told = self._ending(held.job, lambda: self._told(held))
            if told is None or told.meaning not in ("waits", "runs"):
                return True
            self._patience.sleep(0.5)
        return False

    def close(self) -> None:
        """End all jobs of this trial that were started and have not ended.

        Raises:
            ExecutorError: one is left.
        """
        left = [held for held in self._jobs.values() if not held.ended]
        for held in left:  # All are told at once, for each may take its half minute.
            if held.number:
                with contextlib.suppress(ExecutorError):
                    self._cancel(held, ())
        errors = []
        for held in left:
            try:
                self.stop(held.job)
            except ExecutorError as error:
                errors.append(str(error))
        if errors:
            raise ExecutorError("; ".join(errors))

    def _held(self, job: Job) -> _Held:
        if job.id not in self._jobs:
            self._jobs[job.id] = held = _Held(job, self._clock())
            held.number = _number(job.folder)
        return self._jobs[job.id]

    def _told(self, held: _Held) -> Told | None:
        """What Slurm says of it; None where it knows no such job, or that number is somebody else's by now."""
        try:
            said = asked(["scontrol", "-o", "show", "job", held.number], self._asking)
        except RefusedError as refusal:
            if slurm_states.no_such(refusal.said):
                return None
            raise
        told = slurm_states.told(said)
        return told if told and told.comment == slurm_script.comment(self.options, held.job) else None

    def _look(self, job: Job, again: bool = False) -> str:
        """Slurm's number of a job that waits or runs, by its name and comment; "" where there is none.

        ``again``: look a second time, for a submission that was cut off may still be on its way.
        """
        words = ["squeue", "--noheader", "--states=all", "--format=%i|%T|%k"]
        words += [f"--name={slurm_script.job_name(self.options, job)}"]
        found = slurm_states.own(asked(words, self._asking), slurm_script.comment(self.options, job))
        if not found and again:
            self._patience.sleep(1.0)
            return self._look(job)
        return found[0] if found else ""

    def _with_patience(self, ask: Callable[[], T]) -> T:
        """The answer, asked for again while Slurm is away."""
        away, backoff = (AwayError,), Backoff(1.0, 30.0, Random())
        return self._patience.answer(ask, away, backoff, self.options.patience_s, "scontrol ping")

    def _ending(self, job: Job, ask: Callable[[], T]) -> T:
        """The answer where a job is to end, for which somebody waits."""
        most_s, mend = (
            min(ENDING_S, self.options.patience_s),
            f"scancel --name={slurm_script.job_name(self.options, job)}",
        )
        away, backoff = (AwayError,), Backoff(1.0, 30.0, Random())
        return self._patience.answer(ask, away, backoff, most_s, mend, ending=True)


def _text(path: Path) -> str:
    try:
        with path.open(errors="replace") as file:
            return file.read(1024 * 1024)
    except OSError:
        return ""


def _number(folder: Path) -> str:
    return slurm_states.submitted(_text(folder / slurm_script.NUMBER))


def _status(folder: Path) -> int | None:
    """What the job's script has written as its status; None where it has not ended by itself, or is not seen yet."""
    told = _text(folder / slurm_script.STATUS).strip()
    return int(told) if re.fullmatch(r"[0-9]{1,3}", told) else None
