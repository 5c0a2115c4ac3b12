"""The tracking of one command: what comes from the sidecar and the analyzer goes to the runs that are open.

Rule of this file: it joins the doors. A point goes to the runs that are open when it is made; findings and the summary
go to the newest run of each tracker, which may have been closed by then. Nothing here may wait for a tracker.
"""

import selectors
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from paceline.events import Finding
from paceline.patience import patient
from paceline.training.tracking_words import CALLBACK, MLFLOW, STEP, TENSORBOARD, WANDB, OpenRun, Told

from .choice import Choice, opened_outside
from .event_file import EventFile
from .finding_book import FindingBook, Tally
from .messages_pipe import MessagesPipe
from .mlflow_log import Entry, MlflowLog
from .points import Point, Points
from .rank_socket import RankSocket
from .told_file import ToldFile

#: How long MLflow gets at the end (PACELINE_PATIENCE makes it longer), and TensorBoard's files at most.
END_S = 8.0
MOST_FOLDERS = 1000


class Tracker:
    """Logs what ``pipe`` and ``told`` bring until ``finish``."""

    def __init__(
        self,
        choice: Choice,
        environ: Mapping[str, str],
        pipe: MessagesPipe,
        told: ToldFile,
        ranks: RankSocket,
        say: Callable[[str], None],
    ) -> None:
        self._choice = choice
        self._pipe, self._told, self._ranks = pipe, told, ranks
        self._points, self._book = Points(), FindingBook()
        self._mlflow, self._say = MlflowLog(environ, say), say
        self._end_s = patient(END_S, environ)
        self._files: dict[str, EventFile] = {}
        self._outside = opened_outside(choice, environ)
        #: The newest run of each tracker, open or not.
        self.newest: dict[str, OpenRun] = {}
        #: Whether findings, or a run that knows none of them yet, are to be told; after the first point.
        self._news = False
        self._step = -1
        self.panel = ""

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Be called when timings have come."""
        selector.register(self._pipe.fd, selectors.EVENT_READ, lambda: self._hear(selector))

    def _hear(self, selector: selectors.BaseSelector) -> None:
        for message in self._pipe.read():
            self._points.update(message)
        if self._pipe.ended:
            selector.unregister(self._pipe.fd)

    def drain(self, selector: selectors.BaseSelector) -> None:
        """Take what the sidecar has left in its pipe, which has no writer any more, or as much as is there."""
        before = -1
        while not self._pipe.ended and before != self._pipe.taken:
            before = self._pipe.taken
            self._hear(selector)

    def turn(self, *, last: bool = False) -> None:
        """Log what is due."""
        self._news |= self._follow()
        for told in self._told.read():
            if isinstance(told, Finding):
                self._news |= self._book.update(told)
            else:
                self.panel = told.text
        point = self._points.tick(time.monotonic(), last=last)
        if point is not None:
            self._log(point)
        if self._news and (self._step >= 0 or last):
            self._news, self._step = False, max(self._step, 0)
            self._tell(self._book.tally())

    def _follow(self) -> bool:
        """Note which runs are open; whether one of them is new."""
        news = False
        for run in self._open():
            if self.newest.get(run.tracker) != run:
                self.newest[run.tracker] = run
                if run.tracker == MLFLOW:
                    self._mlflow.start()
                news = True
        return news

    def _open(self) -> list[OpenRun]:
        """What the script has open comes after what was there before it, and stands for it."""
        runs = {run.tracker: run for run in self._outside}
        for run in self._ranks.runs:
            named = run.tracker == TENSORBOARD and self._choice.folder
            if (run.tracker in self._choice.trackers or run.tracker == CALLBACK) and not named:
                runs[run.tracker] = run
        return list(runs.values())

    def _log(self, point: Point) -> None:
        self._step = point.step
        for run in self._open():
            if run.tracker == MLFLOW:
                self._mlflow.add(Entry(run, time.time(), point.step, point.values))
            elif run.tracker == TENSORBOARD:
                self._file(run).scalars(point.step, point.values)
        self._ranks.tell(Told({STEP: point.step, **point.values}, {}, []), self._inside())

    def _tell(self, tally: Tally) -> None:
        for run in self.newest.values():
            if run.tracker == MLFLOW:
                tags = {"paceline.findings": tally.text, "paceline.kinds": ", ".join(tally.tags)} if tally.text else {}
                self._mlflow.add(Entry(run, time.time(), self._step, tally.values, tags))
            elif run.tracker == TENSORBOARD:
                self._file(run).scalars(self._step, tally.values)
                if tally.text:
                    self._file(run).text(self._step, "paceline/finding", tally.text)
        texts = {"paceline/finding": tally.text} if tally.text else {}
        self._ranks.tell(Told({STEP: self._step, **tally.values}, texts, tally.tags), self._inside())

    def _inside(self) -> set[str]:
        """Trackers that rank 0 logs to itself."""
        return {CALLBACK, *({WANDB} & set(self._choice.trackers))}

    def _file(self, run: OpenRun) -> EventFile:
        if run.place not in self._files and len(self._files) < MOST_FOLDERS:
            self._files[run.place] = EventFile(run.place)
        return self._files.get(run.place) or next(reversed(self._files.values()))

    def attach(self, name: str, path: Path) -> None:
        """Give ``path`` to the newest run of MLflow, and a text in it to TensorBoard."""
        run = self.newest.get(MLFLOW)
        if run is not None:
            self._mlflow.add(Entry(run, time.time(), file=path))
        folder = self.newest.get(TENSORBOARD)
        if folder is not None and path.suffix == ".txt":
            self._file(folder).text(max(self._step, 0), name, path.read_text(encoding="utf-8"))

    def finish(self) -> None:
        """Log what is left, and say what could not be."""
        self._mlflow.close(self._end_s)
        for file in self._files.values():
            file.close()
            if file.reason:
                self._say(f"TensorBoard: nothing more was written to {file.folder}: {file.reason}")
        told = self._mlflow.told()
        if told:
            self._say(told)
        if not self.newest and self._ranks.heard and self._choice.trackers:
            self._say(f"no run of {', '.join(self._choice.trackers)} was open in rank 0: nothing was logged")
