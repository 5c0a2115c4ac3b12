"""Findings that concern the whole job, in words: they accuse no rank, or only those who are missing.

Rule of this file: words, rounding and the fixed names of the wire; no judgement is made here.
"""

from typing import NamedTuple

from paceline.events import Coverage, Evidence, Finding, FindingKind

from ..episodes.episode import Episode, finding_id
from .config import Config
from .hang import Stop
from .rank_findings import confidence, cost, number, severity

_MILLI = 1e3


_MUCH_TO_MOVE = ". Accumulate gradients over more micro-batches, overlap or compress them, or use faster links."
_SLOW_LINKS = (
    ". That is far under what the links can do: look at which transport and interface are used (NCCL_DEBUG=INFO)."
)


class Whole(NamedTuple):
    """The job a finding is about, and what was heard of it."""

    cluster: str
    job: str
    attempt: int
    coverage: Coverage


def _finding(
    kind: FindingKind,
    about: str,
    episode: Episode,
    whole: Whole,
    evidence: list[Evidence],
    summary: str,
    *,
    ranks: list[int] | None = None,
    nodes: list[str] | None = None,
    stage: int | None = None,
    group: str | None = None,
    cleared: list[str] | None = None,
) -> Finding:
    state = episode.state or "suspected"
    ratio = episode.lost_s / episode.span_s if episode.span_s > 0 else 0.0
    if state == "recovered":
        summary = f"{summary.split('.')[0]}: no longer so at step {episode.last_step}."
    return Finding(
        id=finding_id(whole.cluster, whole.job, whole.attempt, kind, about, episode.first_step),
        revision=episode.revision,
        kind=kind,
        state=state,
        cluster=whole.cluster,
        job=whole.job,
        attempt=whole.attempt,
        cause=episode.cause,
        ranks=ranks or [],
        stage=stage,
        group=group,
        nodes=nodes or [],
        devices=[],
        first_step=episode.first_step,
        last_step=episode.last_step,
        severity=severity(state, ratio),
        confidence=confidence(episode, whole.coverage),
        cost=cost(episode, whole.coverage),
        coverage=whole.coverage,
        evidence=evidence,
        exonerated=cleared or [],
        summary=summary,
    )


def stage_imbalance(episode: Episode, whole: Whole, config: Config) -> Finding:
    """One stage of the pipeline is longer than the others."""
    seen = episode.evidence
    stage = int(seen["stage"])
    over = seen["took"] / seen["mean"] - 1 if seen["mean"] else 0.0
    rule = f"median rank's forward and backward over the mean of all stages; reported from {config.least_stage:.0%}"
    evidence = [
        number("stage_compute", seen["took"], "s/step", seen["mean"], rule),
        number("shortest_stage", seen["shortest"], "s/step", None, "the same of the shortest stage"),
    ]
    summary = (
        f"Stage {stage} computes {seen['took'] * _MILLI:.0f} ms a step where the stages' mean is "
        f"{seen['mean'] * _MILLI:.0f} ms ({over:+.0%}), since step {episode.first_step}: the model is cut unevenly. "
        "Move layers from this stage to a shorter one; its GPUs are not to blame."
    )
    cleared = [f"the ranks of stage {stage}: alike among themselves, no change since step {episode.first_step}"]
    return _finding(
        "stage_imbalance", f"stage {stage}", episode, whole, evidence, summary, stage=stage, cleared=cleared
    )


def data_imbalance(episode: Episode, whole: Whole, config: Config) -> Finding:
    """Micro-batches or ranks get work of different length."""
    seen = episode.evidence
    evidence = [
        number("spread", seen["spread"], "ratio", None, f"within each rank, forward and backward; {_from(config)}"),
        number("alike", seen["alike"], "correlation", None, "forward with backward of the same micro-batch or step"),
        number("held_back", seen["lost"], "ratio", None, "longest rank's compute less the mean, share of the step"),
    ]
    summary = (
        f"Micro-batches take {seen['spread']:.0%} more or less than the mean, forward and backward alike (correlation "
        f"{seen['alike']:.2f}): their sequences differ in length, since step {episode.first_step}. "
        "Sort or pack the batches by length; no rank is to blame."
    )
    cleared = ["every rank: long and short batches fall on all of them in turn"]
    return _finding("data_imbalance", "data", episode, whole, evidence, summary, cleared=cleared)


def _from(config: Config) -> str:
    return f"reported from {config.least_spread:.0%} with a correlation of {config.least_alike:g}"


def data_bound(episode: Episode, whole: Whole, config: Config) -> Finding:
    """All ranks alike wait for their input."""
    seen = episode.evidence
    rule = f"the rank that spends least on its input decides; reported from {config.data_bound:.0%}"
    evidence = [
        number("input_share", seen["share"], "ratio", None, "median rank's share of the step spent on input"),
        number("least_input_share", seen["least"], "ratio", None, rule),
        number("input_time", seen["fetched"], "s/step", None, "median rank"),
    ]
    summary = (
        f"Every rank spends {seen['least']:.0%} or more of its step on input ({seen['fetched'] * _MILLI:.0f} ms on the "
        f"median rank), since step {episode.first_step}: the job is bound by its data. "
        "Use more loader workers, prefetch, or store the data nearer."
    )
    return _finding("data_bound", "input", episode, whole, evidence, summary, cleared=["the computing of every rank"])


def communication_bound(episode: Episode, whole: Whole, config: Config) -> Finding:
    """All ranks alike stand in transfers."""
    seen = episode.evidence
    rule = f"the rank that waits least decides: it waits for nobody; reported from {config.communication_bound:.0%}"
    evidence = [
        number("least_wait_share", seen["least"], "ratio", None, rule),
        number("wait_share", seen["share"], "ratio", None, "median rank's share of the time in collectives"),
    ]
    rated = seen.get("rated")
    speeds = []
    for name, value in seen.items():
        if name.startswith("speed:"):
            _, operation, power = name.split(":")
            size = _bytes(2 ** int(power))
            how = "fastest tenth; nccl-tests' busbw; beside it what the slowest link is rated at"
            evidence.append(number(f"bus_bandwidth_{operation}_{size}", value, "bytes/s", rated, how))
            beside = f" of {rated / 1e9:.2f} rated" if rated else ""
            speeds.append(f"{operation} of {size}: {value / 1e9:.2f} GB/s{beside}")
    summary = (
        f"Every rank stands in transfers for {seen['least']:.0%} or more of the time, since step {episode.first_step}: "
        "the job is bound by its communication"
        + (f" ({'; '.join(speeds[:2])})" if speeds else "")
        + (_SLOW_LINKS if episode.cause == "link" else _MUCH_TO_MOVE)
    )
    return _finding("communication_bound", "traffic", episode, whole, evidence, summary)


def slowdown(episode: Episode, whole: Whole, config: Config) -> Finding:
    """The job as a whole has turned slow."""
    seen = episode.evidence
    rule = (
        f"median of {config.pace_ticks} looks, longest own work plus shortest wait; reported from "
        f"{config.least_slowdown:.0%} and {config.pace_sigmas:g} times the noise"
    )
    evidence = [number("pace", seen["pace"], "s/step", seen["usual"], rule)]
    part = next((name[5:] for name in seen if name.startswith("part:")), "")
    if part:
        evidence.append(number(f"grown_{part}", seen[f"part:{part}"], "s/step", None, "what grew most, median rank"))
    summary = (
        f"The job has turned slow as a whole at step {episode.first_step}: {seen['pace'] * _MILLI:.0f} ms a step "
        f"instead of {seen['usual'] * _MILLI:.0f} ms, most of it in {part or 'no one phase'}. No rank stands out."
    )
    return _finding(
        "slowdown", "job", episode, whole, evidence, summary, cleared=["every rank: none is behind another"]
    )


def hang(episode: Episode, stop: Stop, whole: Whole, nodes: list[str]) -> Finding:
    """The job has stopped."""
    seen = episode.evidence
    where = f"{stop.operation} number {stop.seq} of group {stop.group}"
    evidence = [
        number(
            "waited", seen["waited"], "s", seen["usual"], "longest so far; beside it the longest that ever ended well"
        ),
        number("waiting", stop.waits, "ranks", None, f"stand in {where}"),
    ]
    waiting = f"{stop.waits} ranks ({_some(stop.waiting, stop.waits)}) have stood in {where} for {seen['waited']:.0f} s"
    if stop.missing:
        evidence.append(number("missing_reached", stop.last_seq, "number", stop.seq, "last collective of the missing"))
        missing = _some(stop.missing, stop.misses)
        summary = f"{waiting}; rank {missing} has not come to it. Look at that process: py-spy dump, dmesg."
    elif stop.unknown:
        summary = f"{waiting}; {stop.unknown} members of the group were never heard of. See whether they have started."
    else:
        summary = (
            f"{waiting}, and every member is in it or waits elsewhere: look at the network and at mismatched calls."
        )
    return _finding("hang", where, episode, whole, evidence, summary, ranks=stop.missing, nodes=nodes, group=stop.group)


def silence(episode: Episode, whole: Whole) -> Finding:
    """Too little is heard of the job to judge it."""
    coverage = whole.coverage
    missing = coverage.ranks_expected - coverage.ranks_heard
    evidence = [number("ranks_heard", coverage.ranks_heard, "ranks", coverage.ranks_expected, "heard of expected")]
    summary = (
        f"{missing} of {coverage.ranks_expected} ranks have never been heard: verdicts cover the others alone. "
        "See that every node runs `paceline run` and reaches the same Kafka."
    )
    return _finding("insufficient_data", "ranks", episode, whole, evidence, summary)


def _some(ranks: list[int], count: int) -> str:
    shown = ranks[:8]
    return ", ".join(map(str, shown)) + (f" and {count - len(shown)} more" if count > len(shown) else "")


def _bytes(size: int) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size}{unit}"
        size //= 1024
    return f"{size}B"
