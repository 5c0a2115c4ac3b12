"""A database as tests ask it and write to it: by hand, through the engine that the product has."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, text

from archive.database import address, rows, schema, writing
from archive.database.engine import engine
from paceline import topics, wire
from paceline.events import Finding, JobDescribed, Suggestion
from paceline.topics import Topic

TOPIC_OF: dict[type, Topic] = {
    JobDescribed: topics.JOB,
    Finding: topics.FINDING,
    Suggestion: topics.SUGGESTION,
}
Event = Finding | JobDescribed | Suggestion


class Database:
    """A database that is asked and written to by hand."""

    def __init__(self, url: str) -> None:
        self.at = address.address(url)
        self._engine = engine(self.at)

    @contextlib.contextmanager
    def begin(self) -> Iterator[Connection]:
        """A connection, inside a transaction."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    def prepare(self) -> "Database":
        """Make its tables."""
        with self.begin() as connection:
            schema.prepare(connection, self.at.shown)
        return self

    def ask(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """What it answers."""
        with self.begin() as connection:
            answer = connection.execute(text(statement), values)
            return [tuple(row) for row in answer] if answer.returns_rows else []

    def write(self, *events: Event, at_s: float = 5000.0) -> Counter[str]:
        """Write these in a batch, heard at ``at_s``; how many rows are new or changed."""
        with self.begin() as connection:
            return writing.write(connection, batch(events, at_s))


def batch(events: Sequence[Event], at_s: float | None = None) -> writing.Batch:
    """The rows of ``events``, as they come by the wire."""
    told: dict[type, list[rows.Row]] = {JobDescribed: [], Finding: [], Suggestion: []}
    heard_s = time.time() if at_s is None else at_s
    for event in events:
        told[type(event)].append(rows.row(TOPIC_OF[type(event)], wire.encode(event), heard_s))
    return writing.Batch(told[JobDescribed], told[Finding], told[Suggestion])
