"""Targets: what ``paceline why`` reads of a job that hung or died.

Rule of this file: whatever a file says, reading it and deciding on it ends.
"""

import io
import pickle
from collections.abc import Iterable
from pathlib import Path

import msgspec

from importers.flight_recorder import Recorders
from importers.notes import Notes, SourceError
from paceline import flight_recorder, wire
from postmortem.deciding.decide import decide
from postmortem.reading import json_files, ras_json, recorder_file, stack_file
from postmortem.reading.log_file import LogFile

from .target import ROOT, Target

_CASES = ROOT / "tests" / "postmortem" / "cases"


def _log(data: bytes) -> None:
    decide(LogFile("job.log").read(io.BytesIO(data)))


def _recorder(data: bytes) -> None:
    decide(recorder_file.statements(flight_recorder.unpickled(data), "trace_0", 0))


def _recorder_json(data: bytes) -> None:
    decide(recorder_file.statements(msgspec.json.decode(data), "trace_0", 0))


def _imported(data: bytes) -> None:
    """As the dumps of two ranks, of which one has nothing."""
    recorders = Recorders("job", Notes())
    recorders.read(io.BytesIO(data), 0, 1_795_000_000.0)
    recorders.read(io.BytesIO(b'{"version": "2.10", "entries": []}'), 1, 1_795_000_000.0)
    for message in recorders.messages():
        wire.decode(message.topic, wire.encode(message.event))


def _stacks(data: bytes) -> None:
    decide(stack_file.statements(data.decode("utf-8", "replace"), "rank3.txt", 3))


def _ras_json(data: bytes) -> None:
    decide(ras_json.statements(data.decode("utf-8", "replace"), "ras.json"))


def _json(data: bytes) -> None:
    rows = [msgspec.json.decode(line) for line in data.split(b"\n") if line.strip()]
    read = [said for row in rows if (said := json_files.statements(row, "facts.json", 0, None)) is not None]
    if not read:
        raise flight_recorder.RecorderError("nothing known")
    decide([said for one in read for said in one])


def _files(*patterns: str) -> Iterable[bytes]:
    found: list[Path] = [path for pattern in patterns for path in sorted(_CASES.glob(pattern))]
    return [path.read_bytes() for path in found]


def _dumps() -> list[bytes]:
    return [msgspec.json.encode(pickle.loads(data)) for data in _files("03/fr/*_[03]")]  # our own files


_REFUSALS = (flight_recorder.RecorderError, msgspec.DecodeError, UnicodeDecodeError)
TARGETS = (
    Target("why.log", _log, lambda: _files("0[4569]/*.log", "10/*.log"), longest=16_384, share=2.0),
    Target("why.recorder", _recorder, lambda: _files("03/fr/*_[03]"), _REFUSALS, longest=8192, share=2.0),
    Target("why.recorder-json", _recorder_json, _dumps, _REFUSALS, "json", 8192),
    Target(
        "why.flight-recorder",
        _imported,
        lambda: [*_files("03/fr/*_[03]"), *_dumps()],
        (*_REFUSALS, SourceError),
        longest=8192,
    ),
    Target("why.stacks", _stacks, lambda: _files("0[135]/stacks/*"), longest=4096),
    Target("why.ras", _log, lambda: _files("21/*.log"), longest=8192),
    Target("why.ras-json", _ras_json, lambda: _files("22/ras.json"), longest=8192),
    Target("why.facts", _json, lambda: _files("*/*.json", "03/*.jsonl"), _REFUSALS, "json lines", 8192),
)
