"""Tables of op timings as clusters keep them, imported and judged: sampled steps, hours between them, and pauses."""

import csv

import msgspec
import numpy as np
import pytest

from paceline.__main__ import main
from streams.analyze import main as analyze

PIPELINES, STAGES, BATCHES = 4, 4, 8
#: A few steps of each profiling window, hours apart.
STEPS = [*range(16, 36, 2), *range(404, 420, 3), *range(1204, 1224, 2)]
NAMES = {True: "backward-compute", False: "forward-compute"}


def table(path, slow=None, stages=(1.0, 1.0, 1.0, 1.0), spread=0.0, seed=0):
    """One-forward-one-backward on every pipeline; receiving takes as long as it has to wait, zeros and all."""
    dice, now = np.random.default_rng(seed), 1.7e9
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["dp_rank", "stage", "step", "optype", "start_ts", "duration", "mb_id"])
        for before, step in zip([STEPS[0], *STEPS], STEPS, strict=False):
            now += 40.0 * (step - before)
            ends = []
            for pipeline in range(PIPELINES):
                long = np.exp(spread * dice.standard_normal(BATCHES))
                ends.append(_pipeline(out, dice, pipeline, step, now, long, stages, slow))
            now = max(ends) + 0.1
            for pipeline, end in enumerate(ends):
                for stage in range(STAGES):
                    out.writerow([pipeline, stage, step, "grads-reduce-scatter", end, now - end, -1])
                    out.writerow([pipeline, stage, step, "optimizer", now, 0.05, -1])


def _pipeline(out, dice, pipeline, step, now, long, stages, slow):
    done, free = {}, [now] * STAGES
    plans = [_plan(stage) for stage in range(STAGES)]
    while any(plans):
        for stage, plan in enumerate(plans):
            while plan:
                back, batch = plan[0]
                source = (back, stage + 1 if back else stage - 1, batch)
                if back and stage == STAGES - 1:
                    source = (False, stage, batch)
                if source[1] >= 0 and source not in done:
                    break
                ready = max(free[stage], done.get(source, now))
                kind = "backward" if back else "forward"
                out.writerow([pipeline, stage, step, f"{kind}-recv", free[stage], ready - free[stage], -1])
                took = 0.1 * (1 + back) * stages[stage] * long[batch] * dice.normal(1, 0.01)
                took *= 1.6 if slow == (pipeline, stage) else 1.0
                out.writerow([pipeline, stage, step, NAMES[back], ready, took, batch])
                free[stage] = done[back, stage, batch] = ready + took
                plan.pop(0)
    return max(free)


def _plan(stage):
    warm = min(STAGES - 1 - stage, BATCHES)
    order = [(False, batch) for batch in range(warm)]
    for batch in range(BATCHES):
        order += [(False, warm + batch)] if warm + batch < BATCHES else []
        order.append((True, batch))
    return order


@pytest.mark.parametrize(
    ("what", "kinds", "ranks"),
    [
        ({"slow": (2, 1)}, {"straggler"}, {6}),
        ({"stages": (1.0, 1.0, 1.0, 1.35)}, {"stage_imbalance"}, set()),
        ({"spread": 0.4}, {"data_imbalance"}, set()),
        ({"slow": (2, 1), "spread": 0.4}, {"straggler", "data_imbalance"}, {6}),
        ({}, set(), set()),
    ],
    ids=["a slow worker", "a long last stage", "uneven sequences", "a slow worker with uneven sequences", "healthy"],
)
def test_sampled_steps_of_a_pipeline_are_judged(tmp_path, capsys, what, kinds, ranks):
    """Only every few steps is there, hours apart: what is wrong is found, and nothing else."""
    table(tmp_path / "ops.csv", **what)
    recording = tmp_path / "run.jsonl.zst"
    assert main(["import", "timeline", str(tmp_path / "ops.csv"), "-o", str(recording)]) == 0
    capsys.readouterr()
    assert analyze([str(recording), "--json"]) == 0
    said = capsys.readouterr().out.splitlines()
    found = [msgspec.json.decode(line) for line in said if line.startswith("{")]
    assert {one["kind"] for one in found if one["state"] == "confirmed"} == kinds
    assert {rank for one in found for rank in one["ranks"]} == ranks
