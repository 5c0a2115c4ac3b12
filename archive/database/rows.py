"""From an event to the row that says it: what each column holds.

Rule of this file: pure. Events are as ``paceline.wire`` decodes them, so their numbers are bounded: whole ones fit 64
bits, times end in the year 5138, none is infinite. Their texts are of any length and content: names of more than 600
bytes are cut (``texts.name``), sentences of more than 4,000 letters, too; the event's JSON holds all of it.
"""

from typing import Any

from paceline import wire
from paceline.events import LATEST_S, Finding, JobDescribed, Suggestion
from paceline.topics import Topic

from .texts import document, name, sentence

#: A row: a value by column; JSON is written as it is to be sent, so that no depth of it is met anywhere else.
Row = dict[str, Any]
#: Nodes of one finding that it can be looked up by; its JSON holds all.
MOST_NODES = 4_096


def heard_s(timestamp_ms: int, now_s: float) -> float:
    """When a message was heard, by the clock of brokers or producers; never after now, which it is where none is told.

    >>> heard_s(1_700_000_000_500, 1.8e9), heard_s(-1, 1.8e9), heard_s(2**62, 1.8e9)
    (1700000000.5, 1800000000.0, 1800000000.0)
    """
    return min(max(now_s, 0.0), LATEST_S) if timestamp_ms < 0 else min(timestamp_ms / 1000, now_s)


def row(topic: Topic, value: bytes, at_s: float) -> Row:
    """The row that the message ``value`` of ``topic`` says, heard at ``at_s``.

    Raises:
        WireError: it is no event of this topic.
        RecursionError: it is nested too deeply.
    """
    event = wire.decode(topic, value)
    whole = plain(topic, event, value)
    match event:
        case JobDescribed():
            return of_job(event, whole, at_s)
        case Finding():
            return of_finding(event, whole, at_s)
        case _:
            return of_suggestion(event, whole)


def plain(topic: Topic, event: Any, value: bytes) -> Any:
    """The message with all its fields, those of a later version too; what is known of it where the rest is no JSON."""
    try:
        return wire.untyped(topic, value)
    except wire.WireError:
        return wire.untyped(topic, wire.encode(event))


def of_job(event: JobDescribed, whole: Any, at_s: float) -> Row:
    """The row of ``job_node``: what one node, or one part of it, says of its job."""
    return {
        "cluster": name(event.cluster),
        "job": name(event.job),
        "attempt": event.attempt,
        "teller": name(event.teller),
        "node": name(event.node),
        "producer": name(event.producer),
        "sequence": event.sequence,
        "lowest_rank": min((place.rank for place in event.places), default=None),
        "local_ranks": len(event.places),
        "world_size": event.world_size,
        "framework": name(event.framework),
        "backend": name(event.backend),
        "started_s": event.started_s,
        "ended_s": event.ended_s,
        "exit_status": event.exit_status,
        "batch_size": event.batch_size,
        "labels": document(event.labels),
        "updated_s": at_s,
        "event": document(whole),
    }


def of_finding(event: Finding, whole: Any, at_s: float) -> Row:
    """The row of ``finding``."""
    return {
        "id": name(event.id),
        "revision": event.revision,
        "cluster": name(event.cluster),
        "job": name(event.job),
        "attempt": event.attempt,
        "kind": name(event.kind),
        "state": name(event.state),
        "cause": name(event.cause),
        "severity": name(event.severity),
        "confidence": event.confidence,
        "ranks": document(event.ranks),
        "nodes": document(event.nodes),
        "devices": document(event.devices),
        "stage": event.stage,
        "rank_group": None if event.group is None else sentence(event.group),
        "first_step": event.first_step,
        "last_step": event.last_step,
        "lost_s": event.cost.lost_s,
        "gpu_hours": event.cost.gpu_hours,
        "throughput_lost_ratio": event.cost.throughput_lost_ratio,
        "summary": sentence(event.summary),
        "first_seen_s": at_s,
        "updated_s": at_s,
        "event": document(whole),
    }


def of_suggestion(event: Suggestion, whole: Any) -> Row:
    """The row of ``suggestion``; its times are those that it says of itself."""
    return {
        "id": name(event.id),
        "revision": event.revision,
        "cluster": name(event.cluster),
        "action": name(event.action),
        "target": name(event.target),
        "state": name(event.state),
        "severity": name(event.severity),
        "risk": name(event.risk),
        "job": name(event.job),
        "attempt": event.attempt,
        "ranks": document(event.ranks),
        "nodes": document(event.nodes),
        "devices": document(event.devices),
        "findings": document(event.findings),
        "title": sentence(event.title),
        "reason": sentence(event.reason),
        "gpu_hours_per_day": event.gain.gpu_hours_per_day,
        "money_per_day": event.gain.money_per_day,
        "currency": name(event.gain.currency),
        "decided_by": sentence(event.by),
        "because": sentence(event.because),
        "created_s": event.created_s,
        "updated_s": event.updated_s,
        "expires_s": event.expires_s,
        "event": document(whole),
    }


def of_nodes(finding: str, nodes: list[str]) -> list[Row]:
    """The rows of ``finding_node``: by which nodes the finding of this id is found.

    >>> of_nodes("straggler-1", ["b", "a", "b"])
    [{'finding': 'straggler-1', 'node': 'b'}, {'finding': 'straggler-1', 'node': 'a'}]
    """
    kept = dict.fromkeys(name(node) for node in nodes[:MOST_NODES])
    return [{"finding": finding, "node": node} for node in kept]
