"""From a confirmed finding to what it asks for, by the table; and from stragglers that come again to a case against
the hardware.

Rule of this file: pure; what follows from which finding stands in ``finding_table``.
"""

from collections import Counter
from collections.abc import Callable

import msgspec

from paceline.accused_units import accused_ranks
from paceline.events import MEDIUM_WINDOW_S, Finding
from paceline.events.findings import is_of_nodes
from paceline.events.suggestions import Gain
from paceline.gpu.uuids import in_cluster
from paceline.visible import visible

from ..episodes.finding import number
from . import apply_commands
from .config import AdviceConfig
from .finding_table import FINDING_TABLE, POWER_CAP, Commands, FindingRow, row_of
from .gains import of_freed_gpus, of_lost_time, with_throughput
from .job_facts import JobFacts, Jobs
from .proposal import Proposal
from .stage_cut import StageCut, stage_cut

#: Of what a finding names, so much is told.
MOST_NAMED, MOST_EVIDENCE = 64, 16
_SHOWN = 4
_LONGEST_NAME, _LONGEST_NEXT = 100, 300


def propose(finding: Finding, jobs: Jobs, config: AdviceConfig) -> Proposal | None:
    """What ``finding``, which is confirmed, asks for; None where nothing is to be done about it."""
    row = row_of(finding.kind, _cause(finding))
    if row is None or finding.confidence < config.confidence:
        return None
    if finding.kind == "died" and not finding.ranks:
        return None  # It was ended from outside: nothing in it is to be mended.
    if row.critical and (finding.severity != "critical" or finding.confidence < config.fault_confidence):
        return None
    if finding.kind == "out_of_memory_risk" and not finding.devices:
        row = FINDING_TABLE["straggler", "memory_pressure"]
    target = _target(row, finding)
    if target is None:
        return None
    facts = jobs.of(finding.job)
    of_attempt = not is_of_nodes(finding)
    gain, cut = _gain(row, finding, facts, config), _cut(finding, facts, config)
    return Proposal(
        action=row.action,
        target=target,
        source=finding.id,
        began=finding.id,
        finding=finding.id,
        severity="critical" if finding.severity == "critical" else "warning",
        job=finding.job,
        attempt=finding.attempt if of_attempt else facts.attempt,
        of_attempt=of_attempt,
        ended=of_attempt and facts.over and facts.attempt == finding.attempt,
        nodes=tuple(finding.nodes[:MOST_NAMED]),
        devices=tuple(finding.devices[:MOST_NAMED]),
        ranks=tuple(finding.ranks[:MOST_NAMED]),
        title=_title(row, finding),
        reason=finding.summary[:2000],
        evidence=tuple(finding.evidence[:MOST_EVIDENCE]),
        gain=gain if cut is None else with_throughput(gain, cut.ratio, cut.low, cut.high, cut.basis),
        adds=row.loss == "idle",
        lost_ratio=1.0 if row.loss == "standstill" else finding.cost.throughput_lost_ratio,
        risk=row.risk,
        risk_reason=row.risk_reason,
        steps=(*_next(finding), *(cut.words if cut is not None else ()), *row.steps),
        apply=tuple(commands(row.commands, finding, facts, jobs)),
        manifest=row.manifest,
        afterwards=row.afterwards,
    )


def replaces(finding: Finding, faults: int, jobs: Jobs, config: AdviceConfig) -> Proposal | None:
    """The case for another GPU in place of one that had so many critical faults, one after the other."""
    fault = propose(finding, jobs, config)
    if fault is None or faults < config.repeated_faults:
        return None
    device = in_cluster("".join(finding.nodes[:1]), finding.devices[0])
    told = number(
        "faults", faults, "faults", 0.0, f"critical ones, each over before the next; from {config.repeated_faults}"
    )
    return msgspec.structs.replace(
        fault,
        action="replace_device",
        target=f"device:{device}",
        source=f"faults of {device}",
        severity="critical",
        title=f"Replace {_some(finding.devices)} on {_some(finding.nodes)}: it failed {faults} times",
        evidence=(told, *fault.evidence[: MOST_EVIDENCE - 1]),
        risk="high",
        risk_reason="the node is out of service until the GPU is replaced",
        steps=(
            "Drain the node, and move the job that runs there at its next checkpoint.",
            "Have the GPU replaced: resets have not helped. Keep nvidia-bug-report.sh's output for the vendor.",
        ),
    )


def _title(row: FindingRow, finding: Finding) -> str:
    """The title of ``row``, with whom ``finding`` accuses: one, several or none."""
    accused = accused_ranks(finding) or len(finding.devices) or len(finding.nodes)
    several = (accused if "{where}" in row.title else len(finding.nodes)) > 1
    title = (row.title_many if several else "" if accused else row.title_none) or row.title
    nodes = _some(finding.nodes) or "the node"
    return title.format(job=f"job {_name(finding.job)}", where=where(finding), nodes=nodes)


def where(finding: Finding) -> str:
    """Whom a finding accuses, in words."""
    nodes = f" on {_some(finding.nodes)}" if finding.nodes else ""
    if finding.ranks:
        ranks = ", ".join(str(rank) for rank in finding.ranks[:_SHOWN])
        count = accused_ranks(finding)
        more = f" and {count - _SHOWN:,} more" if count > _SHOWN else ""
        return f"rank{'s'[: count - 1]} {ranks}{more}{nodes}"
    if finding.devices:
        return f"{_some(finding.devices)}{nodes}"
    return _some(finding.nodes) or f"job {_name(finding.job)}"


def _cause(finding: Finding) -> str:
    """Its cause; throttling at the power cap, which is a setting and no fault, apart."""
    if finding.cause == "throttling":
        told = next((one.rule for one in finding.evidence if one.name == "throttled"), finding.summary)
        return POWER_CAP if "power cap" in told.partition(":")[0] or "(power cap)" in finding.summary else "throttling"
    return finding.cause


def _target(row: FindingRow, finding: Finding) -> str | None:
    if row.on == "node" and finding.nodes:
        return f"node:{finding.nodes[0]}"
    if finding.job:
        return f"job:{finding.job}"
    return f"node:{finding.nodes[0]}" if finding.nodes else None


def _gain(row: FindingRow, finding: Finding, facts: JobFacts, config: AdviceConfig) -> Gain:
    if row.loss == "idle":
        gpus = max(len(finding.devices), 1)
        return of_freed_gpus(gpus, 0.0, gpus, "GPUs that do nothing, were they free all day", config)
    lost = 1.0 if row.loss == "standstill" else finding.cost.throughput_lost_ratio
    gpus = facts.world_size or max(finding.coverage.ranks_expected, finding.coverage.ranks_heard)
    if row.loss == "unmeasured" or not lost > 0.0 or gpus <= 0:
        return Gain(basis="it is a risk, or no steps were reported")
    lasted_s = finding.cost.lost_s / lost
    watched_s = max(facts.windows * MEDIUM_WINDOW_S, lasted_s, 1.0)
    return of_lost_time(lost, gpus, finding.confidence, lasted_s / watched_s, config)


def _cut(finding: Finding, facts: JobFacts, config: AdviceConfig) -> StageCut | None:
    """Another cut, where stages are uneven and each of them was told of."""
    if finding.kind != "stage_imbalance":
        return None
    step_s = sorted(facts.pace)[len(facts.pace) // 2] if facts.pace else 0.0
    return stage_cut(finding, facts.labels, step_s, config.restart_s, config.whole_layers)


def _next(finding: Finding) -> tuple[str, ...]:
    """What the finding itself says is to be done next, with node and process where they are known."""
    text = visible(finding.next or "")[:_LONGEST_NEXT]
    return (f"Next: {text}",) if text else ()


def _on_nodes(command: str) -> Callable[[Finding], list[str]]:
    return lambda finding: [line for node in finding.nodes[:_SHOWN] for line in apply_commands.on_node(node, command)]


_LOOKS: dict[Commands, Callable[[Finding], list[str]]] = {
    "gpu": _on_nodes("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK"),
    "power": _on_nodes("nvidia-smi -q -d POWER"),
    "memory": _on_nodes("free -m"),
    "cpu": _on_nodes("top -b -n 1 -w 120"),
    "measure": _on_nodes("paceline benchmark"),
    "link": _on_nodes("ip -s link"),
}


def commands(kind: Commands, finding: Finding, facts: JobFacts, jobs: Jobs) -> list[str]:
    """The commands of a row, for the nodes and processes that ``finding`` names."""
    if kind in ("gpu", "power") and _on_cpus(finding):
        kind = "cpu"
    if kind in _LOOKS:
        return _LOOKS[kind](finding)
    nodes = finding.nodes[:_SHOWN]
    scheduler = apply_commands.scheduler_of(facts.labels) or jobs.scheduler
    if kind == "drain":
        return [line for node in nodes for line in apply_commands.drain(node, _why(finding), scheduler)]
    if kind == "elsewhere":
        look = [line for node in nodes for line in apply_commands.on_node(node, "ip -s link")]
        return apply_commands.elsewhere(finding.job, tuple(nodes), facts.labels) + look
    if kind == "node":
        return [line for node in nodes for line in apply_commands.look_at_node(node, scheduler)]
    if kind == "dump":
        # Where nobody is accused, the stacks of those who wait show it.
        ranks = finding.ranks or finding.victims or []
        places = [facts.places[rank] for rank in ranks[:_SHOWN] if rank in facts.places]
        dumps = [line for node, pid in places for line in apply_commands.on_node(node, f"py-spy dump --pid {pid}")]
        return dumps + apply_commands.restart(finding.job, facts.labels)
    return []


#: What names no device that could be slow in another job as well.
_NO_DEVICE = frozenset({"cpu", ""})


def _on_cpus(finding: Finding) -> bool:
    """Whether the ranks that it accuses compute on no GPU, by their own word."""
    return set(finding.devices) == {"cpu"}


def _why(finding: Finding) -> str:
    return finding.summary.partition(", since")[0][:120]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(_name, names[:_SHOWN])) + more


def _name(name: str) -> str:
    return name[:_LONGEST_NAME]


def against_node(node: str, by_job: dict[str, Finding], jobs: Jobs) -> list[Finding]:
    """Those findings of ``by_job`` that are evidence against ``node`` itself."""
    if not jobs.know_another(node):
        return []
    accused = Counter(device for one in by_job.values() for device in set(one.devices) - _NO_DEVICE)
    return [
        one
        for job, one in by_job.items()
        if jobs.of(job).beyond(node) or any(accused[device] > 1 for device in one.devices)
    ]


def repeated(node: str, by_job: dict[str, Finding], jobs: Jobs, config: AdviceConfig) -> Proposal | None:
    """The case against ``node``, if there is one, from each job's newest finding of a slow rank there.

    A job speaks against the node where its ranks on other nodes were faster, or where the same device was slow in
    another job, too. Ranks that differ on one and the same machine say nothing of the machine, and nothing is said of
    the only node that is known.
    """
    findings = against_node(node, by_job, jobs)
    if len(findings) < config.repeated_jobs:
        return None
    worst = max(findings, key=lambda one: (one.cost.throughput_lost_ratio, one.id))
    rule = f"in which it was a straggler by its own computing, throttling or link; reported from {config.repeated_jobs}"
    told = number("jobs", len(findings), "jobs", 1.0, rule)
    ratios = tuple(
        number(
            "lost",
            one.cost.throughput_lost_ratio,
            "ratio",
            None,
            f"share of the time that job {_name(one.job)} lost to it ({one.cause})",
        )
        for one in findings[:MOST_EVIDENCE]
    )
    gain = _gain(FINDING_TABLE["straggler", "worker_compute"], worst, jobs.of(worst.job), config)
    return Proposal(
        action="cordon_node",
        target=f"node:{node}",
        source=f"repeated {node}",
        began=findings[0].id,
        severity="critical",
        nodes=(node,),
        devices=tuple(dict.fromkeys(device for one in findings for device in one.devices))[:MOST_NAMED],
        title=f"Drain {_name(node)}: it was slow in {len(findings)} jobs",
        reason=f"{_name(node)} held back {len(findings)} jobs, their other nodes did not: the cause is the hardware.",
        evidence=(told, *ratios),
        gain=gain,
        lost_ratio=worst.cost.throughput_lost_ratio,
        risk="medium",
        risk_reason="the node takes no new work until it is tested",
        steps=(
            "Let no new job onto the node, and move the one that runs there at its next checkpoint.",
            "Test its GPUs (dcgmi diag -r 3) and its links; compare clocks and power with a node of the same kind.",
        ),
        apply=tuple(apply_commands.drain(node, f"slow in {len(findings)} jobs", jobs.scheduler)),
    )
