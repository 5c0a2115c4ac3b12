"""A rank whose device waits for its host: named with that cause, its device and its peers cleared."""

import random

from importers.kineto_phases import StepRow
from importers.op_rows import ImportedJob
from importers.step_messages import step_messages
from paceline.events import Finding
from streams.processor import Processor

RANKS, STEPS, STEP_S = range(8), range(5, 85), 0.5
WORK = {"forward": 0.15, "backward": 0.2, "optimizer": 0.02}


def steps(rank, starved, dice):
    """Everybody computes alike; who waits for launches comes last into the collective, and the others wait there."""
    made = []
    for step in STEPS:
        phases = {name: value * dice.uniform(0.99, 1.01) for name, value in WORK.items()}
        phases["idle"] = dice.uniform(0.09, 0.11) if rank in starved else dice.uniform(0.001, 0.01)
        phases["communication"] = STEP_S - sum(phases.values())
        made.append(StepRow(step, 1.7e9 + step * STEP_S, STEP_S, phases, {}))
    return made


def found(starved):
    """The last word on each finding."""
    dice, processor, said = random.Random(4), Processor(), {}
    job = ImportedJob("job", list(RANKS), {}, {}, {})
    for message in step_messages({rank: steps(rank, starved, dice) for rank in RANKS}, [], {}, job):
        for _, answer in processor.update(message.topic, message.event):
            if isinstance(answer, Finding):
                said[answer.id] = answer
    return list(said.values())


def test_a_host_that_launches_too_late_is_the_cause():
    """Not the device: its computing is cleared by name."""
    (finding,) = found({6})
    assert (finding.kind, finding.state, finding.ranks, finding.cause) == ("straggler", "confirmed", [6], "host_bound")
    assert any("worker compute: 0%" in text for text in finding.exonerated)


def test_devices_that_all_wait_alike_accuse_nobody():
    """A job whose hosts all are slow has no straggler."""
    assert [finding for finding in found(set(RANKS)) if finding.ranks] == []
