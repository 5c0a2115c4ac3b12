"""What a trial would do, before it does."""

from pathlib import Path

import pytest

from trials import dry_run
from trials.candidates import expand
from trials.executor import ExecutorError
from trials.spec import read

COMMAND = ("t.py", "{batch_size}")


class Choosy:
    """An executor that cannot do batches of 9."""

    parallel = 2

    def manifest(self, job):
        if job.command[-1] == "9":
            raise ExecutorError("no nines here")
        return f"do {job.id} in {job.folder}"


def spec_of(more="seconds: 5"):
    return read(f"name: t\n{more}\nplacements: {{batch_size: [8, 9, 10]}}")


def test_what_the_executor_refuses_is_impossible():
    """With its reason; the others have the first job's words."""
    found, manifests = dry_run.refused(
        expand(spec_of(), COMMAND, None), Choosy(), spec_of(), COMMAND, Path("/f"), ("paceline",)
    )

    assert manifests == {1: "do r0-n0-p1-t0 in /f/r0-n0-p1-t0", 3: "do r0-n0-p3-t0 in /f/r0-n0-p3-t0"}
    assert dry_run.placements(found).splitlines() == [
        "2 placements",
        "    1  batch_size=8",
        "    3  batch_size=10",
        "    -  batch_size=9: impossible: no nines here",
    ]


@pytest.mark.parametrize(
    ("more", "count", "parallel", "lines", "seconds"),
    [
        ("seconds: 5", 4, 1, ["4 placements, 2 runs of 5 s", "2 placements, 2 runs of 10 s"], 8 * 35 + 4 * 40),
        ("seconds: 5", 4, 3, ["4 placements, 2 runs of 5 s", "2 placements, 2 runs of 10 s"], 3 * 35 + 2 * 40),
        ("seconds: 2.5\nrungs: 1\nrepeats: 1", 4, 1, ["4 placements, 1 run of 2.5 s"], 4 * 32.5),
        ("steps: 50\nkeep: 3", 4, 1, ["4 placements, 2 runs of 50 steps"], None),
        (
            "steps: 50\nkeep: 2\nrungs: 2",
            8,
            1,
            ["8 placements, 2 runs of 50 steps", "4 placements, 2 runs of 100 steps"],
            None,
        ),
        ("seconds: 5", 1, 1, ["1 placement, 2 runs of 5 s"], 2 * 35),
    ],
)
def test_the_plan_of_rungs(more, count, parallel, lines, seconds):
    """As many as halving would run where nobody is alike, and the time that these take."""
    text, total = dry_run.rungs(spec_of(more), count, parallel)
    *rungs, last = text.splitlines()

    assert rungs == [f"  rung {at + 1}: {line} each" for at, line in enumerate(lines)]
    assert last.startswith("  in all: about " if seconds else "  in all: as long as")
    assert total == seconds
