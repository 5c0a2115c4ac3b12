"""Sessions in words, and side by side.

Rule of this file: pure. What it is given was told by another process: every field may be missing or of another kind.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from paceline import words

from .snapshot import name_of

Tone = Literal["good", "wait", "lost", "ended"]
TONES: dict[str, Tone] = {
    "starting": "wait",
    "recording": "good",
    "stopping": "wait",
    "stopped": "ended",
    "interrupted": "lost",
    "failed": "lost",
    "damaged": "lost",
}
#: What may be asked of a session, by its state.
ACTIONS = {
    "starting": ("stop",),
    "recording": ("stop",),
    "stopping": (),
    "stopped": ("delete",),
    "interrupted": ("recover", "delete"),
    "failed": ("recover", "delete"),
    "damaged": ("delete",),
}


def text(session: Mapping[str, Any], name: str) -> str:
    """A field as text, cut where it is too long."""
    value = session.get(name)
    return value[:300] if isinstance(value, str) else ""


def number(session: Mapping[str, Any], name: str) -> float | None:
    """A field as a number; None where it is none."""
    value = session.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def state(session: Mapping[str, Any]) -> tuple[Tone, str]:
    """How it stands, and in which colour."""
    name = text(session, "state") or "unknown"
    return TONES.get(name, "wait"), name


def job_name(session: Mapping[str, Any]) -> str:
    """The job that it records, as pages call it; empty where it records no single one."""
    job = text(session, "job")
    return name_of(text(session, "cluster") or "default", job) if job else ""


def subject(session: Mapping[str, Any]) -> str:
    """What it records.

    >>> subject({"job": "resnet-7", "cluster": "east"}), subject({"nodes": ["n1", "n2"]}), subject({})
    ('job east/resnet-7', 'nodes n1, n2', 'everything')
    """
    if job := job_name(session):
        return f"job {job}"
    nodes = session.get("nodes")
    named = [str(node)[:100] for node in nodes[:5]] if isinstance(nodes, list) else []
    return f"nodes {', '.join(named)}" if named else "everything"


def holds(session: Mapping[str, Any], now_s: float) -> str:
    """What is in it, since when, and whether anything is missing."""
    messages, lacks, gaps = (int(number(session, name) or 0) for name in ("messages", "missing", "gap_count"))
    started_s, stopped_s = number(session, "started_s"), number(session, "stopped_s")
    lasted = ""
    if started_s:
        lasted = f"for {words.seconds(max(0.0, (stopped_s or now_s) - started_s))}"
        lasted += f", started {words.age(now_s, started_s)}" if stopped_s else ""
    missing = [f"{words.many(lacks, 'message')} missing"] if lacks else []
    missing += [words.many(gaps, "gap")] if gaps else []
    proof = ", ".join(missing) or "nothing missing"
    silent = session.get("silent")
    quiet = f"{len(silent)} nodes silent" if isinstance(silent, list) and silent else ""
    return " · ".join(filter(None, [f"{messages:,} messages", lasted, proof, quiet]))


#: Rows of the comparison: label, path in the numbers, unit.
_ROWS = (
    ("Duration", ("duration_s",), "s"),
    ("GPUs", ("gpus",), ""),
    ("Utilisation, mean", ("utilization_ratio", "mean"), "ratio"),
    ("Memory, mean", ("memory_ratio", "mean"), "ratio"),
    ("Power a GPU, mean", ("power_w", "mean"), "W"),
    ("Energy", ("energy_j",), "J"),
    ("Missing messages", ("missing_messages",), ""),
)


def compared(sessions: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Label and one cell a session, for each row that any of them has; step times by job at the end."""
    rows = [(label, [_cell(_at(one, path), unit) for one in sessions]) for label, path, unit in _ROWS]
    jobs = sorted({job for one in sessions for job in _mapping(one, "step_time_s")})[:20]
    for job in jobs:
        for quantile, label in (("p50", "median step"), ("p95", "95 % of steps within")):
            cells = [_cell(_at(one, ("step_time_s", job, quantile)), "s") for one in sessions]
            rows.append((f"{job[:60]}: {label}", cells))
    rows.append(("Findings", [str(len(one.get("findings") or [])) for one in sessions]))
    return [row for row in rows if any(cell != words.NONE for cell in row[1])]


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    held = value.get(name)
    return held if isinstance(held, dict) else {}


def _at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _cell(value: Any, unit: str) -> str:
    if not isinstance(value, int | float):
        return words.NONE
    return words.quantity(float(value), unit) if unit else f"{value:,.0f}"
