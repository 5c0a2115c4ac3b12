"""The panel that closes a run: some ten lines of verdict, reason, next step and cost, for each job.

Rule of this file: pure words over a summary. It judges nothing; a number it cannot know is left out, never made up.
"""

import math
import statistics

import numpy as np

from paceline.accused_units import accused_ranks, many_of, unit_of
from paceline.energy.energy_book import EnergyBook
from paceline.energy.tariff import Tariff
from paceline.events import OVERLAYS, SEVERITY_ORDER, Evidence, Finding, ProbeCost, advice_on
from paceline.lost_time import COUNTED
from paceline.paired import LEAST_PAIRS
from paceline.ranges import ranges
from paceline.visible import visible
from paceline.words import seconds
from paceline.work_time import uneven

from ..ingest.coverage import CoverageTracker
from ..jobs.apart import is_apart, relation
from ..jobs.short_run_evidence import ALONE, is_short_run
from . import energy
from .summary import JobSummary, Summary

_WIDTH = 9
#: The longest windows with the probe on or off hold 640 steps, and have to last half a second.
_LEAST_STEP_S = 1e-3
_SHOWN = 3
#: Numbers of evidence are rounded to a microsecond each.
_ROUNDING_S = 1e-5
_WORDS: dict[str, str] = {"communication": "waiting for others", "data": "data loading", "idle": "device idle"}


def panel(summary: Summary, book: EnergyBook | None = None, tariff: Tariff | None = None) -> str:
    """The panel of every job in ``summary``, worst finding first within a job; ``book`` tells what they took."""
    book, tariff = book or EnergyBook(), tariff or Tariff()
    nodes = _nodes(summary, book, tariff)
    if not summary.jobs and not nodes:
        return "paceline: no job reported anything; did a torch.distributed job or an optimizer step run?"
    # A job's account is of all its attempts: the last of them tells it.
    last = {(job.cluster, job.job): key for key, job in summary.jobs.items()}
    lines = []
    for key, job in summary.jobs.items():
        account = book.of(job.cluster, job.job) if last[job.cluster, job.job] == key else None
        lines += _job(job, [] if account is None else [_row("Energy", energy.of_job(account, tariff))])
        lines += _at_once(job, summary)
    lines += nodes
    return "\n".join(map(visible, lines))


def _at_once(job: JobSummary, summary: Summary) -> list[str]:
    """That several runs report under the name of ``job`` at the same time."""
    runs = sorted([job.attempt, *(other.attempt for other in summary.jobs.values() if job.runs_beside(other))])
    if len(runs) < 2:
        return []
    names = ", ".join(map(str, runs))
    words = (
        f"{len(runs)} runs report as job {job.job} at the same time (attempts {names}; this is {job.attempt}). "
        "Their numbers are kept apart. Stop one, or give each its own name: PACELINE_JOB"
    )
    return [_row("Also", words)]


def _nodes(summary: Summary, book: EnergyBook, tariff: Tariff) -> list[str]:
    """What was found on nodes, the gravest first: each in its own sentence; and what they took."""
    held = summary.node_findings.values()
    findings = sorted(held, key=lambda f: (f.state == "recovered", SEVERITY_ORDER.get(f.severity, 1)))
    took = energy.of_nodes(book, tariff, {(job.cluster, job.job) for job in summary.jobs.values()})
    lines = ["paceline: nodes"] if findings or took else []
    for finding in findings[:_SHOWN]:
        lines.append(_row("Verdict", _sentence(finding)))
    if len(findings) > _SHOWN:
        lines.append(_row("", f"and {len(findings) - _SHOWN} more: paceline analyze RECORDING --json"))
    return [*lines, *(_row("Energy" if number == 0 else "", line) for number, line in enumerate(took))]


def _sentence(finding: Finding) -> str:
    if finding.kind == "insufficient_data":
        return finding.summary  # It says that nothing is confirmed.
    return f"{finding.kind.replace('_', ' ')} ({finding.state}): {finding.summary}"


def _job(job: JobSummary, energy_rows: list[str]) -> list[str]:
    ranks = len(job.nodes)
    median = job.median_step_s
    length = f", median step {seconds(median)}" if median is not None else ""
    head = (
        f"paceline: job {job.job}, {ranks} {_plural('rank', ranks)}, {job.steps} {_plural('step', job.steps)}{length}"
    )
    findings = sorted(job.findings.values(), key=lambda f: (f.state == "suspected", -f.cost.lost_s))
    named = [finding for finding in findings if finding.revision > 1 or finding.state != "suspected"]
    ranks_named = [finding for finding in named if finding.kind == "straggler"]
    wholes = [finding for finding in named if finding.kind not in ("straggler", "died") and not is_apart(finding)]
    body = [line for finding in ranks_named[:_SHOWN] for line in _finding(finding)] or _nobody(job)
    hangs = any(finding.kind == "hang" and finding.state != "recovered" for finding in wholes)
    if hangs:
        body = []  # a job that hangs is held back by that, and what it did before says nothing of it
        wholes = [finding for finding in wholes if not is_short_run(finding)]
    if not ranks_named and any(is_short_run(one) or one.kind == "node_silent" for one in wholes):
        body = []  # nobody was compared, or not all were
    if not ranks_named and any(map(_costs, wholes)):
        body = []  # what cost the whole job its time is the verdict
    for finding in wholes[:_SHOWN]:
        # Beside a slow rank, its cost holds the same steps; a hang's is of a step of its own.
        cost = [_cost_row(finding)] if _costs(finding) and (finding.kind == "hang" or not ranks_named) else []
        body += [*_whole("Also" if body else "Verdict", finding), *cost]
    if len(ranks_named) > _SHOWN or len(wholes) > _SHOWN:
        more = max(len(ranks_named) - _SHOWN, 0) + max(len(wholes) - _SHOWN, 0)
        body.append(_row("", f"and {more} more: paceline analyze RECORDING --json"))
    return [head, *body, *_time(job), *energy_rows, *_probe(job), _coverage(job), *_died(named, hangs=hangs)]


def _whole(label: str, finding: Finding) -> list[str]:
    """A finding on the job as a whole, and in a row of its own what to do."""
    summary, next_ = _and_next(_sentence(finding))
    return [_row(label, summary), *([_row("Next", next_)] if next_ else [])]


def _costs(finding: Finding) -> bool:
    """Whether its cost counts: a suspicion may be withdrawn."""
    return finding.state in COUNTED and finding.cost.lost_s > 0


def _and_next(sentence: str) -> tuple[str, str]:
    """A finding's sentence, and what to do next as rows end: without a full stop."""
    summary, _, next_ = sentence.partition(". Next: ")
    return summary, next_.removesuffix(".")


def _died(findings: list[Finding], *, hangs: bool) -> list[str]:
    """The last row: which rank ended first, and what to do; a job that hangs is ended by someone for that reason."""
    rows = []
    for finding in findings:
        if finding.kind == "died" and finding.state != "recovered":
            summary, next_ = _and_next(finding.summary.removeprefix("Died: "))
            rows += [_row("Died", summary), *([_row("Next", next_)] if next_ and (finding.ranks or not hangs) else [])]
    return rows


def _finding(finding: Finding) -> list[str]:
    unit = unit_of(finding)
    who = f"rank {finding.ranks[0]}" if finding.ranks else "no rank"
    many = many_of(finding)
    accused = accused_ranks(finding)
    cut = ", …" * (accused > len(finding.ranks))
    if len(finding.ranks) > 1:
        who = f"{accused:,} ranks ({ranges(finding.ranks)}{cut})"
    if many is not None:
        named = f"ranks {ranges(finding.ranks)}" if many.what != "ranks" else ranges(finding.ranks)
        who = f"{many.words} ({named}{cut})"
    where = f" on {finding.nodes[0]}" if finding.nodes else ""
    if len(finding.nodes) > 1:
        where = f" on {len(finding.nodes)} nodes"
    if unit:
        who, where = unit, f" (ranks {ranges(finding.ranks)})"
    until = "until" if finding.state == "recovered" else "to"
    cause = finding.cause.replace("_", " ")
    lines = [
        _row(
            "Verdict",
            f"{who}{where} held the job back, steps {finding.first_step} {until} {finding.last_step}: {cause} "
            f"({finding.state}, {finding.confidence:.0%} sure)",
        )
    ]
    lines += [_row("Why" if index == 0 else "", text) for index, text in enumerate(_why(finding))]
    return [*lines, _row("Next", advice_on(finding)), _cost_row(finding)]


def _cost_row(finding: Finding) -> str:
    cost = finding.cost
    each = "" if finding.kind == "hang" else _each(finding)  # All of it is of one step.
    return _row(
        "Cost",
        f"{cost.lost_s:.1f} s lost{each}, {cost.throughput_lost_ratio:.0%} of the throughput "
        f"in that time, {cost.gpu_hours:.4f} device-hours",
    )


def _each(finding: Finding) -> str:
    """What the loss is a step: the mean of the whole time, where the numbers above it are of its last looks."""
    steps = finding.last_step - finding.first_step + 1
    return (
        f" in {steps} {_plural('step', steps)}, {seconds(finding.cost.lost_s / steps)} each on average"
        if steps > 0
        else ""
    )


def _why(finding: Finding) -> list[str]:
    by_name = {evidence.name: evidence for evidence in finding.evidence}
    own = by_name.get("own_time")
    if own is None or own.peers is None or many_of(finding) is not None:
        return [finding.summary]
    parts = _parts(by_name, own.value - own.peers)
    first = f"works {seconds(own.value)} a step, its peers {seconds(own.peers)}" + (f" ({parts})" if parts else "")
    late = by_name.get("lateness")
    lines = [first]
    if late is not None:
        cleared = f"; cleared: {', '.join(finding.exonerated)}" if finding.exonerated else ""
        lines.append(f"peers wait {seconds(late.value)} a step for it{cleared}")
    return lines


def _parts(by_name: dict[str, Evidence], whole_s: float) -> str:
    """What the difference of ``whole_s`` consists of; overlays lie inside the phases, and would count twice there."""
    parts = {name.removeprefix("excess_"): one.value for name, one in by_name.items() if name.startswith("excess_")}
    phases = _within({name: value for name, value in parts.items() if name not in OVERLAYS}, whole_s)
    within = _within({name: value for name, value in parts.items() if name in OVERLAYS}, whole_s)
    return "; within them ".join(filter(None, (phases, within)))


def _within(parts: dict[str, float], whole_s: float) -> str:
    """The largest of ``parts`` that are in ``whole_s`` together: a part that is negative, or too large, is no part."""
    left_s, shown = whole_s + _ROUNDING_S, []
    for name, value in sorted(parts.items(), key=lambda item: -item[1]):
        if 0.0 < value <= left_s:
            left_s -= value
            shown.append(f"{name.replace('_', ' ')} +{seconds(value)}")
    return ", ".join(shown)


def _nobody(job: JobSummary) -> list[str]:
    if len(job.nodes) == 1:
        return [_row("Verdict", f"One rank, {job.steps} {_plural('step', job.steps)}: {ALONE}.")]
    missing = _too_little(job)
    if missing:
        return [_row("Verdict", f"not enough to judge: {missing}")]
    own = _own_s(job)
    if job.probed and _no_exchange(job):
        verdict = _unconnected(job, own)
        return [*([_row("Verdict", verdict)] if verdict else _compared(job, own)), *_slowest(own)]
    if _silent(job):
        told = f"no communication is recognised in {len(own)} ranks, so time spent waiting counts as work"
        return [_row("Verdict", f"not enough to judge: {told}, and no rank can be named or cleared")]
    return [*_compared(job, own), *_slowest(own)]


def _compared(job: JobSummary, own: dict[int, float]) -> list[str]:
    compared = f"{len(own) or len(job.nodes)} ranks compared"
    slowest = uneven(own, {rank: job.phase_s[rank].get("communication", 0.0) / job.timed_steps[rank] for rank in own})
    if slowest is not None:
        return [_row("Verdict", f"no rank is slow all the time, but {slowest.words}: {compared}")]
    return [_row("Verdict", f"no rank holds this job back: {compared}")]


def _unconnected(job: JobSummary, own: dict[int, float]) -> str | None:
    """The verdict on ranks without a collective of torch.distributed; None where they wait for each other all the same.

    They may exchange by another library, which waits inside of what counts as their work.
    """
    none = "no collective of torch.distributed was seen"
    work_s = np.array(list(own.values()))
    step_s = np.array([job.step_s[rank] / job.timed_steps[rank] for rank in own])
    seen = relation(work_s, step_s)
    live = any(is_apart(one) and one.state == "confirmed" for one in job.findings.values())
    if live or seen == "apart":
        unequal = (
            f", and their steps take {seconds(step_s.min())} to {seconds(step_s.max())}" if seen == "apart" else ""
        )
        return f"no rank is named: {none}{unequal}, so as far as is measured these ranks do not wait for each other"
    if seen == "together":
        return None
    return (
        f"not enough to judge: {none}, and all {len(own)} ranks work equally long. If they exchange by another library "
        "(Horovod, MPI), waiting counts as work, so no rank can be named or cleared"
    )


def _slowest(own: dict[int, float]) -> list[str]:
    """How long the median rank works, and the slowest; both where there are two."""
    if not own:
        return []
    if len(own) == 2:
        (one, one_s), (other, other_s) = sorted(own.items())
        return [_row("Why", f"rank {one} works {seconds(one_s)} a step, rank {other} {seconds(other_s)}")]
    median = statistics.median(own.values())
    worst = max(own, key=lambda rank: own[rank])
    return [
        _row("Why", f"median rank works {seconds(median)} a step, the slowest, rank {worst}, {seconds(own[worst])}")
    ]


def _no_exchange(job: JobSummary) -> bool:
    """Whether several ranks reported their steps, and none ever communicated."""
    spent_s = (phases.get("communication", 0.0) for phases in job.phase_s.values())
    return len(job.phase_s) > 1 and not job.collectives and not any(spent_s)


def _too_little(job: JobSummary) -> str | None:
    """What a verdict would need more of."""
    if not job.nodes:
        return "no rank reported"
    if not job.steps and not job.collectives:
        return "no steps and no collectives were received"
    return None


def _silent(job: JobSummary) -> bool:
    """Whether several ranks tell where their time went, communication too, and none of it was any."""
    told = [phases["communication"] for phases in job.phase_s.values() if "communication" in phases]
    return len(told) > 1 and not any(told) and not job.collectives


def _own_s(job: JobSummary) -> dict[int, float]:
    """Mean seconds a step that each rank worked, without waiting for others."""
    own = {}
    for rank, phases in job.phase_s.items():
        steps = job.timed_steps.get(rank, 0)
        if steps:
            work = sum(value for name, value in phases.items() if name != "communication" and name not in OVERLAYS)
            own[rank] = work / steps
    return own


def _time(job: JobSummary) -> list[str]:
    """Where the median rank's time went, largest first; a rank without a phase spent none in it."""
    held = [(phases, job.step_s[rank]) for rank, phases in job.phase_s.items() if job.step_s.get(rank, 0.0) > 0]
    names = {name: None for phases, _ in held for name in phases if name not in OVERLAYS}
    medians = {name: statistics.median(phases.get(name, 0.0) / whole for phases, whole in held) for name in names}
    shown = [
        f"{_WORDS.get(name, name)} {ratio:.0%}"
        for name, ratio in sorted(medians.items(), key=lambda item: -item[1])
        if ratio >= 0.01
    ]
    return [_row("Time", "median rank: " + ", ".join(shown))] if shown else []


def _probe(job: JobSummary) -> list[str]:
    """What the probe cost where that was measured, node by node."""
    costs = sorted(job.probe_costs.items(), key=lambda item: (-item[1].pairs, item[0]))[:_SHOWN]
    usual_s = job.median_step_s or 0.0
    return [_row("Probe", (f"{node}: " if len(costs) > 1 else "") + _cost(cost, usual_s)) for node, cost in costs]


def _cost(cost: ProbeCost, usual_s: float) -> str:
    added, low, high = cost.added_s, cost.added_low_s, cost.added_high_s
    if added is None or low is None or high is None or not cost.step_s:
        return f"cost not measured: {_unmeasured(cost, usual_s)}"
    steps = f"{cost.least_steps} to {cost.most_steps}" if cost.least_steps < cost.most_steps else f"{cost.most_steps}"
    pairs = f"from {cost.pairs} pairs of windows of {steps} steps"
    ms, percent = _decimals(1e3 * (high - low)), _decimals(1e2 * (high - low) / cost.step_s)
    interval = f"95 % interval {low * 1e3:+z.{ms}f} to {high * 1e3:+z.{ms}f} ms"
    if low > 0.0:
        shares = f"{low / cost.step_s:+.{percent}%} to {high / cost.step_s:+.{percent}%}"
        return f"{added * 1e3:+.{ms}f} ms a step, {interval} ({shares}), {pairs}"
    if high > 0.0:
        most = f"at most {high * 1e3:.{ms}f} ms a step ({high / cost.step_s:.{percent}%})"
        return f"{most}, and perhaps nothing: {interval}, {pairs}"
    return f"none measurable: {interval} a step, {pairs}"


def _decimals(width: float) -> int:
    """Decimals of a number that is known to about ``width``: two digits of that, and none that it says nothing of."""
    return min(max(1 - math.floor(math.log10(width)), 0), 3) if width > 0.0 else 3


def _unmeasured(cost: ProbeCost, usual_s: float) -> str:
    """Why there is no interval, and what would bring one."""
    if cost.apart_pairs > cost.pairs + cost.short_pairs:
        return (
            f"in {cost.apart_pairs} pairs of windows the ranks were not switched together; "
            "do all take the same steps? paceline.training.step() says where one ends"
        )
    if cost.pairs + cost.short_pairs + cost.apart_pairs + cost.off_steps == 0:
        return (
            "no end of a step was seen, or too few" + _needs(cost, "at least") + "; call paceline.training.step() "
            "where no optimizer ends a step or torch.compile takes it in"
        )
    if usual_s < _LEAST_STEP_S:
        return f"steps of less than {_LEAST_STEP_S * 1e3:.0f} ms are too short for its windows"
    return (
        f"{cost.pairs} pairs of windows are long enough, {LEAST_PAIRS} are needed "
        f"({cost.short_pairs} were too short)" + (_needs(cost, "about") or "; let it run for longer")
    )


def _needs(cost: ProbeCost, how: str) -> str:
    """How long a run takes that says what the probe costs, where that is known."""
    return f"; that takes a run of {how} {cost.needed_steps:,} steps" if cost.needed_steps else ""


def _coverage(job: JobSummary) -> str:
    coverage = CoverageTracker(job.roster).counts()
    expected = max(coverage.ranks_expected, job.world_size or 0)
    heard = max(coverage.ranks_heard, len(job.nodes))
    told = [*([job.sampled] if job.sampled else []), *coverage.notes]
    notes = f"; {'; '.join(told)}" if told else ""
    off_steps = max((cost.off_steps for cost in job.probe_costs.values()), default=0)
    off = f"; the probe was off in {off_steps} steps" if off_steps else ""
    missing = f"{coverage.events_missing} messages missing"
    return _row("Coverage", f"{heard} of {expected or heard} ranks, {missing}{off}{notes}")


def _row(title: str, text: str) -> str:
    return f"  {title:<{_WIDTH}}{text}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else word + "s"
