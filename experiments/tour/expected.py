"""What must be said of each job of simulator/examples/cluster.yaml, and what of none.

Rule of this file: pure; jobs whose case needs longer than ten minutes (GPUs that idle for an hour) are not in it.
"""

from collections.abc import Collection
from typing import NamedTuple

from paceline.events import Finding, Suggestion


class Expected(NamedTuple):
    """The finding of a job, the ranks that it accuses, and the action that is suggested."""

    kind: str
    cause: str
    ranks: tuple[int, ...]
    action: str


EXPECTED = {
    "llama-70b": Expected("straggler", "worker_compute", (9,), "rebalance"),
    "mixtral": Expected("straggler", "throttling", (5,), "fix_cooling"),
    "diffusion": Expected("straggler", "input_pipeline", (17,), "feed_input"),
    "whisper": Expected("straggler", "garbage_collection", (3,), "tune_host"),
    "resnet": Expected("straggler", "cpu_contention", (6,), "give_cpus"),
    "detector": Expected("straggler", "host_bound", (2,), "tune_host"),
    "reranker": Expected("straggler", "memory_pressure", (11,), "tune_host"),
    "embedding": Expected("straggler", "link", (8,), "move_job"),
    "segmenter": Expected("hang", "unknown", (4,), "restart_job"),
    "tokenizer": Expected("slowdown", "unknown", (), "inspect_job"),
    "long-context": Expected("data_imbalance", "", (), "rebalance"),
    "cut-badly": Expected("stage_imbalance", "", (), "rebalance"),
    "over-the-wire": Expected("communication_bound", "", (), "overlap_communication"),
}
#: A node of ``speech`` is silent for two minutes: that is said, and is over by itself. A session lacks that alone.
SILENT = "gpu-0044"
#: What is suggested while a job runs alone.
ENDS = "restart_job"
HEALTHY = ("vision", "speech", "ranker", "policy", "chat-api", "notebooks")


def unlike(findings: Collection[Finding], suggestions: Collection[Suggestion]) -> list[str]:
    """What is not as it must be, in words."""
    told = []
    for job, expected in EXPECTED.items():
        if not any(_is(one, job, expected) for one in findings):
            said = [f"{one.kind} {one.cause} {one.ranks}" for one in findings if one.job == job]
            told.append(f"{job}: no finding {expected.kind} {expected.cause} {list(expected.ranks)}, but {said}")
        # A job that has ended needs no restart: that suggestion is withdrawn with its end.
        meant = [one for one in suggestions if one.job == job and (one.state != "withdrawn" or one.action == ENDS)]
        actions = {one.action for one in meant}
        if actions != {expected.action}:
            told.append(f"{job}: suggested {sorted(actions)}, not {expected.action}")
    for job in HEALTHY:
        accused = [one for one in findings if one.job == job and one.kind != "node_silent"]
        kept = [one for one in suggestions if one.job == job and one.state != "withdrawn"]
        told += [f"{job} is healthy: {one.kind} {one.summary}" for one in accused]
        told += [f"{job} is healthy: {one.title}" for one in kept]
    return told


def _is(finding: Finding, job: str, expected: Expected) -> bool:
    if (finding.job, finding.kind) != (job, expected.kind):
        return False
    return finding.cause == (expected.cause or finding.cause) and (
        not expected.ranks or tuple(finding.ranks) == expected.ranks
    )
