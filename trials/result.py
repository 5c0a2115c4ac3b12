"""What a run of one placement amounts to: the document that each node of it writes, and the run that they make.

Rule of this file: pure, and bounded: a document comes from where the training ran, so it is checked like anything from
outside.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from paceline.decoders import json_decoder

from .estimate import LEAST_BLOCKS, MOST_BLOCKS, Interval
from .halving import Outcome

LAYOUT = 1
#: The largest document.
MOST_BYTES = 65_536
#: Findings a node tells, lines that it ends with.
MOST_FINDINGS = 3

Text = Annotated[str, Meta(max_length=8192)]
Number = Annotated[float, Meta(ge=0, le=1e15)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Blocks = Annotated[list[Annotated[float, Meta(gt=0, le=1e7)]], Meta(max_length=MOST_BLOCKS)]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A confirmed finding of the run, as far as a table needs it."""

    kind: Text
    cause: Text
    #: Those that it names, and how many there are.
    ranks: Annotated[list[Count], Meta(max_length=4096)] = []
    rank_count: Count = 0
    summary: Text = ""
    lost_s: Number = 0.0
    throughput_lost_ratio: Number = 0.0


class NodeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one node of a job measured.

    ``blocks_s`` are seconds a step of consecutive blocks after the warm-up, ``steps`` those in them, ``median_s`` their
    median step; ``samples_per_s`` is this run's alone, by the batches that the recording saw. ``batch_size`` and
    ``world_size`` are what the recording saw. ``phases`` are shares of a step.
    """

    layout: int = LAYOUT
    job: Text
    node: Text
    outcome: Outcome
    reason: Text = ""
    steps: Count = 0
    blocks_s: Blocks = []
    median_s: Number | None = None
    samples_per_s: Interval | None = None
    batch_size: Count | None = None
    world_size: Count | None = None
    phases: dict[Text, Share] = {}
    findings: Annotated[list[Verdict], Meta(max_length=MOST_FINDINGS)] = []
    exit_status: int | None = None
    versions: dict[Text, Text] = {}
    said: Text = ""
    started_s: Number | None = None


def decode(document: bytes, job: str) -> NodeResult | None:
    """The document of a node of ``job``; None where it is none."""
    if len(document) > MOST_BYTES:
        return None
    try:
        result = json_decoder(NodeResult).decode(document)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return result if (result.layout, result.job) == (LAYOUT, job) else None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as the journal keeps it: its place among all, and what its nodes said together."""

    rung: Count
    repeat: Count
    placement: Count
    attempt: Count
    outcome: Outcome
    reason: Text = ""
    blocks_s: Blocks = []
    samples: Number | None = None
    steps: Count = 0
    batch_size: Count | None = None
    phases: dict[Text, Share] = {}
    findings: list[Verdict] = []
    versions: dict[Text, Text] = {}
    said: Text = ""
    started_s: Number | None = None
    took_s: Number = 0.0


def together(results: Sequence[NodeResult]) -> NodeResult | None:
    """The slowest node that was measured, with the findings of all; else the first that failed; None of none."""
    measured = [one for one in results if one.outcome == "measured" and len(one.blocks_s) >= LEAST_BLOCKS]
    if not measured:
        return next((one for one in results if one.outcome != "measured"), None)
    slowest = max(measured, key=lambda one: one.median_s or 0.0)
    heard = {(one.kind, tuple(one.ranks)): one for result in measured for one in result.findings}
    worst = sorted(heard.values(), key=lambda one: -one.lost_s)[:MOST_FINDINGS]
    return msgspec.structs.replace(slowest, findings=worst)
