"""Weights & Biases, offline: what is in the file that ``wandb sync`` would send, read by W&B's own messages."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.integration.check import Check, expect, slow_rank, tracked

_BLOCK = 32_768
_WHOLE, _LAST = 1, 4


def _records(folder: Path) -> list[Any]:
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    return [wandb_internal_pb2.Record.FromString(data) for data in _pieces(path.read_bytes())]


def _pieces(data: bytes) -> Iterator[bytes]:
    """The records of a file of W&B's: LevelDB's log format, behind a head of 7 bytes.

    A block of 32 KiB holds pieces, each behind its checksum, length and kind: whole, or the first, middle or last of a
    record.
    """
    at, record = 7, b""
    while at + 7 <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (_WHOLE, _LAST):
            yield record
            record = b""


def _rows(records: list[Any]) -> list[dict[str, Any]]:
    """The rows of the history, in order."""
    return [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]


def one_run(folder: Path) -> str:
    """Points under a step of their own, beside the script's rows, whose steps stay what they were."""
    environ = {"KEPT_IN": str(folder), "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    tracked(folder, ["--track", "wandb"], slow_rank("wandb", 40.0), environ)
    records = _records(folder)
    rows = _rows(records)
    metrics = [record.metric for record in records if record.WhichOneof("record_type") == "metric"]
    theirs = [row for row in rows if "loss" in row]
    ours = [row for row in rows if "paceline/step_s" in row]
    expect(
        [row["_step"] for row in theirs] == list(range(0, 5 * len(theirs), 5)),
        f"the script logged at steps 0, 5, …; its rows are at {[row['_step'] for row in theirs][:20]}",
    )
    expect(len(ours) >= 5, f"{len(ours)} rows have points of ours")
    steps = [row["paceline/step"] for row in ours]
    expect(steps == sorted(set(steps)), f"our steps: {steps}")
    named = {metric.glob_name or metric.name: metric.step_metric for metric in metrics}
    expect(named.get("paceline/*") == "paceline/step", f"defined metrics: {named}")
    counted = [row["paceline/findings"] for row in rows if "paceline/findings" in row]
    expect(bool(counted) and counted[-1] >= 1, f"findings counted: {counted}")
    summaries = [
        item.value_json
        for record in records
        if record.WhichOneof("record_type") == "summary"
        for item in record.summary.update
        if item.key == "paceline/finding"
    ]
    expect(any("Rank 1" in text for text in summaries), f"the findings' text: {summaries[-1:]}")
    return f"{len(ours)} of {len(rows)} rows have a point of ours; the script's {len(theirs)} rows are where they were"


CHECKS = (Check("wandb", one_run),)
