"""The verdicts on a job, with cost, coverage and evidence, and the thresholds that they are reached with.

Kinds, states, causes and severities are those of this version. A newer one may have more, so every reader takes words
that it does not know, and shows them as they are.
"""

from typing import Literal

import msgspec

from paceline.events.base import Event, LongWord, Number, Rank, Seconds, Whole, Word

FindingKind = Literal[
    "straggler",
    "stage_imbalance",
    "data_imbalance",
    "load_imbalance",
    "communication_bound",
    "data_bound",
    "hang",
    "device_fault",
    "slowdown",
    "idle_device",
    "out_of_memory_risk",
    "out_of_memory",
    "balanced_straggler",
    "configuration_mismatch",
    "node_silent",
    "below_rating",
    "insufficient_data",
    "died",
    "collective_mismatch",
    "order_deadlock",
    "network",
    "waiting",
]
#: Verdicts on a job's ranks, even where they count no steps, as those that its logs give.
OF_A_JOB = frozenset(
    {
        "hang",
        "died",
        "collective_mismatch",
        "order_deadlock",
        "network",
        "waiting",
        "configuration_mismatch",
        "balanced_straggler",
    }
)
FindingState = Literal["suspected", "confirmed", "recovered"]
#: States in which it still holds, or may.
OPEN_FINDINGS: tuple[FindingState, ...] = ("suspected", "confirmed")
#: What a reader must see first; a state of a newer version is one to look at, like a suspicion.
STATE_ORDER = {"confirmed": 0, "suspected": 1, "recovered": 2}
Cause = Literal[
    "worker_compute",
    "host_bound",
    "throttling",
    "cpu_contention",
    "input_pipeline",
    "garbage_collection",
    "link",
    "memory_pressure",
    "pipeline_stage",
    "sequence_length",
    "configuration",
    "unknown",
]
#: Each cause in a few words, as pages and tables name it; its rule and advice stand in the analysis.
CAUSE_WORDS: dict[str, str] = {
    "worker_compute": "slow computation on the worker",
    "host_bound": "GPU waiting for its host",
    "throttling": "GPU throttling",
    "cpu_contention": "CPU contention",
    "input_pipeline": "slow input pipeline",
    "garbage_collection": "garbage collection",
    "link": "slow network link",
    "memory_pressure": "memory pressure",
    "pipeline_stage": "uneven pipeline stages",
    "sequence_length": "uneven sequence lengths",
    "configuration": "different configuration",
    "unknown": "cause unknown",
}
#: What to do about each cause, in the order in which an engineer would try it.
CAUSE_ADVICE: dict[str, str] = {
    "garbage_collection": "gc.freeze() after set-up, or gc.disable() and gc.collect() on every rank at the same step",
    "cpu_contention": ("find other load on that rank's cores (top, taskset -p PID); move it, or pin the ranks apart"),
    "input_pipeline": (
        "give that rank's DataLoader more workers or prefetching, and check the disk or network it reads from"
    ),
    "worker_compute": (
        "run the same step alone on that device. Slow again: check the device (clocks, power, other users). "
        "Fast: check that rank's code path or data"
    ),
    "host_bound": (
        "check that rank's host, not its GPU: other load on its cores, Python between the launches, "
        "synchronising calls (.item(), prints); CUDA graphs or torch.compile launch less"
    ),
    "throttling": (
        "check that GPU's cooling and power (nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER), and what "
        "shares its power or air"
    ),
    "memory_pressure": "free memory on that node (free -m, smem): fewer loader workers, no other jobs, no swap",
    "link": "check that node's cable, switch port and NIC counters (ip -s link, ethtool -S)",
    "pipeline_stage": "move layers from the longest stage to a shorter one",
    "sequence_length": "sort or pack the batches by length",
    "configuration": "set the same versions and variables on every node, and restart the job",
    "unknown": "record a minute with paceline run --record and compare that rank's phases with a peer's",
}
#: The evidence that a control group's quota stopped a rank, and the least share of its periods that explains it.
CPU_THROTTLED, QUOTA_LEAST = "cpu_throttled", 0.05
#: What to do then, in place of looking for other programs.
QUOTA_ADVICE = (
    "raise its CPU limit (Kubernetes: resources.limits.cpu; docker update --cpus N; Slurm: --cpus-per-task), "
    "or use fewer loader workers"
)
#: The evidence that ranks of another run report under the same name and attempt.
OTHER_RANKS = "other_ranks"
Severity = Literal["info", "warning", "critical"]
#: The least first.
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
#: What a reader must see first; where one of a newer version belongs is for its reader.
SEVERITY_ORDER: dict[str, int] = {word: place for place, word in enumerate(reversed(SEVERITIES))}


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What the episode has cost so far."""

    lost_s: Seconds
    gpu_hours: Number
    throughput_lost_ratio: Number


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What the verdict rests on. ``notes`` names what was odd: a silent rank, ranks that disagree, clocks apart."""

    ranks_expected: Whole
    ranks_heard: Whole
    events_missing: Whole
    notes: list[str] = []


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One number, the peers' number beside it, and the rule that used them; ``rank`` where it is one rank's."""

    name: LongWord
    value: Number
    unit: LongWord
    peers: Number | None
    rule: LongWord
    rank: Rank | msgspec.UnsetType = msgspec.UNSET


class Finding(Event, frozen=True, kw_only=True):
    """A verdict on a job. Key: job.

    ``id`` is a function of job, attempt, kind, subject and first step, so the same episode has the same id in every
    replay; a job that is started again under its name has ids of its own. ``revision`` counts 1, 2, … within an id: a
    consumer that upserts by (``id``, ``revision``) sees each once.
    ``ranks`` are those accused; it is empty where hardware is exonerated. Where code is the place, ``line`` is where
    those accused stood and ``others_line`` where the others waited (file, line, function). ``victims`` only waited, or
    lost a peer. ``seq`` and ``operation`` are of the collective that did not end, ``sure`` is certain,
    likely or unsure, and ``next`` says what to do, or what would decide. ``replaced_by`` is the id of the finding that
    took the place of one that has ended for that reason alone: what it reported goes on.
    """

    id: LongWord
    revision: Whole
    kind: FindingKind | Word
    state: FindingState | Word
    cluster: LongWord
    job: LongWord
    attempt: Whole
    cause: Cause | Word
    ranks: list[Whole]
    stage: Whole | None
    group: LongWord | None
    nodes: list[LongWord]
    devices: list[LongWord]
    first_step: Whole
    last_step: Whole
    severity: Severity | Word
    confidence: Number
    cost: Cost
    coverage: Coverage
    evidence: list[Evidence]
    exonerated: list[str]
    summary: str
    line: str | msgspec.UnsetType | None = msgspec.UNSET
    others_line: str | msgspec.UnsetType | None = msgspec.UNSET
    worker_line: str | msgspec.UnsetType | None = msgspec.UNSET
    victims: list[Whole] | msgspec.UnsetType = msgspec.UNSET
    seq: Whole | msgspec.UnsetType | None = msgspec.UNSET
    operation: LongWord | msgspec.UnsetType | None = msgspec.UNSET
    sure: str | msgspec.UnsetType = msgspec.UNSET
    next: str | msgspec.UnsetType | None = msgspec.UNSET
    replaced_by: LongWord | msgspec.UnsetType = msgspec.UNSET


def is_of_nodes(finding: Finding) -> bool:
    """Whether ``finding`` is of nodes and outlasts the job that runs there: samples of a node count no steps."""
    return finding.first_step < 0 and bool(finding.nodes) and finding.kind not in OF_A_JOB


def is_of_two_runs(finding: Finding) -> bool:
    """Whether ``finding`` is that two runs report under one name at the same time."""
    return finding.kind == "configuration_mismatch" and any(one.name == OTHER_RANKS for one in finding.evidence)


def advice_on(finding: Finding) -> str:
    """What to do about ``finding``: what it says itself, else what its cause asks for; "" where nothing is known."""
    if finding.next:
        return finding.next
    quota = any(one.name == CPU_THROTTLED and one.value >= QUOTA_LEAST for one in finding.evidence)
    if finding.cause == "cpu_contention" and quota:
        return QUOTA_ADVICE
    return CAUSE_ADVICE.get(finding.cause, "")


class Thresholds(Event, frozen=True, kw_only=True):
    """Thresholds of the diagnosis changed for one attempt of a job, also while it runs. Key: job; compacted.

    ``values`` names thresholds of ``paceline thresholds --list``; those it leaves out keep their defaults.
    """

    cluster: LongWord
    job: LongWord
    attempt: Whole
    values: dict[Word, Number]
