"""Targets: what the services make of messages: judged, drawn and learned from.

Rule of this file: the services' own code, without a broker. The reader of each outlives a message that it cannot use,
but why it cannot belongs into the decoder: what is decoded is used.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa

from archive import column_buffers, row_files
from archive.sources.filled_rows import filled
from archive.sources.gpu_grid import Grid
from archive.sources.gpu_metrics import TELLING
from archive.sources.slurm_jobs import jobs_of
from control.captures import MOST_BYTES, CaptureBook
from forecaster import prometheus
from forecaster.history import SeriesSubject
from forecaster.memory import Memory
from paceline import recording, topics, wire
from paceline.command_rules import Action, CommandRules, Reader
from paceline.events import FULL_ROWS, CapturePiece, Command, FullRows
from paceline.history.table import PUBLISHED
from paceline.history.tables import DEVICE_WINDOW, SLURM_JOB
from paceline.prometheus import read
from paceline.recording import Line
from paceline.topics import Topic
from streams.processor import Processor
from streams.routes import ROUTES
from ui.feed import Feed
from ui.forecast_figure import fan_chart
from ui.forecast_view import badge
from ui.suggestion_words import gains, ranked
from ui.theme import DARK

from .bus import golden, recordings
from .target import Target


def _messages(data: bytes) -> Iterator[tuple[Topic, Any, int]]:
    """The events in the lines of a recording."""
    for number, raw in enumerate(data.split(b"\n")):
        line = recording.parse(number, raw)
        if isinstance(line, Line) and line.topic in topics.BY_NAME:
            topic = topics.BY_NAME[line.topic]
            try:
                yield topic, wire.decode(topic, line.value), line.timestamp_ms
            except wire.WireError:
                continue


def _judge(data: bytes) -> None:
    """Judged, stored, read back, and judged on to the end, as a worker that restarts does."""
    processor = Processor()
    for topic, event, _ in _messages(data):
        if topic.name not in ROUTES:
            continue
        for target, answer in processor.update(topic, event):
            wire.decode(target, wire.encode(answer))
    for key in list(processor.states):
        processor.restore(key, processor.snapshot(key))
    for target, answer in processor.finish():
        wire.decode(target, wire.encode(answer))


def _draw(data: bytes) -> None:
    feed = Feed()
    for topic, event, timestamp_ms in _messages(data):
        try:
            feed.update(topic.short, event, timestamp_ms / 1000)
        except (ValueError, OverflowError) as error:
            feed.unusable(topic.short, str(error))
    for cluster, job in list(feed.jobs):
        feed.view(cluster, job)
    assert len(feed.lines(0.0)) == len(feed.jobs)
    feed.topics()
    feed.machines.view()
    for one in feed.forecasts.all().values():
        badge(one)
        fan_chart(one, UTC, DARK)
    for suggestion in ranked(feed.suggestions.all()):
        gains(suggestion.gain)


def _learn(data: bytes) -> None:
    memory = Memory()
    for _, event, _ in _messages(data):
        memory.update(event)
    for line in memory.lines():
        memory.find(line.subject.key)
    for state in memory.running():
        state.profile()
        memory.end(state.cluster, state.job, 1000)


def _backfill(data: bytes) -> None:
    """What a Prometheus answered, and what the memory holds of it."""
    memory = Memory()
    for labels, times_s, values in read(prometheus.DEVICES[0], data):
        key = str(sorted(labels.items()))
        memory.put(SeriesSubject(key, "", prometheus.DEVICES[0].interval_s, "c"), times_s, values)
        memory.find(key)


def _answers() -> list[bytes]:
    values = [[60.0 * minute, str(minute)] for minute in range(1, 6)]
    series = {"metric": {"UUID": "GPU-1", "Hostname": "n"}, "values": values}
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [series]}}
    return [json.dumps(answer).encode(), b'{"status": "error", "error": "too many points"}']


def _fill(data: bytes) -> None:
    """The same as windows that an archive keeps."""
    grid = Grid(0.0, 12, "c", {})
    grid.take(TELLING[0], read(TELLING[0], data))
    for addition in filled(grid, np.ones((len(grid.gpus), 12), bool)):
        for where, table, rows in addition.parts:
            row_files.summed(table, row_files.ordered(table, rows), "", where.date, where.cluster, 1)
            assert rows.schema == column_buffers.schema(DEVICE_WINDOW)


def _account(data: bytes) -> None:
    """What sacct said, jobs and then their names, as rows that an archive keeps."""
    jobs, _, names = data.decode("utf-8", "replace").partition("\0")
    told = jobs_of(jobs, names, "c", Counter())
    rows = [{**job, PUBLISHED: 1.0} for job in told]
    row_files.packed(pa.Table.from_pylist(rows, schema=column_buffers.schema(SLURM_JOB)))


def _accounts() -> list[bytes]:
    line = b"17|17_3|ada|nlp|gpu|CANCELLED by 0|3:9|1000|1060|Unknown|2|n[1-2]|cpu=8,gres/gpu:a100=16"
    return [line + b"\0" + b"17|train\n18|other", line.replace(b"17_3", b"17+1")]


def _commands() -> list[bytes]:
    """A command of every version, as a line."""
    return [
        recording.render(topics.COMMAND.name, None, 0, json.dumps(json.loads(data)).encode())
        for data in golden(topics.COMMAND)
    ]


def _answer(data: bytes) -> None:
    """Commands obeyed or not, as a sidecar does; what came of each is read as it travels."""
    actions = {FULL_ROWS: Action(FullRows, lambda target, wish: f"{target}: {wish.seconds:g} s")}
    rules = CommandRules(Reader("sidecar", "n1", "lab"), actions, obeys=True, since_s=0.0)
    for _, event, _ in _messages(data):
        if isinstance(event, Command):
            entry = rules.judge(event, 1_763_720_000.0, {event.target})
            assert entry is None or wire.decode(topics.AUDIT, wire.encode(entry)) == entry, (
                "an answer that none can read"
            )


def _capture(data: bytes) -> None:
    """Pieces of traces, in any order: what is handed out is what its sender summed up."""
    book = CaptureBook()
    for _, event, _ in _messages(data):
        if isinstance(event, CapturePiece):
            book.update(event)
            held = book.trace(event.capture, event.rank)
            assert held is None or len(held) <= MOST_BYTES


def _pieces() -> list[bytes]:
    """A capture of every version, as a line."""
    return [
        recording.render(topics.CAPTURE.name, None, 0, json.dumps(json.loads(data)).encode())
        for data in golden(topics.CAPTURE)
    ]


TARGETS = (
    Target("services.judged", _judge, recordings, form="json lines", longest=65_536, share=4.0),
    Target("services.drawn", _draw, recordings, form="json lines", longest=65_536, share=2.0),
    Target("services.learned", _learn, recordings, form="json lines", longest=65_536, share=2.0),
    Target("services.answered", _answer, _commands, form="json lines", longest=65_536),
    Target("services.captured", _capture, _pieces, form="json lines", longest=65_536),
    Target("services.prometheus", _backfill, _answers, (ValueError,), "json"),
    Target("services.filled", _fill, _answers, (ValueError,), "json"),
    Target("services.accounted", _account, _accounts, longest=4096),
)
