"""How a job ended becomes a run of the journal."""

from pathlib import Path

import msgspec
import pytest

from trials.executor import Ended, Job
from trials.halving import Place, Run
from trials.outcomes import MOST_SAID, run_of, told_of
from trials.result import NodeResult

PLACE = Place(1, 2, 3, 1)
JOB = Job(PLACE.job, ("x",), Path("/f"), 1, 1)
MEASURED = NodeResult(
    job=JOB.id, node="n", outcome="measured", steps=60, blocks_s=[0.1] * 30, batch_size=4, world_size=2, median_s=0.1
)


def ended(how="ended", status=0, said="", *results):
    return Ended(how, status, tuple(map(msgspec.json.encode, results)), said)


def test_a_measured_run():
    """Its place, blocks and samples; and the decision gets the same."""
    told = told_of(PLACE, JOB, ended("ended", 0, "", MEASURED), None, 12.5)

    assert (told.outcome, told.samples, told.steps, told.took_s) == ("measured", 8.0, 60, 12.5)
    assert run_of(told) == Run(PLACE, "measured", (0.1,) * 30, 8.0)


def test_samples_that_were_asked_for_stand_above_those_seen():
    """An uneven split has another batch on each rank."""
    assert told_of(PLACE, JOB, ended("ended", 0, "", MEASURED), 48, 1).samples == 48


def test_without_a_batch_there_are_no_samples():
    """Steps are counted then."""
    strange = msgspec.structs.replace(MEASURED, batch_size=None)

    assert told_of(PLACE, JOB, ended("ended", 0, "", strange), None, 1).samples is None


@pytest.mark.parametrize(
    ("how", "outcome", "reason"),
    [
        (ended("killed", None), "hung", "over its time limit; killed"),
        (ended("gone", None), "gone", "its end is not known"),
        (ended("ended", 1, "KeyError"), "crashed", "status 1, and no result"),
        (ended("ended", 1, "CUDA out of memory"), "out_of_memory", "out of memory (status 1)"),
        (ended("ended", 0, "", msgspec.structs.replace(MEASURED, job="another")), "crashed", "status 0, and no result"),
        (Ended("ended", 0, (b"{",), ""), "crashed", "status 0, and no result"),
    ],
)
def test_without_a_document_how_it_ended_tells(how, outcome, reason):
    """Another job's document, or a torn one, is none."""
    told = told_of(PLACE, JOB, how, None, 1)

    assert (told.outcome, told.reason, told.blocks_s) == (outcome, reason, [])


def test_what_it_said_is_bounded():
    """The last lines."""
    told = told_of(PLACE, JOB, ended("ended", 1, "".join(f"{line} {'x' * 300}\n" for line in range(100))), None, 1)

    assert len(told.said) <= MOST_SAID
    assert told.said.splitlines()[-1].startswith("99 ")
