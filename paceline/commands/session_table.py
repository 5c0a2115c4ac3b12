"""Sessions as text for a person.

Rule of this file: what it is given comes over a network: every text is made visible, every number may be missing.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from paceline import words
from paceline.settings import CLUSTER
from paceline.visible import visible

#: Producers that one page names; the rest is for ``--json``.
MOST_SHOWN = 20


def listed(sessions: Sequence[Mapping[str, Any]]) -> str:
    """A line a session, and below why one is as it is, with what to type.

    Of a session that has received no numbered message it is not known whether any is missing.
    """
    rows = [("NAME", "STATE", "OF", "MESSAGES", "MISSING", "STARTED")]
    rows += [
        (
            _text(session, "name"),
            _text(session, "state"),
            subject(session),
            str(session.get("messages", 0)),
            _missing(session) if session.get("producers") or _missing(session) != "0" else "-",
            _when(session.get("started_s")),
        )
        for session in sessions
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    reasons = [f"{_text(one, 'name')}: {_text(one, 'reason')}" for one in sessions if one.get("reason")]
    more = [f"and {len(reasons) - MOST_SHOWN} more with a reason: --json"] if len(reasons) > MOST_SHOWN else []
    return "\n".join([*lines, *reasons[:MOST_SHOWN], *more])


def one(session: Mapping[str, Any]) -> str:
    """A session with its proof."""
    reason, host = _text(session, "reason"), _text(session, "host")
    lines = [
        f"{_text(session, 'name')}: {_text(session, 'state')}" + (f" ({reason})" if reason else ""),
        f"  records   {subject(session)}, asked for by {_text(session, 'issuer') or 'unknown'}",
        f"  since     {_when(session.get('started_s'))}, until {_when(session.get('stopped_s'))}",
        f"  holds     {session.get('messages', 0)} messages, {session.get('bytes', 0)} bytes; on {host}",
        f"  missing   {_proved(session)}",
    ]
    proof = session.get("proof") or {}
    producers = proof.get("producers") or []
    lacking = [row for row in producers if row.get("missing_count")]
    for row in (lacking or producers)[:MOST_SHOWN]:
        lines.append(f"            {_producer(row)}")
    if len(lacking or producers) > MOST_SHOWN:
        lines.append(f"            and {len(lacking or producers) - MOST_SHOWN} more; --json has them all")
    for gap in (session.get("gaps") or [])[:MOST_SHOWN] if isinstance(session.get("gaps"), list) else []:
        count = gap.get("messages")
        told = "an unknown number of" if count is None else str(count)
        lines.append(f"  gap       {told} messages of {_text(gap, 'topic')}: {_text(gap, 'reason')}")
    for silence in (session.get("silences") or [])[:MOST_SHOWN]:
        until = "until now" if silence.get("to_s") is None else f"until {_when(silence.get('to_s'))}"
        lines.append(f"  silent    {_text(silence, 'client')} since {_when(silence.get('from_s'))}, {until}")
    return "\n".join(lines)


def numbers(stat: Mapping[str, Any]) -> str:
    """What ``stat`` says of a session, as a table; "-" is what was not measured."""
    started_s = stat.get("started_s") or 0.0
    rows = [
        ("session", _text(stat, "session")),
        ("started", _when(stat.get("started_s"))),
        ("duration", _seconds(stat.get("duration_s")) if stat.get("duration_s") is not None else "not ended"),
        ("messages", str(sum((stat.get("messages_by_topic") or {}).values()))),
        ("missing", _missing({"missing": stat.get("missing_messages"), "gap_count": len(stat.get("gaps") or [])})),
        ("nodes", str(len(stat.get("nodes") or []))),
        ("GPUs", str(stat.get("gpus", 0))),
        ("GPU utilisation", _mean(stat.get("utilization_ratio"), 100.0, "%")),
        ("GPU memory", _mean(stat.get("memory_ratio"), 100.0, "%")),
        ("GPU power", _mean(stat.get("power_w"), 1.0, "W")),
        ("energy", "-" if stat.get("energy_j") is None else f"{stat['energy_j'] / 3.6e6:.3g} kWh"),
    ]
    lines = [f"{name:<16} {value}" for name, value in rows]
    for job, steps in list((stat.get("step_time_s") or {}).items())[:MOST_SHOWN]:
        typical = f"{_seconds(steps.get('p50'))}, 95 % within {_seconds(steps.get('p95'))}"
        lines.append(f"{'step time':<16} {visible(str(job))[:100]}: median {typical}, {steps.get('steps', 0)} steps")
    for found in (stat.get("findings") or [])[:MOST_SHOWN]:
        since_s = max(0.0, (found.get("first_s") or started_s) - started_s)
        what = f"{_text(found, 'kind').replace('_', ' ')}, {_text(found, 'state')}"
        lines.append(f"{'finding':<16} {what}, from {since_s:.0f} s on: {_text(found, 'summary')}")
    more = len(stat.get("findings") or []) - MOST_SHOWN
    return "\n".join(lines + ([f"{'':<16} and {more} more findings; --json has them all"] if more > 0 else []))


def _mean(values: Any, factor: float, unit: str) -> str:
    held = values if isinstance(values, Mapping) else {}
    if held.get("mean") is None or held.get("max") is None:
        return "-"
    return f"{held['mean'] * factor:.3g} {unit} on average, {held['max'] * factor:.3g} {unit} at most"


def _seconds(value: Any) -> str:
    return words.seconds(value) if isinstance(value, int | float) else "-"


def subject(session: Mapping[str, Any]) -> str:
    """What it records."""
    if session.get("job"):
        cluster = _text(session, "cluster")
        return f"job {_text(session, 'job')}" + (f" in {cluster}" if cluster not in ("", CLUSTER.default) else "")
    nodes = [visible(str(node)) for node in session.get("nodes") or []]
    return f"nodes {', '.join(nodes[:5])}{' …' if len(nodes) > 5 else ''}" if nodes else "everything"


def _proved(session: Mapping[str, Any]) -> str:
    """In words whether anything is missing."""
    producers = session.get("producers", 0)
    lacking = _missing(session)
    if lacking == "0" and not producers:
        return "not known: no numbered message was received yet"
    if lacking == "0":
        return f"nothing: every message of {producers} producers, from the first to the last number, was received"
    return f"{lacking}, of {producers} producers"


def _missing(session: Mapping[str, Any]) -> str:
    count = session.get("missing", 0)
    gaps = session.get("gap_count", 0)
    return f"{count}" + (f" and {gaps} gaps" if gaps else "")


def _producer(row: Mapping[str, Any]) -> str:
    runs = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in (row.get("missing") or [])[:10])
    lacks = f"{row['missing_count']} missing: {runs}" if row.get("missing_count") else "none missing"
    return f"{_text(row, 'producer')} on {_text(row, 'topic')}: {row.get('first')} to {row.get('last')}, {lacks}"


def _text(values: Mapping[str, Any], name: str) -> str:
    return visible(str(values.get(name) or ""))[:500]


def _when(moment_s: Any) -> str:
    if not isinstance(moment_s, int | float) or moment_s <= 0:
        return "now" if moment_s is None else "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment_s))
