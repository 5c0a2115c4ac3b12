"""What is said of a node that lies under its rating.

Rule of this file: words; no judgement is made here.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from paceline.events import Coverage, Evidence
from paceline.rated_names import CPU, HOST
from paceline.words import quantity

from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured
from .below import Low, bar_of

#: Numbers that are told, and those that are told in the sentence.
_MOST_TOLD, _MOST_NAMED = 16, 3
_SURE, _UNSURE = 0.9, 0.6
#: What to look at, by how the name of the speed begins.
LOOK_AT = {
    "gemm": "clocks, power cap and cooling of the device, and what else runs on it",
    "memory": "memory clocks and errors; of a processor's memory missing or slow modules and NUMA settings",
    "pcie": "the width and generation of the link (nvidia-smi -q -d PCIE, lspci -vv)",
    "disk": "the disk and who else uses it (smartctl, iostat)",
    "all_reduce": "NVLink or the network: links that are down or slow, counters of errors, NCCL's transport",
}


class BelowEvidence(Measured, frozen=True, kw_only=True):
    """The speeds that lie too low, the lowest first, and how many were measured while others used the machine."""

    lows: tuple[Low, ...]
    busy: int = 0


BelowEpisode = Episode[str, BelowEvidence]


def said(episode: BelowEpisode) -> Said:
    """What is said of ``episode``, as it stands; its subject is the node."""
    found, node = episode.measured.lows, episode.subject
    devices = tuple(sorted({low.key.device for low in found} - {CPU, HOST}))
    subject = Subject("below_rating", node, nodes=(node,), devices=devices, has_steps=False)
    named = "; ".join(_sentence(low) for low in found[:_MOST_NAMED])
    more = len(found) - _MOST_NAMED
    look = "; ".join(text for begins, text in LOOK_AT.items() if any(low.key.name.startswith(begins) for low in found))
    summary = f"{node} lies under its rating: {named}" + (f"; and {more} more speeds" if more > 0 else "") + "."
    summary += f" Look at {look}." if look else ""
    sure = episode.state != "suspected"
    return Said(
        subject,
        list(_numbers(found)),
        summary,
        over=f"{node} lies under its rating no more.",
        severity="warning" if sure else "info",
        confidence=_SURE if sure else _UNSURE,
    )


def coverage(episode: BelowEpisode) -> Coverage:
    """What it rests on: measurements, of no ranks."""
    seen = episode.measured
    notes = []
    nodes = max((low.nodes for low in seen.lows if low.against == "kind"), default=0)
    if nodes:
        notes.append(f"{nodes} nodes of the same kind were measured")
    if not all(low.busy_known for low in seen.lows):
        notes.append("whether others used the machine meanwhile was not measured")
    if seen.busy:
        notes.append(f"{seen.busy} speeds were measured while others used the machine: not judged")
    return Coverage(ranks_expected=0, ranks_heard=0, events_missing=0, notes=notes)


def _sentence(low: Low) -> str:
    key = low.key
    size = f" of {quantity(key.size_bytes, 'bytes')}" if key.size_bytes >= 0 else ""
    ranks = f" among {key.ranks} ranks" if key.ranks >= 0 else ""
    device = "" if key.device in (CPU, HOST) else f"{key.device}: "
    did, usual = quantity(low.value, key.unit), quantity(low.usual, key.unit)
    return f"{device}{key.name}{size}{ranks} {did}, {low.short_ratio:.0%} under {_whose(low)}, {usual}"


def _whose(low: Low) -> str:
    if low.against == "kind":
        return f"the median of {low.nodes} nodes of its kind ({low.kind})"
    return f"its own best, of {datetime.fromtimestamp(low.best_s, UTC):%-d %b %Y}"


def _numbers(found: tuple[Low, ...]) -> Iterator[Evidence]:
    for low in found[:_MOST_TOLD]:
        rule = f"{low.key.device}: over {bar_of(low.key.name):.0%} under {_whose(low)}, by all of both intervals"
        yield number(low.key.name, low.value, low.key.unit, low.usual, rule)
