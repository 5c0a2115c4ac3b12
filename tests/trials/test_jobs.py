"""A placement becomes a job, and the command line that a person copies."""

from pathlib import Path

import pytest

from trials.halving import Place
from trials.jobs import by_hand, expected_s, job, measuring
from trials.placement import Placement
from trials.plan import decoded
from trials.spec import read

COMMAND = ("torchrun", "--nproc-per-node={ranks}", "--master-port={port}", "train.py", "--batch={batch_size}", "{{x}}")
PLACEMENT = Placement(4, gpus=(2, 3), cpus=(0, 1, 2), ranks=2, batch_size=8, environ={"OMP_NUM_THREADS": "1 2"})


def spec_of(more="seconds: 5"):
    return read(f"name: t\n{more}\nplacements: {{}}")


def test_a_job_has_all_of_its_placement():
    """The measuring in one word, the node's words left for the node."""
    made = job(spec_of(), Place(1, 0, 4), PLACEMENT, COMMAND, Path("/f"), ("paceline",))

    assert (made.command[:3], made.command[4:6]) == (("paceline", "trial", "--inside"), ("{node_rank}", "--"))
    assert made.command[-6:] == (
        "torchrun",
        "--nproc-per-node=2",
        "--master-port={port}",
        "train.py",
        "--batch=8",
        "{x}",
    )
    assert decoded(made.command[3]) == measuring(spec_of(), Place(1, 0, 4), PLACEMENT, Path("/f"))
    assert (made.gpus, made.cpus, made.ranks_per_node, made.folder) == ((2, 3), (0, 1, 2), 2, Path("/f/r1-n0-p4-t0"))
    assert made.environ == {
        "PACELINE_TRIAL_GPUS": "2-3",
        "PACELINE_TRIAL_CPUS": "0-2",
        "PACELINE_TRIAL_RANKS": "2",
        "PACELINE_TRIAL_BATCH_SIZE": "8",
        "OMP_NUM_THREADS": "1 2",
    }


def test_later_rungs_are_longer():
    """By eta, in seconds or in steps."""
    seconds = [measuring(spec_of(), Place(rung, 0, 4), PLACEMENT, Path("/f")) for rung in range(3)]
    steps = [measuring(spec_of("steps: 50\neta: 3"), Place(rung, 0, 4), PLACEMENT, Path("/f")) for rung in range(3)]

    assert [one.seconds for one in seconds] == [5, 10, 20]
    assert [one.steps for one in steps] == [50, 150, 450]
    assert [expected_s(spec_of(), rung) for rung in range(2)] == [35, 40]
    assert expected_s(spec_of("steps: 50"), 0) is None


def test_the_limit_is_the_specs_or_follows():
    """The executor's is longer, for what comes after the measuring."""
    plan = measuring(spec_of("seconds: 5\nlimit_s: 77"), Place(0, 0, 4), PLACEMENT, Path("/f"))
    made = job(spec_of(), Place(0, 0, 4), PLACEMENT, COMMAND, Path("/f"), ("paceline",))

    assert plan.limit_s == 77
    assert made.limit_s > measuring(spec_of(), Place(0, 0, 4), PLACEMENT, Path("/f")).limit_s == 265


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        (
            PLACEMENT,
            "PACELINE_TRIAL_GPUS=2-3 PACELINE_TRIAL_CPUS=0-2 PACELINE_TRIAL_RANKS=2 PACELINE_TRIAL_BATCH_SIZE=8 "
            "OMP_NUM_THREADS='1 2' CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2,3 taskset -c 0-2 "
            "torchrun --nproc-per-node=2 --master-port=29500 train.py --batch=8 '{x}'",
        ),
        (
            Placement(1, numa=1, ranks=1, batch_size=8),
            "PACELINE_TRIAL_NUMA=1 PACELINE_TRIAL_RANKS=1 PACELINE_TRIAL_BATCH_SIZE=8 "
            "numactl --cpunodebind=1 --membind=1 "
            "torchrun --nproc-per-node=1 --master-port=29500 train.py --batch=8 '{x}'",
        ),
    ],
)
def test_the_command_by_hand(placement, words):
    """Ready to copy: quoted for a shell."""
    assert by_hand(placement, COMMAND) == words
