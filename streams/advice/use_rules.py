"""From an hour of a job's GPUs to what it asks for: fewer GPUs, more, a larger batch, mixed precision.

Rule of this file: pure; a table of rules, each asked about an hour. Each has a bar, and a second one behind it where
what was suggested is taken back, so that an hour on the edge does not go to and fro.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from paceline.events import Evidence, Severity
from paceline.events.suggestions import Action, Gain, Risk
from paceline.words import many

from ..episodes.finding import number
from .config import AdviceConfig
from .gains import of_freed_gpus, of_throughput
from .gpu_use import HourOfUse
from .job_facts import JobFacts
from .proposal import Proposal

#: Kinds of jobs that wait for somebody, so that GPUs which are never free keep somebody waiting.
SERVING = frozenset({"inference", "interactive"})
#: What published runs gain from 16 bits, least and most (Micikevicius et al. 2018: 1.1 to 3 times and more).
_MIXED_LOW, _MIXED, _MIXED_HIGH = 0.1, 0.5, 2.0
_MOST_NAMED = 64


class Asked(NamedTuple):
    """What a rule is asked about; ``slack`` moves its bars out, for what was suggested already."""

    job: str
    kind: str
    hour: HourOfUse
    config: AdviceConfig
    slack: float


class UseRule(NamedTuple):
    """A rule: whether it holds, its words, and what it should bring."""

    action: Action
    holds: Callable[[Asked], bool]
    title: str
    reason: Callable[[Asked], str]
    gain: Callable[[Asked], Gain]
    evidence: Callable[[Asked], list[Evidence]]
    steps: tuple[str, ...]
    risk: Risk
    risk_reason: str
    severity: Severity = "warning"


def _consolidates(asked: Asked) -> bool:
    hour, config = asked.hour, asked.config
    low = hour.busy < config.low_use + asked.slack or hour.idle > config.idle_share - asked.slack
    return low and hour.busy < config.full_use


def _scales(asked: Asked) -> bool:
    return asked.kind in SERVING and asked.hour.busy > asked.config.full_use - asked.slack


def _has_room(asked: Asked) -> bool:
    hour, config = asked.hour, asked.config
    if asked.kind != "training" or hour.memory_most is None:
        return False
    used = hour.busy if hour.sm is None else hour.sm
    return (
        hour.busy >= config.low_use
        and used < config.batch_use + asked.slack
        and hour.memory_most < config.batch_memory + asked.slack
    )


def _leaves_tensor_cores(asked: Asked) -> bool:
    hour, config = asked.hour, asked.config
    if asked.kind != "training" or hour.tensor is None or hour.sm is None:
        return False
    return hour.tensor < config.tensor_ratio and hour.sm >= config.tensor_sm_ratio - asked.slack


def _number(name: str, value: float, rule: str) -> Evidence:
    return number(name, round(value, 4), "ratio", None, rule)


def _use(asked: Asked) -> list[Evidence]:
    hour, config = asked.hour, asked.config
    return [
        _number("gpu_busy", hour.busy, f"mean over {hour.windows} GPU-minutes; reported under {config.low_use:g}"),
        _number(
            "gpu_idle", hour.idle, f"share of minutes under {config.idle_ratio:g}; reported from {config.idle_share:g}"
        ),
    ]


def _full(asked: Asked) -> list[Evidence]:
    hour = asked.hour
    return [
        _number(
            "gpu_busy", hour.busy, f"mean over {hour.windows} GPU-minutes; reported from {asked.config.full_use:g}"
        ),
        _number("gpu_busy_low", hour.busy_low, "least mean of ten minutes"),
    ]


def _room(asked: Asked) -> list[Evidence]:
    hour, config = asked.hour, asked.config
    numbers = [
        _number("gpu_busy", hour.busy, f"mean over {hour.windows} GPU-minutes; reported from {config.low_use:g} on"),
        _number("memory", hour.memory_most or 0.0, f"most of any GPU; reported under {config.batch_memory:g}"),
    ]
    return numbers + (
        [] if hour.sm is None else [_number("sm_active", hour.sm, f"reported under {config.batch_use:g}")]
    )


def _tensor(asked: Asked) -> list[Evidence]:
    hour, config = asked.hour, asked.config
    return [
        _number("tensor_active", hour.tensor or 0.0, f"mean of the hour; reported under {config.tensor_ratio:g}"),
        _number("sm_active", hour.sm or 0.0, f"mean of the hour; reported from {config.tensor_sm_ratio:g}"),
    ]


def _freed(asked: Asked) -> Gain:
    """GPUs that the same work leaves free when those that remain are as busy as they should be."""
    hour, config = asked.hour, asked.config

    def free(busy: float) -> float:
        return hour.gpus - min(max(math.ceil(hour.gpus * busy / config.aimed_use - 1e-9), 1), hour.gpus)

    # Of one GPU a share is free: it can be cut (MIG) or shared.
    freed, low, high = map(free, (hour.busy, hour.busy_high, hour.busy_low))
    if hour.gpus == 1:
        freed, low, high = (
            max(1.0 - busy / config.aimed_use, 0.0) for busy in (hour.busy, hour.busy_high, hour.busy_low)
        )
    are, enough = ("is", "a part of it is") if hour.gpus == 1 else ("are", "fewer are")
    basis = (
        f"{many(hour.gpus, 'GPU')} {are} {hour.busy:.0%} busy; at {config.aimed_use:.0%} {enough} enough; the interval "
        "is from the least and the most busy ten minutes of the hour"
    )
    return of_freed_gpus(freed, low, high, basis, config)


def _spread(asked: Asked) -> Gain:
    hour, config = asked.hour, asked.config
    more = max(math.ceil(hour.gpus * hour.busy / config.aimed_use) - hour.gpus, 1)
    ratio = more / hour.gpus
    basis = f"{many(more, 'more GPU')} would be {config.aimed_use:.0%} busy, if work waits"
    return of_throughput(ratio, 0.0, ratio, basis)


def _fuller(asked: Asked) -> Gain:
    hour = asked.hour
    most = max(0.95 / max(hour.sm or hour.busy, 0.05) - 1.0, 0.0)
    return of_throughput(most / 2, 0.0, most, "from nothing to GPUs that are 95 % busy; half of that is expected")


def _mixed(asked: Asked) -> Gain:
    return of_throughput(
        _MIXED, _MIXED_LOW, _MIXED_HIGH, "what published runs gain from 16 bits; yours is not measured"
    )


USE_RULES = (
    UseRule(
        "scale_out",
        _scales,
        "Give {job} more GPUs: its GPUs are fully used",
        lambda asked: f"Its GPUs were {asked.hour.busy:.0%} busy over an hour, and it is {asked.kind}: requests wait.",
        _spread,
        _full,
        (
            "Start another replica, or split the load over more GPUs.",
            "Look at the queue of its requests first: fully used GPUs without a queue need nothing.",
        ),
        "low",
        "more GPUs cost more",
    ),
    UseRule(
        "consolidate",
        _consolidates,
        "Put the work of {job} onto fewer GPUs",
        lambda asked: (
            f"Its {many(asked.hour.gpus, 'GPU')} {'was' if asked.hour.gpus == 1 else 'were'} "
            f"{asked.hour.busy:.0%} busy over an hour, and idle in "
            f"{asked.hour.idle:.0%} of the minutes."
        ),
        _freed,
        _use,
        (
            "Ask for fewer GPUs, share them between jobs (MIG, MPS, time slices), or use larger batches.",
            "Look first for what the GPUs wait for: input, the host, other ranks.",
        ),
        "medium",
        "the job starts again, and has less room when more work comes",
    ),
    UseRule(
        "mixed_precision",
        _leaves_tensor_cores,
        "Let {job} use the tensor cores: train in 16 bits",
        lambda asked: (
            f"Its multiprocessors were active for {asked.hour.sm or 0.0:.0%} of an hour and its tensor cores for "
            f"{asked.hour.tensor or 0.0:.2%}."
        ),
        _mixed,
        _tensor,
        (
            "torch.autocast with bfloat16, or torch.set_float32_matmul_precision('high') for TF32.",
            "Shapes that are multiples of 8; compare the loss over some hundred steps.",
        ),
        "medium",
        "fewer bits can change how a model converges: compare the loss",
    ),
    UseRule(
        "larger_batch",
        _has_room,
        "Try a larger batch in {job}: its GPUs have room",
        lambda asked: (
            f"Its GPUs were {asked.hour.busy:.0%} busy over an hour and used at most "
            f"{asked.hour.memory_most or 0.0:.0%} of their memory."
        ),
        _fuller,
        _room,
        (
            "Raise the batch size a GPU until its memory is 80 % used, or the samples a second no longer rise.",
            "Scale the learning rate with it, with a warm-up, and compare the loss by samples, not by steps.",
        ),
        "medium",
        "a larger batch can change how a model converges: compare the loss",
    ),
)


def source_of(action: str, job: str) -> str:
    """The source of what an hour of ``job`` asks for."""
    return f"hour {action} {job}"


def propose(
    rule: UseRule, job: str, facts: JobFacts, hour: HourOfUse, config: AdviceConfig, *, known: bool
) -> Proposal | None:
    """What ``rule`` asks for after an hour of ``job``; ``known``: it asked for that before."""
    kind = facts.is_kind(config.kind_probability)
    asked = Asked(job, kind, hour, config, config.clear_ratio if known else 0.0)
    if not rule.holds(asked):
        return None
    return Proposal(
        action=rule.action,
        target=f"job:{job}",
        source=source_of(rule.action, job),
        began=f"{int(hour.began_s)}",
        severity=rule.severity,
        job=job,
        attempt=facts.attempt,
        nodes=hour.nodes[:_MOST_NAMED],
        devices=hour.devices[:_MOST_NAMED],
        title=rule.title.format(job=f"job {job[:100]}"),
        reason=rule.reason(asked),
        evidence=tuple(rule.evidence(asked)),
        gain=rule.gain(asked),
        risk=rule.risk,
        risk_reason=rule.risk_reason,
        steps=rule.steps,
    )
