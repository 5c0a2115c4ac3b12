"""Forecasts, profiles and suggestions as services publish them: what tests and screenshots show the page.

Rule of this file: pure and seeded; time is an argument.
"""

from typing import Any

import numpy as np

from paceline import events

LEVELS = [0.025, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.975]
#: The normal distribution's quantiles at these levels.
_Z = [-1.96, -1.282, -0.842, -0.674, -0.524, -0.253, 0.0, 0.253, 0.524, 0.674, 0.842, 1.282, 1.96]


def forecast(key: str, now_s: float, **changed: Any) -> events.Forecast:
    """A forecast of an hour, minute by minute, of a wave with noise around ``middle`` (default 8)."""
    middle, swing = float(changed.pop("middle", 8.0)), float(changed.pop("swing", 3.0))
    most = changed.get("maximum")
    random = np.random.default_rng(len(key))
    at = np.arange(-119, 61)
    wave = middle + swing * np.sin(at / 14.0)
    past = np.clip(wave[:120] + random.normal(0, swing / 6, 120), 0, most)
    spread = swing / 5 * np.sqrt(1 + np.arange(60) / 6)
    rows = np.clip(wave[120:, None] + spread[:, None] * np.array(_Z)[None, :], 0, most)
    parts = key.split("/")
    given: dict[str, Any] = {
        "cluster": parts[0],
        "series": key,
        "unit": "GPUs",
        "time_s": now_s,
        "interval_s": 60.0,
        "model": "pool",
        "levels": LEVELS,
        "values": rows.tolist(),
        "history": 1440,
        "season_s": 5280.0,
        "backtest": events.Backtest(moments=4, steps=60, loss=0.61, naive_loss=0.98, coverage_80_ratio=0.82),
        "recent_values": past.tolist(),
        "interval_scores": [
            score(1, 0.81, [0.02, 0.09, 0.26, 0.51, 0.74, 0.9, 0.98]),
            score(10, 0.79, [0.03, 0.1, 0.23, 0.48, 0.75, 0.89, 0.97]),
            score(40, 0.68, [0.08, 0.17, 0.31, 0.52, 0.7, 0.85, 0.94]),
        ],
        "naive_values": (wave[120:] - swing / 2).tolist(),
    }
    return events.Forecast(**{**given, **changed})


def day_ahead(now_s: float, cluster: str = "default", maximum: float = 64.0) -> events.Forecast:
    """Free GPUs of a cluster by the quarter hour, most of them twelve hours from now."""
    at = np.arange(1, 97)
    median = maximum * (0.35 - 0.3 * np.cos(2.0 * np.pi * at / 96.0))
    rows = np.clip(median[:, None] + maximum / 12.0 * np.array(_Z)[None, :], 0.0, maximum)
    key = f"{cluster}/cluster/free_gpus_15min"
    told = {"interval_s": 900.0, "values": rows.tolist(), "naive_values": [], "interval_scores": []}
    return forecast(key, now_s // 900.0 * 900.0, maximum=maximum, **told)


def score(steps: int, inside: float, below: list[float]) -> events.IntervalScore:
    """How 240 forecasts of so many steps ahead did."""
    levels = [0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975]
    return events.IntervalScore(steps=steps, values=240, inside_80_ratio=inside, levels=levels, below_ratios=below)


def profile(job: str, now_s: float, **changed: Any) -> events.JobProfile:
    """A training job that checkpoints every 20 minutes and ends in three hours."""
    given: dict[str, Any] = {
        "cluster": "default",
        "job": job,
        "attempt": 0,
        "time_s": now_s,
        "kind": "training",
        "kind_probability": 0.99,
        "kind_probabilities": {"training": 0.99, "inference": 0.01},
        "cycle_period_s": 1200.0,
        "cycle_confidence": 0.93,
        "cycle_next_s": now_s + 312.0,
        "cycle_drift_ratio": 0.02,
        "end_s": now_s + 11_000.0,
        "end_low_s": now_s + 10_300.0,
        "end_high_s": now_s + 12_500.0,
        "notes": ["it closes training steps", "24 events; 96 % follow the period within 5 %"],
    }
    return events.JobProfile(**{**given, **changed})


def suggestion(number: int, now_s: float, **changed: Any) -> events.Suggestion:
    """Suggestion ``number``: cordon the node of a rank that was slow in three jobs."""
    given: dict[str, Any] = {
        "id": f"cordon-gpu-02-{number}",
        "revision": 1,
        "cluster": "default",
        "action": "cordon_node",
        "target": "node:gpu-02",
        "state": "new",
        "severity": "critical",
        "job": "llm-7b-pretrain",
        "nodes": ["gpu-02"],
        "devices": ["GPU-5e21"],
        "ranks": [5],
        "title": "Cordon node gpu-02: its GPU 5 held back three jobs",
        "reason": "GPU-5e21 computed 1.9 times as long as its peers in three jobs with other code. It throttled.",
        "findings": ["straggler-llm-7b-pretrain-0-5-300", "straggler-vision-0-1-40"],
        "evidence": [
            events.Evidence(name="compute_s", value=0.094, unit="s", peers=0.0477, rule="1.2 times its peers", rank=5),
            events.Evidence(name="jobs", value=3.0, unit="jobs", peers=None, rule="held back by this GPU in 7 days"),
            events.Evidence(name="clocks_sm_mhz", value=1095.0, unit="MHz", peers=1980.0, rule="below 90 % of peers"),
        ],
        "gain": events.Gain(
            gpu_hours_per_day=84.0,
            gpu_hours_low=61.0,
            gpu_hours_high=103.0,
            throughput_ratio=0.44,
            throughput_low=0.32,
            throughput_high=0.51,
            money_per_day=210.0,
            currency="EUR",
            basis="15 other ranks wait 46 ms of each 101 ms step; they would not.",
        ),
        "risk": "medium",
        "risk_reason": "15 jobs lose 8 GPUs until it is back; the running job must restart from its checkpoint.",
        "steps": [
            "Let the running job write a checkpoint",
            "Drain the node",
            "Send it to hardware diagnosis (dcgmi diag -r 3)",
        ],
        "apply": ["scontrol update nodename=gpu-02 state=drain reason='paceline cordon-gpu-02'"],
        "created_s": now_s - 900.0,
        "updated_s": now_s - 30.0,
        "expires_s": now_s + 85_000.0,
    }
    return events.Suggestion(**{**given, **changed})
