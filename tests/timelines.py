"""Made-up timelines of a pipeline job as clusters publish them: sampled steps, a row an op, clocks of every kind.

Rule of this file: the standard library and numpy; one-forward-one-backward, and every rank does one thing after the
other. A receive takes as long as its rank waits, and the send that is posted with it has its start and duration.
"""

import csv
from dataclasses import dataclass, field

import numpy as np

HEAD = ["step", "dp_rank", "pp_rank", "rank", "type", "start", "duration", "mb_id", "peer"]
COMPUTE = {True: "backward-compute", False: "forward-compute"}
#: How starts count: seconds since the epoch, from the first row of a step on, from that of each rank's step, or of
#: every tenth step; or so that each rank has a clock of its own, years from the others.
CLOCKS = ("absolute", "per step", "per rank and step", "per tenth step", "per rank")


@dataclass(frozen=True)
class PipelineJob:
    """What the job is, and what is wrong with it: ``slow`` ranks by place (dp, stage), with their factor."""

    data: int = 4
    stages: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    batches: int = 8
    steps: int = 44
    slow: dict[tuple[int, int], float] = field(default_factory=dict)
    #: By how much micro-batches differ in length, as the deviation of its logarithm.
    spread: float = 0.0
    #: Of each tensor group there is one rank.
    tensor: int = 1
    clock: str = "absolute"
    #: Communication is told from when everybody is there, without the waiting before it.
    transfers: bool = False
    #: Whether rows of the gradients' communication last until all ranks are there, or only as long as they transfer.
    meets: bool = True
    seed: int = 0

    def rank(self, dp, stage):
        """The number of the rank at a place."""
        return (stage * self.data + dp) * self.tensor


def rows(job):
    """The rows of ``job``, in the order of ``HEAD``; times in seconds."""
    dice, now, number = np.random.default_rng(job.seed), 1.7e9, 100
    origins = {}
    for step in range(job.steps):
        made = list(_step(job, dice))
        for dp, stage, name, start, duration, batch, peer in made:
            rank = job.rank(dp, stage)
            key = {"per step": step, "per rank and step": (step, rank), "per tenth step": step // 10, "per rank": rank}
            shift = now
            if job.clock in key:
                first = min(one[3] for one in made if job.clock != "per rank and step" or one[:2] == (dp, stage))
                shift = now - origins.setdefault(key[job.clock], now + first)
                shift += 1e8 * rank if job.clock == "per rank" else 0.0
            if job.transfers and name.split("-")[-1] in ("recv", "send", "scatter"):
                start, duration = start + duration - min(duration, 1e-3), min(duration, 1e-3)
            yield [number, dp, stage, rank, name, round(start + shift, 6), round(duration, 6), batch, peer]
        number += int(dice.integers(2, 500))
        now += max(one[3] + one[4] for one in made) + float(dice.integers(0, 3000))


def write(path, job, head=HEAD, unit_s=1.0, shuffle=False, keep=lambda row: True):
    """``job`` as CSV, with the columns of ``head`` only; times in units of ``unit_s``."""
    table = [row for row in rows(job) if keep(row)]
    if shuffle:
        table = [table[at] for at in np.random.default_rng(1).permutation(len(table))]
    places = [HEAD.index(name) for name in head]
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(head)
        for row in table:
            row[5], row[6] = (round(value / unit_s) if unit_s < 1e-3 else value / unit_s for value in row[5:7])
            out.writerow([row[place] for place in places])
    return path


def _step(job, dice):
    """The rows of one step, from time 0 on: dp, stage, op, start, duration, micro-batch, peer."""
    stages, ends = len(job.stages), {}
    for dp in range(job.data):
        long = np.exp(job.spread * dice.standard_normal(job.batches))
        yield from _pipeline(job, dice, dp, long, ends)
    last = max(ends.values())
    for (dp, stage), end in ends.items():
        over = (last if job.meets else end) + 0.05
        yield dp, stage, "grads-reduce-scatter", end, over - end, -1, ""
        yield dp, stage, "optimizer-step", over, 0.04 * dice.normal(1, 0.01), -1, ""
        yield dp, stage, "gc", over + 0.05, 0.0, -1, ""
        yield dp, stage, "params-all-gather", over + 0.05, 0.05, -1, ""
        yield dp, stage, "embedding-sync", over + 0.05, 0.05, -1, (stage + 1) % stages


def _pipeline(job, dice, dp, long, ends):
    stages = len(job.stages)
    done, free = {}, [0.0] * stages
    plans = [_plan(stage, stages, job.batches) for stage in range(stages)]
    while any(plans):
        for stage, plan in enumerate(plans):
            while plan:
                back, batch = plan[0]
                source = (back, stage + 1 if back else stage - 1, batch)
                if back and stage == stages - 1:
                    source = (False, stage, batch)
                first = not back and stage == 0
                if not first and source not in done:
                    break
                ready = max(free[stage], done.get(source, 0.0))
                if not first and source[1] != stage:
                    word, other = ("backward", "forward") if back else ("forward", "backward")
                    yield dp, stage, f"{word}-recv", free[stage], ready - free[stage], batch, source[1]
                    yield dp, stage, f"{other}-send", free[stage], ready - free[stage], batch, source[1]
                took = 0.1 * (1 + back) * job.stages[stage] * long[batch] * dice.normal(1, 0.01)
                took *= job.slow.get((dp, stage), 1.0)
                yield dp, stage, COMPUTE[back], ready, took, batch, ""
                free[stage] = done[back, stage, batch] = ready + took
                plan.pop(0)
    ends.update({(dp, stage): end for stage, end in enumerate(free)})


def _plan(stage, stages, batches):
    """The passes of a stage in their order: whether backward, and of which micro-batch."""
    warm = min(stages - 1 - stage, batches)
    order = [(False, batch) for batch in range(warm)]
    for batch in range(batches):
        order += [(False, warm + batch)] if warm + batch < batches else []
        order.append((True, batch))
    return order
