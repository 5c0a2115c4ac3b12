"""The way to the archive: questions answered beside the pages that ask them, one answer for all who ask the same.

Rule of this file: no SQL, and no question of its own. A question has so many seconds and is then stopped; a page that
waits for one keeps no other waiting. DuckDB is imported here only where there is something to ask.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Unanswered
from typing import TYPE_CHECKING, Any, NamedTuple

from paceline.install import install
from paceline.settings import ARCHIVE

from .history_questions import Question

if TYPE_CHECKING:
    from paceline.history.query import Connection, History

#: Periods asked about at once, questions that may wait, and the seconds that one has, and that a page waits.
ABREAST, QUEUED, LIMIT_S, PATIENCE_S = 2, 40, 20.0, 30.0
#: Seconds that an answer counts, that a trouble does, and after which the manifest is looked at again.
ANSWER_S, TROUBLE_S, MANIFEST_S = 30.0, 5.0, 10.0
#: Answers that are kept, and the memory of a question: the page's other parts need theirs.
KEPT, MEMORY = 128, "512MB"
SLOW = f"it took longer than {LIMIT_S:.0f} s: ask for less time, a cluster, a job or a node"
BUSY = "too many questions are being answered; ask again in some seconds"


class Told(NamedTuple):
    """An answer: rows by name, whether there would have been more, and the days that the archive has; or why not."""

    rows: list[dict[str, Any]]
    cut: bool = False
    days: frozenset[str] = frozenset()
    trouble: str = ""


class HistoryDoor:
    """Asks the archive at ``url``; whoever needs its login finds it in ``environ``."""

    def __init__(self, url: str, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self.url, self._environ, self._clock = url, environ, clock
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._opened: tuple[float, History, frozenset[str]] | None = None
        self._answers: OrderedDict[Question, tuple[float, Future[Told]]] = OrderedDict()
        self._pool = ThreadPoolExecutor(ABREAST, "paceline-history")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "HistoryDoor":
        """The door to the archive that the settings name."""
        return cls(ARCHIVE.read(environ), environ)

    def ask(self, questions: Iterable[Question]) -> "list[Future[Told]]":
        """The answers to come; the same ones for all who ask the same within some seconds.

        Questions of one period share a connection, and are answered in their order.
        """
        groups: dict[tuple[float, float], list[tuple[Question, Future[Told]]]] = {}
        with self._lock:
            waiting = sum(not asked.done() for _, asked in self._answers.values())
            futures = []
            for question in questions:
                held = self._answers.get(question)
                if held is not None and self._counts(*held):
                    futures.append(held[1])
                    continue
                futures.append(Future())
                if waiting >= QUEUED:
                    futures[-1].set_result(Told([], trouble=BUSY))
                    continue
                waiting += 1
                self._keep(question, futures[-1])
                groups.setdefault((question.since_s, question.until_s), []).append((question, futures[-1]))
        for group in groups.values():
            self._pool.submit(self._answer, group)
        return futures

    def _keep(self, question: Question, asked: "Future[Told]") -> None:
        self._answers[question] = (self._clock(), asked)
        self._answers.move_to_end(question)
        while len(self._answers) > KEPT:
            self._answers.popitem(last=False)

    def _counts(self, at_s: float, asked: "Future[Told]") -> bool:
        if not asked.done():
            return True
        return self._clock() - at_s < (TROUBLE_S if asked.result().trouble else ANSWER_S)

    def stop(self) -> None:
        """Answer nothing more; what is being answered ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, group: "Sequence[tuple[Question, Future[Told]]]") -> None:
        """Answer questions of one period; whatever happens, each has an answer then."""
        try:
            from paceline.history.views import Scope

            history, days = self._history()
            views = list(dict.fromkeys(view for question, _ in group for view in question.views))
            with history.connect(Scope(group[0][0].since_s, group[0][0].until_s), views, MEMORY) as connection:
                for question, asked in group:
                    asked.set_result(_one(connection, question, days))
        except Exception as error:  # Clients of buckets have errors of their own, of no common kind: told, too.
            for _, asked in group:
                if not asked.done():
                    asked.set_result(Told([], trouble=_words(error)))

    def _history(self) -> "tuple[History, frozenset[str]]":
        """The archive as it is now, or was some seconds ago."""
        from paceline.history.query import History

        with self._opening:
            if self._opened is None or self._clock() - self._opened[0] >= MANIFEST_S:
                self._opened = None  # What cannot be read any more is not shown as if it could.
                history = History.open(self.url, self._environ)
                self._opened = (self._clock(), history, frozenset(file.date for file in history.manifest.files))
            return self._opened[1], self._opened[2]


def _one(connection: "Connection", question: Question, days: frozenset[str]) -> Told:
    limit = threading.Timer(LIMIT_S, connection.interrupt)
    limit.daemon = True
    limit.start()
    try:
        answer = connection.ask(question.sql, question.values, question.most)
    except Exception as error:  # As above.
        return Told([], trouble=_words(error))
    finally:
        limit.cancel()
    return Told([dict(zip(answer.columns, row, strict=True)) for row in answer.rows], answer.cut, days)


def _words(error: Exception) -> str:
    """What to tell of an error, with the mend where there is one."""
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is missing here; fix: {install('history')}"
    if "INTERRUPT Error" in str(error):
        return SLOW
    kind = "" if type(error).__module__.startswith("paceline.") else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split())[:500]


def told(asked: "Future[Told]") -> Told:
    """The answer, once it is there, or that it does not come."""
    try:
        return asked.result(PATIENCE_S)
    except Unanswered:
        return Told([], trouble=BUSY)
