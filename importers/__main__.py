"""``paceline import``: traces, timelines, flight recorders, NCCL's and dcgm-exporter's texts to a recording.

Rule of this file: files, output and what is said about them. What a source means is the importers' business.
"""

import argparse
import contextlib
import glob
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO

from paceline.events import OP_INDEX
from paceline.flight_recorder import RecorderError, rank_in_name
from paceline.options import Parser
from paceline.recording import RecordingError, Writer
from paceline.terminal import Progress, say
from paceline.timed_event import TimedEvent
from paceline.unpacking import MOST_HELD_GIB, TooLargeError, add_option, opened

from .flight_recorder import Recorders
from .kineto import read
from .kineto_ranks import process_in
from .nccl_inspector import Inspector
from .nccl_log import NcclLogs
from .notes import Notes, SourceError
from .op_rows import messages
from .op_timeline import UNITS, OpTimeline, TimelineOptions
from .traces import Traces

EXAMPLES = """examples:
  paceline import kineto trace-rank*.json.gz -o run.jsonl.zst
  paceline import nccl-inspector nccl-inspector-4711/*.log -o run.jsonl.zst
  paceline import timeline ops.parquet -o run.jsonl.zst
  paceline import timeline ops.csv --time-unit us --map stage=pp_rank --map op=kind --op FWD1=forward -o run.jsonl.zst
  paceline import dcgm scrapes/*.prom -o run.jsonl.zst
  paceline import nccl-log nccl.*.log -o run.jsonl.zst
  paceline import flight-recorder dumps/ -o run.jsonl.zst
  paceline analyze run.jsonl.zst

kineto: PyTorch profiler traces (.json, also .gz and .zst), one or several a rank.  nccl-inspector: its JSON files.
dcgm: saved /metrics answers of a dcgm-exporter, one per file (also .gz). Time: the timestamps in it, else the file's
modification time.
nccl-log: the log of NCCL with NCCL_DEBUG=INFO (also .gz), all ranks in one file or in many.
flight-recorder: PyTorch's dumps (nccl_trace_rank_3, comm_lib_trace_rank_3; pickle or JSON, also .gz), or their folder.
timeline: .csv, .jsonl or .parquet (also .gz but for Parquet) with a row an op, and columns for step, op, duration and
rank (or dp and stage), if there are any also for microbatch, start and node. Usual names are found without --map."""
#: Files left out that are named.
_MOST_TOLD = 20
#: Fields that --map knows, and what ops may be called.
FIELDS = ("rank", "dp", "tp", "stage", "step", "op", "microbatch", "start", "duration", "node")


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline import",
        description="Make a recording from files of other tools, for `paceline analyze` and `paceline replay`.\n"
        "Needs no broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("kind", choices=tuple(SOURCES))
    made.add_argument(
        "files", nargs="+", metavar="FILE", help="files of one run; patterns with * work, and a folder of dumps"
    )
    made.add_argument("-o", "--output", required=True, metavar="FILE", help=".jsonl, .jsonl.gz, .jsonl.zst, or -")
    made.add_argument("--quiet", action="store_true", help="do not print how much was written")
    made.add_argument("--job", default="imported", metavar="NAME", help="the job's name (default: imported)")
    made.add_argument(
        "--map", action="append", default=[], metavar="FIELD=COLUMN", help=f"timeline: {', '.join(FIELDS)}"
    )
    made.add_argument(
        "--op", action="append", default=[], metavar="NAME=PHASE", help="timeline: what an op's name means"
    )
    made.add_argument("--time-unit", choices=UNITS, default="", help="timeline: of starts and durations (default: s)")
    add_option(made, MOST_HELD_GIB)
    return made


def main(argv: list[str]) -> int:
    """Import the files; the exit status."""
    options = parser().parse_args(argv)
    try:
        return _import(options)
    except (ValueError, RecordingError) as error:
        say(str(error))
        return 2
    except OSError as error:
        say(
            f"import: {getattr(error, 'filename', None) or options.output}: {getattr(error, 'strerror', None) or error}"
        )
        return 1


def _import(options: argparse.Namespace) -> int:
    files = [path for pattern in options.files for path in (sorted(glob.glob(pattern)) or [pattern])]
    notes = Notes()
    imported = SOURCES[options.kind](options, files, notes)
    # Nothing is written before the first message is there: a wrong file leaves an old recording as it was.
    first = next(imported, None)
    if first is None:
        say("import: nothing to import in these files")
        return 1
    writer = Writer(options.output)
    with contextlib.closing(writer):
        for message in chain([first], imported):
            writer.write_event(message)
    for line in notes.lines():
        say(line)
    of_job = "" if options.kind == "dcgm" else f" of job {options.job}"
    if not options.quiet:
        say(f"{writer.messages} messages{of_job} in {options.output}")
    return 0


def _timeline(options: argparse.Namespace, files: list[str], notes: Notes) -> Iterator[TimedEvent]:
    columns, ops = dict(_pairs("--map", options.map)), dict(_pairs("--op", options.op))
    for field in columns:
        if field not in FIELDS:
            raise ValueError(f"--map {field}=…: no such field; there are {', '.join(FIELDS)}")
    for name, op in ops.items():
        if op not in OP_INDEX:
            raise ValueError(f"--op {name}={op}: no such phase; there are {', '.join(OP_INDEX)}")
    timeline, progress = OpTimeline(TimelineOptions(columns, options.time_unit, ops, options.job), notes), Progress()
    for path in files:
        progress.tell(f"reading {path}")
        with _open(path, options.most_unpacked) as stream:
            timeline.read(stream, _table_kind(path), path)
    progress.end()
    yield from messages(*timeline.rows())


def _kineto(options: argparse.Namespace, files: list[str], notes: Notes) -> Iterator[TimedEvent]:
    """One run's traces. A broken one among several is left out and told; two runs' are refused."""
    traces, progress, broken = Traces(options.job, notes), Progress(), 0
    alone = len(files) == 1 or len({process_in(path) or path for path in files}) == 1
    for path in files:
        progress.tell(f"reading {path}")
        try:
            with _open(path, options.most_unpacked) as stream:
                trace = read(stream, path, notes, alone=alone)
        except (SourceError, OSError) as error:
            if len(files) == 1 or isinstance(error, FileNotFoundError | PermissionError | TooLargeError):
                raise
            broken += 1
            notes.remark(f"left out, for it is broken: {_named(error, path)}")
            continue
        traces.update(trace, path)
    progress.end()
    if broken == len(files):
        raise SourceError(f"import: none of {broken} files could be read; the first: {notes.lines()[0]}")
    yield from traces.messages()


def _named(error: Exception, path: str) -> str:
    """What is wrong, on one line that begins with the file."""
    text = str(getattr(error, "strerror", None) or error)
    return text if text.startswith(path) else f"{path}: {text}"


def _inspector(options: argparse.Namespace, files: list[str], notes: Notes) -> Iterator[TimedEvent]:
    inspector = Inspector(options.job, notes)
    for path in files:
        with _open(path, options.most_unpacked) as stream:
            inspector.survey(stream, path)
    for path in files:
        with _open(path, options.most_unpacked) as stream:
            inspector.read(stream)
    yield from inspector.messages()


def _dcgm(options: argparse.Namespace, files: list[str], notes: Notes) -> Iterator[TimedEvent]:
    from .dcgm import DcgmTexts  # The Prometheus client's parser takes a while to import.

    texts, progress = DcgmTexts(notes), Progress()
    for path in files:
        progress.tell(f"reading {path}")
        with _open(path, options.most_unpacked) as stream:
            texts.read(stream, path, Path(path).stat().st_mtime)
    progress.end()
    yield from texts.messages()


def _nccl_log(options: argparse.Namespace, files: list[str], notes: Notes) -> Iterator[TimedEvent]:
    logs, progress = NcclLogs(options.job, notes), Progress()
    for path in files:
        progress.tell(f"reading {path}")
        with _open(path, options.most_unpacked) as stream:
            logs.read(stream, Path(path).stat().st_mtime)
    progress.end()
    yield from logs.messages()


def _flight_recorder(options: argparse.Namespace, files: list[str], notes: Notes) -> Iterator[TimedEvent]:
    """One run's dumps. One that cannot be read is left out and said so, for a process may end while it writes."""
    recorders, progress, left_out = Recorders(options.job, notes), Progress(), []
    paths = [path for given in files for path in _in_folder(given)]
    for path in paths:
        progress.tell(f"reading {path}")
        try:
            with _open(path, options.most_unpacked) as stream:
                plain = path.removesuffix(".gz").removesuffix(".zst")
                recorders.read(stream, rank_in_name(plain), Path(path).stat().st_mtime)
        except (RecorderError, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError | TooLargeError):
                raise
            left_out.append(_named(error, path))
        except SourceError as error:
            raise SourceError(_named(error, path)) from None
    progress.end()
    if len(left_out) == len(paths):
        raise SourceError(
            f"import: none of {len(paths)} files could be read{'; ' if left_out else ''}{''.join(left_out[:1])}"
        )
    for line in left_out[:_MOST_TOLD]:
        notes.remark(f"left out: {line}")
    if left_out[_MOST_TOLD:]:
        notes.remark(f"left out: {len(left_out) - _MOST_TOLD} more files")
    yield from recorders.messages()


def _in_folder(path: str) -> list[str]:
    """The files of a folder, without those of folders in it; or the file itself."""
    if not os.path.isdir(path):
        return [path]
    # A pipe would wait for ever.
    return sorted(one.path for one in os.scandir(path) if one.is_file() and not one.name.startswith("."))


SOURCES = {
    "kineto": _kineto,
    "nccl-inspector": _inspector,
    "timeline": _timeline,
    "dcgm": _dcgm,
    "nccl-log": _nccl_log,
    "flight-recorder": _flight_recorder,
}


@contextlib.contextmanager
def _open(path: str, most_unpacked: int) -> Iterator[IO[bytes]]:
    """The file to read; where memory ends while it is read, the error names it."""
    with opened(path, most_unpacked) as stream:
        try:
            yield stream
        except MemoryError:
            raise SourceError(f"{path}: too large for the memory there is") from None


def _table_kind(path: str) -> str:
    name = path.lower().removesuffix(".gz")
    for kind, ends in (
        ("parquet", (".parquet", ".pq")),
        ("csv", (".csv", ".tsv", ".txt")),
        ("jsonl", (".jsonl", ".ndjson", ".json")),
    ):
        if name.endswith(ends):
            return kind
    raise ValueError(f"{path}: a timeline is .csv, .jsonl or .parquet")


def _pairs(option: str, texts: list[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{option} {text}: not NAME=VALUE")
        yield name.strip(), value.strip()
