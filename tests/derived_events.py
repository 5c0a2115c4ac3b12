"""Findings, suggestions, windows and descriptions of jobs, for tests of those who read them: a word changes one."""

from typing import Any

from paceline import events

#: What a job, a node or a rank can be called by whoever starts it: escapes, marks of direction, markup, line ends.
HOSTILE = "\x1b[31m\u202e<!channel> *x*\r\nBcc: a@b\x07 [click](http://e.example) @here & \x9b2J"


def finding(**changes: Any) -> events.Finding:
    """A confirmed straggler of job ``train``, rank 3."""
    held: dict[str, Any] = {
        "id": "f1", "revision": 1, "kind": "straggler", "state": "confirmed", "cluster": "c", "job": "train",
        "attempt": 0, "cause": "worker_compute", "ranks": [3], "stage": None, "group": None, "nodes": ["node-1"],
        "devices": [], "first_step": 100, "last_step": 200, "severity": "warning", "confidence": 0.9,
        "cost": events.Cost(lost_s=12.5, gpu_hours=0.03, throughput_lost_ratio=0.2),
        "coverage": events.Coverage(ranks_expected=8, ranks_heard=8, events_missing=0),
        "evidence": [events.Evidence(name="own_s", value=0.9, unit="s", peers=0.5, rule="own time against peers")],
        "exonerated": [], "summary": "Rank 3 is slow since step 100.",
    }  # fmt: skip
    return events.Finding(**{**held, **changes})


def two_runs(**changes: Any) -> events.Finding:
    """Two runs report under the name of job ``train``."""
    other = events.Evidence(name="other_ranks", value=8.0, unit="ranks", peers=None, rule="each rank may run once")
    held = {
        "id": "twice", "kind": "configuration_mismatch", "cause": "configuration", "ranks": [], "nodes": [],
        "first_step": -1, "last_step": -1, "evidence": [other], "summary": "Two runs named train report at once.",
    }  # fmt: skip
    return finding(**{**held, **changes})


def suggestion(**changes: Any) -> events.Suggestion:
    """A new one: cordon node-1."""
    held: dict[str, Any] = {
        "id": "s1", "revision": 1, "cluster": "c", "action": "cordon_node", "target": "node:node-1", "state": "new",
        "severity": "warning", "job": "train", "nodes": ["node-1"], "title": "Cordon node-1",
        "reason": "Slow in 3 jobs.", "findings": ["f1"],
        "gain": events.Gain(gpu_hours_per_day=24.0, gpu_hours_low=12.0, gpu_hours_high=30.0),
        "steps": ["Drain it"], "apply": ["kubectl cordon node-1"],
        "created_s": 1000.0, "updated_s": 1000.0, "expires_s": 90_000.0,
    }  # fmt: skip
    return events.Suggestion(**{**held, **changes})


def described(**changes: Any) -> events.JobDescribed:
    """Job ``train`` on node-1, running."""
    held: dict[str, Any] = {
        "cluster": "c", "producer": "p", "sequence": 0, "job": "train", "attempt": 0, "node": "node-1", "world_size": 8,
        "backend": "nccl", "framework": "torch", "started_s": 900.0, "places": [],
    }  # fmt: skip
    return events.JobDescribed(**{**held, **changes})


def job_window(**changes: Any) -> events.JobWindow:
    """Ten seconds of job ``train``: rank 3 needs 0.9 s where the median needs 0.5 s."""
    held: dict[str, Any] = {
        "cluster": "c", "start_s": 1000.0, "length_s": 10.0, "job": "train", "attempt": 0, "ranks": 8, "steps": 10,
        "first_step": 100, "last_step": 109, "step_median_s": 1.0, "step_p95_s": 1.1, "own_median_s": 0.5,
        "own_worst_s": 0.9, "worst_rank": 3, "wait_ratio": 0.4, "phase_median_s": {"forward": 0.2},
    }  # fmt: skip
    return events.JobWindow(**{**held, **changes})


def rank_window(rank: int, own_s: float = 0.5, **changes: Any) -> events.RankWindow:
    """Ten seconds of one rank of job ``train``, which needs ``own_s`` of each step of 1 s by itself."""
    held: dict[str, Any] = {
        "cluster": "c", "start_s": 1000.0, "length_s": 10.0, "job": "train", "attempt": 0, "node": f"node-{rank // 4}",
        "rank": rank, "steps": 10, "first_step": 100, "last_step": 109, "step_median_s": 1.0,
        "phase_mean_s": {"forward": own_s, "communication": 1.0 - own_s},
    }  # fmt: skip
    return events.RankWindow(**{**held, **changes})
