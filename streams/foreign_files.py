"""A file that is no recording: what it is, and the command that reads it, on one line.

Rule of this file: pure guesses from a file's name and its first bytes; a file that might be a damaged recording is none
of these. PyTorch profiler traces have a way of their own (``profiler_traces``).
"""

import json
import zlib
from pathlib import Path

from paceline import recording

#: What is looked at of a file.
_HEAD = 1 << 18
_LINES = 20
_TABLE = "a table of ops is read by: paceline import timeline {path} -o run.jsonl.zst"
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
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD) if path.endswith(".gz") else head
    except (OSError, zlib.error):
        return b""


def _by_bytes(head: bytes) -> str | None:
    if head.startswith(b"PAR1"):
        return "a Parquet file; " + _TABLE
    if b"NCCL INFO " in head:
        return "NCCL's log; it is read by: paceline import nccl-log {path} -o run.jsonl.zst"
    if b"DCGM_FI_" in head:
        return "what a dcgm-exporter serves; it is read by: paceline import dcgm {path} -o run.jsonl.zst"
    return None


def _by_text(path: str, head: str) -> str | None:
    first = next((line.strip() for line in head.splitlines() if line.strip()), "")
    if first.startswith(("{", "[")):
        return _by_json(head, first)
    if path.removesuffix(".gz").lower().endswith((".csv", ".tsv")):
        return "a table of text; " + _TABLE
    return None


def _by_json(head: str, first: str) -> str | None:
    """A document of JSON, or lines of it."""
    if '"coll_perf"' in head:
        return "NCCL Inspector's output; it is read by: paceline import nccl-inspector {path} -o run.jsonl.zst"
    if all(f'"{name}"' in head for name in ("seed", "faults")):
        return "what `paceline simulate --truth` injected; analyze the recording that it belongs to"
    try:
        fields = json.loads(first)
    except (ValueError, RecursionError):
        return f"one document of JSON; {_A_RECORDING}"
    if isinstance(fields, dict) and "step" in fields and "topic" not in fields:
        return "lines of JSON without topics; " + _TABLE
    return None if isinstance(fields, dict) and "topic" in fields else f"other JSON; {_A_RECORDING}"
