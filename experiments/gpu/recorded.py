"""What a recording of a run tells: a row a rank and step.

Rule of this file: reading only; the standard library and Paceline's own code, for a GPU machine has little else.
"""

import math
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from paceline import columns, recording, topics, wire
from paceline.events import Event, StepTimings
from paceline.topics import Topic

Kind = TypeVar("Kind", bound=Event)


class Row(NamedTuple):
    """One step of one rank, times in seconds; ``phases`` has those that were measured."""

    rank: int
    step: int
    start_s: float
    step_s: float
    phases: dict[str, float]


def events(path: Path, topic: Topic, kind: type[Kind]) -> Iterator[Kind]:
    """The events of this ``kind`` in the recording at ``path``.

    Raises:
        RecordingError: it cannot be opened.
        WireError: a message in it is none of ours.
    """
    for line in recording.read(str(path)):
        if isinstance(line, recording.Line) and line.topic == topic.name:
            event = wire.decode(topic, line.value)
            if isinstance(event, kind):
                yield event


def rows(path: Path) -> list[Row]:
    """Every step that ``path`` tells, by rank and step."""
    found = [row for event in events(path, topics.OP, StepTimings) for row in _rows(event)]
    return sorted(found, key=lambda row: (row.rank, row.step))


def devices(path: Path) -> dict[int, str]:
    """Rank -> the device that it trains on, as told last."""
    told: dict[int, str] = {}
    for event in events(path, topics.OP, StepTimings):
        told |= dict(zip(columns.numbers(event.speakers.ranks), event.speakers.devices, strict=True))
    return told


def median_s(told: Iterable[Row], phase: str, rank: int = 0, after: int = 0) -> float:
    """The median of ``phase`` in the steps of ``rank`` from ``after`` on; a step without it has 0 s of it.

    Raises:
        StatisticsError: there is no such step.
    """
    return statistics.median(row.phases.get(phase, 0.0) for row in told if row.rank == rank and row.step >= after)


def _rows(event: StepTimings) -> Iterator[Row]:
    phases = {name: columns.numbers(column) for name, column in event.phases.items()}
    fixed = (columns.numbers(column) for column in (event.rank, event.step, event.start_s, event.step_s))
    for place, (rank, step, start_s, step_s) in enumerate(zip(*fixed, strict=True)):
        measured = {name: seconds[place] for name, seconds in phases.items() if not math.isnan(seconds[place])}
        yield Row(rank, step, event.t0_s + start_s, step_s, measured)
