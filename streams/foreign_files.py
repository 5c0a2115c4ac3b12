"""A file that is no recording: what it is, and the command that reads it, on one line.

Rule of this file: pure guesses from a file's name and its first bytes; a file that might be a damaged recording is none
of these. PyTorch profiler traces have a way of their own (``profiler_traces``).
"""

import json
import re
import zlib
from pathlib import Path

import zstandard

from paceline import nsight_tables, recording

#: What is looked at of a file.
_HEAD = 1 << 18
_LINES = 20
_TABLE = "a table of ops is read by: paceline import timeline {path} -o run.jsonl.zst"
_WHY = "it is read by: paceline why {path}"
_TRACE = "PyTorch's prof.export_chrome_trace writes a trace that is read"
#: How a file begins that is neither text nor a recording, and what it is.
_BINARY = (
    (b"PAR1", "a Parquet file; " + _TABLE),
    (b"SQLite format 3", "a database of SQLite, as Nsight Systems exports; " + _TRACE),
    (b"\x80", "a pickle; where it is a flight recorder's dump, " + _WHY),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"BZh", "compressed (bzip2); unpack it"),
    (b"\xfd7zXZ", "compressed (xz); unpack it"),
    (b"version https://git-lfs", "a pointer of Git LFS; git lfs pull gets the file"),
)
#: How the name of a file ends that only its own program reads.
_REPORTS = {
    ".nsys-rep": "a report of Nsight Systems; " + _TRACE,
    ".qdrep": "a report of Nsight Systems; " + _TRACE,
    ".ncu-rep": "a report of Nsight Compute on single kernels, which tells of no rank; " + _TRACE,
}
#: What only the logs of jobs that fail have.
_FAILED = ("Traceback (most recent call last)", "ProcessGroupNCCL", "torch.distributed.elastic", "NVRM: Xid")
_PROMETHEUS = re.compile(r"# (?:HELP|TYPE) [A-Za-z_:]|[A-Za-z_:][A-Za-z0-9_:]*\{[^{}]*\} [-+0-9N]")
#: A dcgm-exporter's metrics as 1.x called them.
_OLD_DCGM = re.compile(rb'^dcgm_[a-z_]{2,60}\{[^{}\n]{0,400}uuid="', re.MULTILINE)
_A_RECORDING = "a recording has a message a line, as `paceline run --record` and `paceline record` write them"


def what_else(path: str) -> str | None:
    """What ``path`` is if it is no recording; None where that is not known, or it cannot be read twice."""
    head = _head(path)
    if not head or any(isinstance(recording.parse(1, line), recording.Line) for line in head.splitlines(True)[:_LINES]):
        return None
    said = _by_bytes(head) or _by_text(path, head.decode("utf-8", "replace"))
    return None if said is None else f"{path} is no recording but {said.format(path=path)}"


def _head(path: str) -> bytes:
    if not Path(path).is_file():  # a pipe can be read once
        return b""
    try:
        with Path(path).open("rb") as stream:
            head = stream.read(_HEAD)
        if path.endswith(".gz"):  # what there is of it, for it may break off
            head = zlib.decompressobj(wbits=31).decompress(head, _HEAD)
        elif path.endswith(".zst"):
            head = zstandard.ZstdDecompressor().stream_reader(head).read(_HEAD)
    except (OSError, zlib.error, zstandard.ZstdError):
        return b""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        head = head.decode("utf-16", "replace").encode()
    return head.removeprefix(b"\xef\xbb\xbf")


def _by_bytes(head: bytes) -> str | None:
    if (kind := next((words for begin, words in _BINARY if head.startswith(begin)), None)) is not None:
        return kind
    if b"NCCL INFO " in head:
        return "NCCL's log; it is read by: paceline import nccl-log {path} -o run.jsonl.zst"
    if b"DCGM_FI_" in head or _OLD_DCGM.search(head):
        return "what a dcgm-exporter serves; it is read by: paceline import dcgm {path} -o run.jsonl.zst"
    return None


def _by_text(path: str, head: str) -> str | None:
    plain = path.removesuffix(".gz").removesuffix(".zst").lower()
    if (report := next((words for ending, words in _REPORTS.items() if plain.endswith(ending)), None)) is not None:
        return report
    first = next((line.strip() for line in head.splitlines() if line.strip()), "")
    if report := nsight_tables.refusal_of_line(first):
        return report
    if plain.endswith((".csv", ".tsv")):
        return "a table of text; " + _TABLE
    if any(word in head for word in _FAILED):  # its lines may be JSON, or begin with a bracket as JSON does
        return "a job's log; " + _WHY
    if first.startswith(("{", "[")):
        return _by_json(head, first)
    return _prometheus(head) if _PROMETHEUS.match(first) else None


def _prometheus(head: str) -> str:
    """A text of Prometheus, DCGM's apart."""
    if "nccl_" in head:
        return (
            "a Prometheus text (.prom) of NCCL Inspector: sums, and no single collective; run without "
            "NCCL_INSPECTOR_PROM_DUMP to get its JSON"
        )
    return "a Prometheus text without DCGM's fields; of these only a dcgm-exporter's is read"


def _by_json(head: str, first: str) -> str | None:
    """A document of JSON, or lines of it."""
    if '"coll_perf"' in head or '"p2p_perf"' in head:
        return "NCCL Inspector's output; it is read by: paceline import nccl-inspector {path} -o run.jsonl.zst"
    if all(f'"{name}"' in head for name in ("pg_config", "entries")):
        return "a flight recorder's dump; " + _WHY
    if all(f'"{name}"' in head for name in ("seed", "faults")):
        return "what `paceline simulate --truth` injected; analyze the recording that it belongs to"
    try:
        fields = json.loads(first)
    except (ValueError, RecursionError):
        return f"one document of JSON; {_A_RECORDING}"
    if isinstance(fields, dict) and "step" in fields and "topic" not in fields:
        return "lines of JSON without topics; " + _TABLE
    return None if isinstance(fields, dict) and "topic" in fields else f"other JSON; {_A_RECORDING}"
