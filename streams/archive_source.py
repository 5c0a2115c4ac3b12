"""What an archive tells of a job or a cluster, as the events that reports and comparisons are made of.

Rule of this file: reading alone, as ``report_source`` does of recordings. Events come in the order of their time; of
windows those of a minute, of jobs those of ten seconds while the archive has them.
"""

import heapq
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from paceline.events import LATEST_S
from paceline.history.query import Connection, History, QueryError
from paceline.history.store import StoreError
from paceline.history.table import Table
from paceline.history.tables import (
    DEVICE_WINDOW,
    FINDING,
    FORECAST,
    HOST_WINDOW,
    JOB,
    JOB_WINDOW,
    NODE,
    PLAN,
    PROFILE,
    RANK_WINDOW,
    SUGGESTION,
    THRESHOLD,
)
from paceline.history.views import Scope
from paceline.timed_event import TimedEvent
from paceline.words import many

from .report_source import SourceError

#: What is told of jobs and machines by name; of the machines that a job did not have, nothing.
_OF_JOBS = (JOB, JOB_WINDOW, RANK_WINDOW, FINDING, PROFILE, PLAN, THRESHOLD)
_OF_MACHINES = (NODE, DEVICE_WINDOW, HOST_WINDOW)
_OF_ALL = (SUGGESTION, FORECAST)
#: How long after a job's last word its findings and suggestions may come.
_AFTER_S = 3600.0


class _Span(NamedTuple):
    """When a job ran, until when something may be published of it, and where it ran."""

    since_s: float
    ended_s: float
    until_s: float
    nodes: list[str]


class ArchiveSource:
    """The events of ``job``, or of ``cluster`` from ``since_s`` on, in the archive at ``url``."""

    def __init__(self, url: str, job: str = "", cluster: str = "", since_s: float = 0.0) -> None:
        self.path, self.job, self.cluster, self.since_s = url, job, cluster, since_s
        self.notes: list[str] = []
        self._told: dict[tuple[str, int], None] = {}

    def events(self) -> Iterator[TimedEvent]:
        """All of them, in order.

        Raises:
            SourceError: the archive cannot be read, or holds nothing of them.
        """
        told = False
        try:
            history = History.open(self.path, os.environ)
            for one in self._of_job(history) if self.job else self._of_cluster(history):
                told = told or one.time_s >= self.since_s
                yield one
        except (StoreError, QueryError) as error:
            raise SourceError(str(error)) from error
        if not told:
            what = f"a job {self.job!r}" if self.job else f"cluster {self.cluster!r} in that time" * bool(self.cluster)
            raise SourceError(f"the archive at {self.path} holds nothing of {what or 'that time'}")
        if history.manifest.gap_count:
            gaps = many(history.manifest.gap_count, "gap")
            self.notes.append(f"the archive has {gaps}: messages that were deleted before they were read")

    def _of_job(self, history: History) -> Iterator[TimedEvent]:
        span = self._span(history)
        if span is None:
            return iter(())
        scope = Scope(span.since_s, span.until_s, self.cluster, self.job)
        # Afterwards its GPUs are idle, or another job's.
        machines = scope._replace(job="", nodes=tuple(span.nodes), until_s=span.ended_s)
        streams = [history.events(table, scope) for table in _OF_JOBS]
        streams += [history.events(table, machines) for table in _OF_MACHINES if span.nodes]
        streams += [self._of_this_job(history, table, scope) for table in _OF_ALL]
        return self._merged(streams)

    def _of_cluster(self, history: History) -> Iterator[TimedEvent]:
        scope = Scope(self.since_s, time.time() + 1.0, self.cluster)
        tables = (*(table for table in _OF_JOBS if table not in (RANK_WINDOW, FINDING)), *_OF_MACHINES, *_OF_ALL)
        # A finding that lasts may have been published long before the period.
        findings = history.events(FINDING, scope._replace(since_s=0.0))
        return self._merged([findings, *(history.events(table, scope) for table in tables)])

    def _of_this_job(self, history: History, table: Table, scope: Scope) -> Iterator[TimedEvent]:
        return (one for one in history.events(table, scope) if one.event.job in (self.job, None, ""))

    def _merged(self, streams: list[Iterator[TimedEvent]]) -> Iterator[TimedEvent]:
        return heapq.merge(*streams, key=lambda one: one.time_s)

    def _span(self, history: History) -> _Span | None:
        with history.connect(Scope(0.0, LATEST_S, self.cluster, self.job), (JOB.name, JOB_WINDOW.name)) as connection:
            return _span(connection)


def _span(connection: Connection) -> _Span | None:
    [(first_s, last_s)] = connection.ask(
        "SELECT min(first_s), max(last_s) FROM ("
        "SELECT min(started_s) AS first_s, max(coalesce(ended_s, time_s)) AS last_s FROM job "
        "UNION ALL SELECT min(start_s), max(start_s + length_s) FROM job_window)"
    ).rows
    if first_s is None or last_s is None:
        return None
    nodes = [str(node) for (node,) in connection.ask("SELECT DISTINCT node FROM job").rows]
    return _Span(first_s, last_s, last_s + _AFTER_S, nodes)
