"""The door to MLflow: one thread that logs to the runs it is told of, whatever the server does.

Rule of this file: whoever calls it never waits. A server that does not answer, or refuses the login, is asked again,
ever more seldom; one that fails for a run holds up that run alone; an entry that it refuses for good is found, counted
and dropped, and no other is. How often MLflow's own client would try, and how long, is set to little before
it is loaded, for a client that tries for minutes would hold up all that waits behind.
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from paceline.training.tracking_words import OpenRun

from .backlog import MOST, Backlog
from .choice import with_login

#: MLflow's client: seconds for one request, no second attempt of its own, and no word of us to its makers.
CLIENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
#: Between two attempts when the end has come.
LAST_EVERY_S = 0.25
#: How long the end waits for a server that did not answer before.
AWAY_S = 3.0
#: Answers to whatever is asked: no login, too slow, too much; and to whatever is logged to a run.
_OF_ALL, _OF_RUN = (401, 408, 429), (403, 404)
#: Where MLflow's client tells a status by words alone, for it knows few; and that there was no answer.
_STATUS = re.compile(r"failed with error code (\d{3}) |too many (\d{3}) error responses")
_NO_ANSWER = re.compile(r"failed with (timeout )?exception")
_FIX = "see that MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD, name who may write to the run"
#: MLflow's own bounds: numbers in a request, and characters of a tag.
_MOST_METRICS, _LONGEST_TAG = 1000, 5000
_FOLDER = "paceline"


class Entry(NamedTuple):
    """Something to be logged to a run: numbers of a step, tags, or a file."""

    run: OpenRun
    time_s: float
    step: int = 0
    values: Mapping[str, float] = {}
    tags: Mapping[str, str] = {}
    file: Path | None = None


class MlflowLog:
    """Logs the entries of each run in the order in which they come; ``say`` is told of a login that is refused."""

    def __init__(self, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._environ, self._say = environ, say
        self._backlog: Backlog[Entry] = Backlog(Random(), place=lambda entry: (entry.run.place, entry.run))
        self._clients: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._until_s: float | None = None
        #: Why something waits, or was lost; and why something was refused for good.
        self._reason = self._refusal = ""
        self._told_login = False
        self._thread = threading.Thread(target=self._run, name="to MLflow", daemon=True)

    def start(self) -> None:
        """Load MLflow's client, which takes seconds, and log from then on."""
        if self._thread.ident is None and self._until_s is None:
            self._thread.start()

    def add(self, entry: Entry) -> None:
        """Log ``entry`` as soon as that can be."""
        with self._changed:
            self._backlog.add(entry)
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Log what is left within ``timeout_s``, or less where nobody has answered for a while."""
        with self._changed:
            timeout_s = min(timeout_s, AWAY_S) if self._backlog.failing else timeout_s
            self._until_s = time.monotonic() + timeout_s
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def told(self) -> str:
        """What became of it, in a line; "" where there was nothing."""
        backlog = self._backlog
        unlogged = backlog.waiting + backlog.lost + backlog.refused
        if not unlogged:
            return f"MLflow has all {backlog.logged} entries" if backlog.logged else ""
        reasons = [self._refusal] * bool(backlog.refused) + [self._reason or "no time"] * (unlogged > backlog.refused)
        refused = f", {backlog.refused} for good" if 0 < backlog.refused < unlogged else ""
        return (
            f"MLflow: {unlogged} of {unlogged + backlog.logged} entries were not logged{refused}: {'; '.join(reasons)}"
        )

    def _run(self) -> None:
        os.environ.update(CLIENT)
        with contextlib.suppress(Exception):  # Reported when there is something to log.
            import mlflow  # noqa: F401
        while (due := self._next()) is not None:
            batch = _together(due)
            try:
                self._log(batch)
            except Exception as error:  # Whatever a client of any version raises: the entries stay, or are counted.
                self._fail(error, len(batch))
            else:
                with self._changed:
                    self._backlog.done(len(batch))

    def _next(self) -> list[Entry] | None:
        """What to log next, once there is something; None where the end has come."""
        with self._changed:
            while True:
                last = self._until_s is not None
                if last and (not self._backlog.waiting or time.monotonic() >= (self._until_s or 0.0)):
                    return None
                due = self._backlog.due(time.monotonic(), last=last)
                if due:
                    return due
                self._changed.wait(LAST_EVERY_S if self._backlog.waiting else None)

    def _log(self, batch: list[Entry]) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, RunTag

        run, file = batch[0].run, batch[0].file
        if run.place not in self._clients:
            self._clients[run.place] = MlflowClient(tracking_uri=with_login(run.place, self._environ))
        client = self._clients[run.place]
        if file is not None:
            client.log_artifact(run.run, str(file), _FOLDER)
            return
        metrics = [
            Metric(name, float(value), int(entry.time_s * 1000), entry.step)
            for entry in batch
            for name, value in entry.values.items()
        ]
        tags = {name: text[:_LONGEST_TAG] for entry in batch for name, text in entry.tags.items()}
        client.log_batch(run.run, metrics=metrics, tags=[RunTag(name, text) for name, text in tags.items()])

    def _fail(self, error: Exception, count: int) -> None:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        status, now_s = _status(error), time.monotonic()
        with self._changed:
            if isinstance(error, ImportError) or _is_gone(error):
                self._refusal = reason
                self._backlog.drop(count)
                return
            if status is not None and 400 <= status < 500 and status not in (*_OF_ALL, *_OF_RUN):
                self._refusal = reason
                self._backlog.refuse(count, now_s)
                return
            self._reason = reason
            if status is None or status in _OF_ALL:
                self._backlog.failed(now_s)
            else:
                self._backlog.hold(now_s)
            if self._until_s is not None:
                self._changed.wait(LAST_EVERY_S)
        if status in (401, 403) and not self._told_login:
            self._told_login = True
            self._say(f"MLflow answered {status}: points wait, {MOST} at most; {_FIX}")


def _together(due: list[Entry]) -> list[Entry]:
    """The first of ``due`` that fit one request: of one run, and numbers alone or one file."""
    batch: list[Entry] = []
    metrics = 0
    for entry in due:
        metrics += len(entry.values)
        if batch and (entry.run != batch[0].run or entry.file or batch[0].file or metrics > _MOST_METRICS):
            break
        batch.append(entry)
    return batch


def _status(error: Exception) -> int | None:
    """The status that the server answered with, 500 for what else went wrong; None where it did not answer."""
    told = _STATUS.search(str(error))
    if told is not None:
        return int(told[1] or told[2])
    if _NO_ANSWER.search(str(error)):
        return None
    said = getattr(getattr(error, "response", None), "status_code", None)
    status = getattr(error, "get_http_status_code", None)
    return int(said if said is not None else status() if status is not None else 500)


def _is_gone(error: Exception) -> bool:
    """Whether the run is not there, whatever is to be logged to it."""
    return getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST"
