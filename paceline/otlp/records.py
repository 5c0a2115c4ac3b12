"""OpenTelemetry's records of ours: a finding is a log event, a step a span with a child for each phase.

Rule of this file: the same step or revision makes the same ids, so that what is sent twice can be told. The ranks of a
step share a trace. A phase's length is measured and its place in the step is not: children lie one after the other.
"""

from hashlib import blake2b

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from paceline import __version__
from paceline.events import Finding

from .step_choice import JobKey, Step

SCOPE = InstrumentationScope("paceline", __version__)
SEVERITIES = {"info": SeverityNumber.INFO, "warning": SeverityNumber.WARN, "critical": SeverityNumber.ERROR}


def log_event(finding: Finding, heard_s: float) -> ReadableLogRecord:
    """A revision of a finding, heard at ``heard_s`` (Unix time)."""
    job = finding.cluster, finding.job, finding.attempt
    record = LogRecord(
        timestamp=_ns(heard_s),
        observed_timestamp=_ns(heard_s),
        severity_number=SEVERITIES.get(finding.severity, SeverityNumber.UNSPECIFIED),
        severity_text=finding.severity,
        body=finding.summary,
        event_name="paceline.finding",
        attributes={
            "paceline.finding.id": finding.id,
            "paceline.finding.revision": finding.revision,
            "paceline.finding.kind": finding.kind,
            "paceline.finding.state": finding.state,
            "paceline.finding.cause": finding.cause,
            "paceline.finding.confidence": finding.confidence,
            "paceline.finding.ranks": finding.ranks[:64],
            "paceline.finding.nodes": finding.nodes[:64],
            "paceline.finding.first_step": finding.first_step,
            "paceline.finding.last_step": finding.last_step,
            "paceline.finding.lost_s": finding.cost.lost_s,
            "paceline.finding.lost_gpu_hours": finding.cost.gpu_hours,
        },
    )
    return ReadableLogRecord(record, _resource(job), SCOPE)


def spans(step: Step) -> list[ReadableSpan]:
    """A rank's step, and its phases."""
    resource, where = _resource(step.job), (*map(str, step.job), str(step.step))
    trace = _number(16, *where)
    context = _context(trace, *where, str(step.rank))
    start_ns, attributes = _ns(step.start_s), _attributes(step)
    made = [_span(f"step {step.step}", context, None, resource, attributes, start_ns, step.duration_s)]
    for phase, seconds in step.phases.items():
        child = _context(trace, *where, str(step.rank), phase)
        made.append(_span(phase, child, context, resource, attributes, start_ns, seconds))
        start_ns += _ns(seconds)
    return made


def _span(
    name: str,
    context: SpanContext,
    parent: SpanContext | None,
    resource: Resource,
    attributes: dict[str, str | int | bool],
    start_ns: int,
    seconds: float,
) -> ReadableSpan:
    return ReadableSpan(
        name,
        context=context,
        parent=parent,
        resource=resource,
        attributes=attributes,
        kind=SpanKind.INTERNAL,
        start_time=start_ns,
        end_time=start_ns + _ns(seconds),
        instrumentation_scope=SCOPE,
    )


def _attributes(step: Step) -> dict[str, str | int | bool]:
    return {
        "paceline.node": step.node,
        "paceline.rank": step.rank,
        "paceline.step": step.step,
        "paceline.accused": step.accused,
    }


def _resource(job: JobKey) -> Resource:
    cluster, name, attempt = job
    return Resource(
        {
            "service.name": "paceline",
            "paceline.cluster": cluster,
            "paceline.job": name,
            "paceline.attempt": attempt,
        }
    )


def _context(trace: int, *words: str) -> SpanContext:
    return SpanContext(trace, _number(8, *words), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _number(size: int, *words: str) -> int:
    """A number of ``size`` bytes that stands for ``words``, never 0."""
    return int.from_bytes(blake2b("\0".join(words).encode("utf-8", "replace"), digest_size=size).digest(), "big") or 1


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
