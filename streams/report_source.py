"""What reports and comparisons are made of: the derived events of a recording or a session's folder, in order.

Rule of this file: reading alone. A recording of raw timings is judged by the very code that runs on the bus; what was
derived of a job or node before (windows and findings on the bus) is taken where the recording lacks its raw timings,
and so is what only others can say: forecasts, profiles, plans, and what people did with suggestions. Lines are believed
in the order in which they stand. Any other store of events can take this file's place: it has to be an iterator of
``TimedEvent``, windows of one subject in rising order of time.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from paceline import recording, topics, wire
from paceline.decoders import json_decoder
from paceline.events import (
    DeviceWindow,
    Event,
    Finding,
    HostWindow,
    JobDescribed,
    JobWindow,
    RankWindow,
    SessionState,
    StepTimings,
)
from paceline.timed_event import TimedEvent
from paceline.topics import Topic
from paceline.unpacking import GIB, MOST_STREAMED_GIB
from paceline.words import many

from .analyze import Analysis

#: Taken as they stand in the recording.
_TAKEN = (topics.NODE, topics.FORECAST, topics.PROFILE, topics.PLAN, topics.SUGGESTION, topics.THRESHOLD)
#: What verdicts and windows are made of.
_RAW = (topics.OP, topics.COLLECTIVE, topics.DEVICE, topics.HOST)
#: Made anew from raw timings where there are such.
_DERIVED = (topics.WINDOW, topics.FINDING)
#: The names of a session's files (docs/sessions.md).
_MANIFEST, _SEGMENTS = "manifest.json", "segment-*.jsonl.gz"
_MOST_MANIFEST_BYTES = 512 * 1024 * 1024
MOST_UNPACKED = int(MOST_STREAMED_GIB * GIB)


class SourceError(Exception):
    """A source that cannot be read: why, and what to do."""


class _Gap(msgspec.Struct, frozen=True):
    topic: str = ""
    messages: int | None = None


class _Manifest(msgspec.Struct, frozen=True):
    """What a session's manifest says that a report has to tell; the rest of it is control's."""

    state: SessionState
    gaps: list[_Gap] = []


class _Analysis(Analysis):
    """It keeps what it says, and of whom there were raw timings or samples."""

    def __init__(self, made: list[tuple[Topic, Event]]) -> None:
        super().__init__(lambda topic, event: made.append((topic, event)), _silent, totals=False, advise=True)
        self.made = made
        self.raw: set[tuple[Any, ...]] = set()

    def _judge(self, topic: Topic, event: Event) -> None:
        if topic in _RAW:
            self.raw.add(_subject(event))
            if isinstance(event, StepTimings) and event.facts is not None:
                self.made.append((topic, event))
        super()._judge(topic, event)

    def _judge_run(self, topic: Topic, event: Event) -> None:
        if isinstance(event, JobDescribed):  # Of several runs of one name each has a description of its own.
            self.made.append((topic, event))
        super()._judge_run(topic, event)


class Source:
    """The events of the recording or session at ``path``. ``notes`` says, after all were read, what was amiss."""

    def __init__(self, path: str, most_unpacked: int = MOST_UNPACKED) -> None:
        self.path = path
        self.most_unpacked = most_unpacked
        self.notes: list[str] = []
        self._made: list[tuple[Topic, Event]] = []
        self._analysis = _Analysis(self._made)

    def events(self) -> Iterator[TimedEvent]:
        """All of them, in order.

        Raises:
            SourceError: it cannot be opened, or holds nothing to tell of.
        """
        told = False
        time_s = 0.0
        for item in self.lines():
            if isinstance(item, recording.Line):
                time_s = item.timestamp_ms / 1000
            for topic, event in self._of(item):
                told = True
                yield TimedEvent(time_s, topic, event)
        self._analysis.finish()
        for topic, event in self._take():
            told = True
            yield TimedEvent(time_s, topic, event)
        if self._analysis.bad:
            self.notes.append(f"{many(self._analysis.bad, 'line')} of the recording could not be read")
        if not told:
            raise SourceError(f"{self.path} holds nothing to report: no timings, samples, windows or findings")

    def lines(self) -> Iterator[recording.Line | recording.Bad]:
        """The messages as they stand."""
        for file in self._files():
            try:
                yield from recording.read(file, self.most_unpacked)
            except recording.RecordingError as error:
                raise SourceError(str(error)) from error

    def _files(self) -> list[str]:
        folder = Path(self.path)
        if self.path == "-" or not folder.is_dir():
            return [self.path]
        segments = sorted(str(one) for one in folder.glob(_SEGMENTS))
        if not segments:
            raise SourceError(f"{self.path} is no session's folder: it holds no {_SEGMENTS}")
        self._read_manifest(folder / _MANIFEST)
        return segments

    def _read_manifest(self, path: Path) -> None:
        try:
            with path.open("rb") as stream:
                manifest = json_decoder(_Manifest).decode(stream.read(_MOST_MANIFEST_BYTES))
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            self.notes.append(f"the session's manifest could not be read ({error}): what it misses is not known")
            return
        state = manifest.state
        if state.missing:
            self.notes.append(f"{many(state.missing, 'numbered message')} did not reach the session")
        if state.state not in ("stopped",):
            self.notes.append(f"The session is {state.state}: it may go on, or have ended early.")
        for name in state.silent[:8]:
            self.notes.append(f"{name} was no longer sending when the session was last written")
        if manifest.gaps:
            gaps = many(len(manifest.gaps), "gap")
            self.notes.append(f"the session has {gaps}: messages that were deleted before they were read")

    def _of(self, item: recording.Line | recording.Bad) -> Iterator[tuple[Topic, Event]]:
        if isinstance(item, recording.Line):
            yield from self._as_recorded(item)
        self._analysis.update(item)
        yield from self._take()

    def _as_recorded(self, line: recording.Line) -> Iterator[tuple[Topic, Event]]:
        topic = topics.BY_NAME.get(line.topic) or topics.BY_SHORT.get(line.topic)
        if topic is None or topic not in (*_TAKEN, *_DERIVED):
            return
        try:
            event = wire.decode(topic, line.value)
        except wire.WireError:
            return  # The analysis counts it.
        if topic in _TAKEN or _subject(event) not in self._analysis.raw:
            yield topic, event

    def _take(self) -> list[tuple[Topic, Event]]:
        made = self._made[:]
        self._made.clear()
        return made


def newest_s(path: str, most_unpacked: int = MOST_UNPACKED) -> float:
    """The time of the newest message; nothing is judged for it.

    Raises:
        SourceError: it cannot be opened, or has no message.
    """
    source = Source(path, most_unpacked)
    newest = max(
        (line.timestamp_ms / 1000 for line in source.lines() if isinstance(line, recording.Line)), default=None
    )
    if newest is None:
        raise SourceError(f"{path} holds no message")
    return newest


def _subject(event: Any) -> tuple[Any, ...]:
    """What an event is about: an attempt of a job, or a node."""
    if isinstance(event, JobWindow | RankWindow | Finding) and (getattr(event, "first_step", 0) >= 0):
        return event.cluster, event.job, event.attempt
    if isinstance(event, Finding):
        return event.cluster, event.nodes[0] if event.nodes else event.job
    if isinstance(event, DeviceWindow | HostWindow):
        return event.cluster, event.node
    if hasattr(event, "attempt"):
        return event.cluster, event.job, event.attempt
    return event.cluster, event.node


def _silent(_line: str) -> None:
    """Bad lines are counted, and told of in the notes."""
