"""The formats of exports and pictures: a table, and nothing else."""

from collections.abc import Callable, Iterable
from typing import BinaryIO, NamedTuple

from paceline.recording import Line, render

from .frames import write as write_frames
from .plots import write_html, write_pdf, write_png
from .tables import write_csv, write_parquet
from .told import Told


class Format(NamedTuple):
    """How a session becomes a file: the ending of its name, its media type, and who writes it."""

    suffix: str
    content_type: str
    write: Callable[[Iterable[Line], Told, BinaryIO], None]


def write_jsonl(lines: Iterable[Line], told: Told, out: BinaryIO) -> None:
    """The recording as it is: ``paceline analyze`` and ``paceline replay`` read it."""
    for line in lines:
        out.write(render(line.topic, line.key, line.timestamp_ms, line.value))


FORMATS = {
    "jsonl": Format(".jsonl", "application/x-ndjson", write_jsonl),
    "frames": Format(".frames.jsonl", "application/x-ndjson", write_frames),
    "parquet": Format(".parquet", "application/vnd.apache.parquet", write_parquet),
    "csv": Format(".csv", "text/csv; charset=utf-8", write_csv),
}
PLOTS = {
    "html": Format(".html", "text/html; charset=utf-8", write_html),
    "png": Format(".png", "image/png", write_png),
    "pdf": Format(".pdf", "application/pdf", write_pdf),
}
