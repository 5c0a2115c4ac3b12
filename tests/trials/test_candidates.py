"""A product of dimensions becomes placements; what cannot be is told with its reason, before anything runs."""

import pytest

from trials.candidates import expand
from trials.placement import filled
from trials.spec import SpecError, read
from trials.topology import Gpu, Topology

TRAIN = ("torchrun", "--nproc-per-node={ranks}", "train.py")
FOUR = Topology(
    gpus=tuple(Gpu(index, numa=index // 2) for index in range(4)),
    distance={(0, 1): 0, (2, 3): 0},
    cpus=tuple(range(8)),
    numa={0: (0, 1, 2, 3), 1: (4, 5, 6, 7)},
)


def spec_of(placements, more=""):
    return read(f"name: t\nseconds: 5\n{more}\nplacements: {placements}\n")


def expanded(placements, command=TRAIN, here=FOUR, rated=None, more=""):
    return expand(spec_of(placements, more), command, here, rated)


def labels(found):
    return [found.label(one) for one in found.possible]


def reasons(found):
    return {found.label(one.placement): one.reason for one in found.impossible}


def test_every_combination_is_one_placement():
    """The last dimension changes fastest, and only what differs is in the name."""
    found = expanded(
        "{ranks: [1, 2], batch_size: [8], loader_workers: [0, 4]}", (*TRAIN, "{batch_size}{loader_workers}")
    )

    assert labels(found) == [f"ranks={ranks} loader_workers={workers}" for ranks in (1, 2) for workers in (0, 4)]
    assert [one.number for one in found.possible] == [1, 2, 3, 4]


def test_without_a_dimension_there_is_one():
    """The command as it is."""
    assert labels(expanded("{}", ("train.py",))) == ["as it is"]


def test_the_same_placement_is_there_once():
    """A set that is written, and found as well."""
    assert labels(expanded("{gpus: [0-3, [0, 1, 2, 3], auto], ranks: [4]}")) == ["as it is"]


@pytest.mark.parametrize(
    ("placements", "reason"),
    [
        ("{gpus: [0-1], ranks: [4]}", "4 ranks a node on 2 GPUs"),
        ("{gpus: [0-7], ranks: [4]}", "GPU 4 is not there"),
        ("{gpus: [auto], ranks: [8]}", "8 GPUs wanted, there are 0, 1, 2, 3"),
        ("{cpus: [0-9], ranks: [1]}", "CPU 8 is not there, or not allowed to us: we have 0-7"),
        ("{numa: [2], ranks: [1]}", "memory node 2 is not there: there are 0, 1"),
        ("{numa: [1], cpus: [2-5], ranks: [1]}", "CPUs 2-5 are not all of memory node 1 (4-7)"),
        ("{nodes: [2], ranks: [1]}", "the local executor has this one"),
        ("{on: [[a, a]], nodes: 2, ranks: [1]}", "2 different nodes wanted"),
    ],
)
def test_devices_that_are_not_there(placements, reason):
    """Each is left out with its reason; the others stay."""
    found = expanded(placements)

    assert (found.possible, len(found.impossible)) == ((), 1)
    assert reason in found.impossible[0].reason


def test_the_rest_can_run():
    """An impossible placement stops no other."""
    found = expanded("{gpus: [0-1, 0-5], ranks: [2]}")

    assert labels(found) == ["gpus=0-1"]
    assert list(reasons(found)) == ["gpus=0-5"]


def test_no_gpu_at_all_is_said_with_why():
    """What the driver said is in it."""
    found = expanded("{gpus: auto}", here=Topology(cpus=(0,), why=("no NVIDIA driver",)))

    assert "there is no GPU; no NVIDIA driver" in found.impossible[0].reason


def test_mig_is_told_as_not_supported():
    """A GPU that is cut into instances is no device of a set."""
    here = Topology(gpus=(Gpu(0, mig=True), Gpu(1)), cpus=(0,))

    assert "MIG" in expanded("{gpus: [0-1], ranks: 2}", here=here).impossible[0].reason
    assert [one.gpus for one in expanded("{gpus: auto, ranks: 1}", here=here).possible] == [(1,)]


def test_another_machine_is_not_judged():
    """Where Slurm runs it, we do not know the devices, and take the spec's word; auto cannot be."""
    more = "executor: {slurm: {}}"

    assert labels(expanded("{gpus: [0-63], ranks: [2]}", here=None, more=more)) == ["as it is"]
    assert "another machine" in expanded("{gpus: auto}", here=None, more=more).impossible[0].reason


def test_several_nodes_need_a_command_that_meets():
    """Each node would train alone otherwise."""
    more = "executor: {slurm: {}}"

    assert "train alone" in expanded("{nodes: 2, ranks: 1}", here=None, more=more).impossible[0].reason
    meeting = (*TRAIN, "--nnodes={nodes}", "--node-rank={node_rank}")
    assert expanded("{nodes: 2, ranks: 1}", meeting, None, more=more).possible[0].world == 2


BATCHED = (*TRAIN, "--batch={batch_size}")
SHARED = (*TRAIN, "--batches={split}")


@pytest.mark.parametrize(
    ("placements", "command", "reason"),
    [
        ("{global_batch: [30], ranks: [4]}", BATCHED, "30 is not divided evenly by 4 ranks"),
        ("{global_batch: [4], ranks: [2], split: [[1, 1000]]}", SHARED, "leaves a rank without a sample"),
        ("{global_batch: [32], ranks: [4], split: [[1, 2]]}", SHARED, "2 weights for 4 ranks"),
        ("{global_batch: [32], ranks: [2], split: [[1, 3]]}", (*BATCHED, "{split}"), "the command needs {split}"),
        ("{global_batch: [32]}", ("t.py", "{batch_size}"), "give ranks"),
        ("{ranks: [2], split: [even]}", SHARED, "give batch_size or global_batch"),
        ("{global_batch: [32], ranks: [2], split: [rated]}", SHARED, "run paceline benchmark first"),
    ],
)
def test_batches_that_cannot_be_shared(placements, command, reason):
    """No split divides them."""
    assert reason in expanded(placements, command).impossible[0].reason


def test_shares_follow_the_weights():
    """By weight, by rating and evenly; the sum stays."""
    found = expanded(
        "{gpus: [0-1], ranks: [2], global_batch: [64], split: [even, rated, [1, 3]]}", SHARED, rated={0: 3.0, 1: 1.0}
    )

    assert [one.shares for one in found.possible] == [(32, 32), (48, 16), (16, 48)]
    assert {one.samples for one in found.possible} == {64}
    assert [one.values()["split"] for one in found.possible] == ["32,32", "48,16", "16,48"]


def test_the_batch_of_all_is_known_from_that_of_a_rank():
    """A placeholder of it is filled."""
    command = (*BATCHED, "--all={global_batch}")
    made = expanded("{batch_size: [8], ranks: [2]}", command).possible[0]

    assert filled(command, made.values())[-2:] == ("--batch=8", "--all=16")


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        ("{ranks: 2}", {"1 0-1 1:3", "1 2-3 1:3", "1 0-1 even", "1 2-3 even"}),
        ("{gpus: '0,1', ranks: 1}", {"1 2-3 1:3", "1 2-3 even", "2 0-1 1:3", "2 0-1 even", "2 2-3 1:3", "2 2-3 even"}),
        ("{gpus: [0, 1]}", {"1 2-3 1:3", "1 2-3 even", "2 2-3 1:3", "2 2-3 even"}),
        ("{split: [1, 3]}", {"1 0-1 even", "1 2-3 even", "2 0-1 even", "2 2-3 even"}),
    ],
)
def test_excluded_combinations_are_none(exclude, left):
    """However a set is written."""
    found = expanded(
        "{gpus: [0-1, 2-3], ranks: [1, 2], global_batch: 8, split: [even, [1, 3]]}",
        SHARED,
        more=f"exclude: [{exclude}]",
    )
    every = [*found.possible, *(one.placement for one in found.impossible)]

    assert {f"{one.ranks} {one.values()['gpus']} {one.split}" for one in every} == left


def test_named_nodes_are_excluded():
    """A list of names is a value as any other."""
    more = "executor: {slurm: {}}\nexclude: [{'on': [a, b]}]"
    meeting = (*TRAIN, "{nodes}{node_rank}")
    found = expanded("{on: [[a, b], [c, d]], ranks: 1}", meeting, None, more=more)

    assert [one.on for one in found.possible] == [("c", "d")]


@pytest.mark.parametrize(
    ("placements", "command", "said"),
    [
        ("{ranks: 1}", (*TRAIN, "{batch_size}"), "{batch_size} in the command: no dimension of this spec fills it"),
        ("{ranks: 1, batch_size: 8}", TRAIN, "placements.batch_size: nothing in the command uses it"),
        ("{ranks: 1, arguments: {mode: x}}", TRAIN, "placements.mode: nothing in the command uses it"),
        ("{ranks: [1, 2], environ: {A: [1, 2, 3], B: [1, 2, 3]}}", TRAIN, "18 placements; the spec allows 4"),
        (
            "{ranks: 1, environ: {A: [1, 2, 3, 4, 5, 6, 7, 8, 9], B: [1, 2, 3, 4, 5, 6, 7, 8]}}",
            TRAIN,
            "72 combinations",
        ),
    ],
)
def test_a_trial_that_cannot_be_as_a_whole(placements, command, said):
    """Placeholders that nothing fills, dimensions that nothing uses, more than allowed."""
    with pytest.raises(SpecError) as error:
        expanded(placements, command, more="most: 4")

    assert said in str(error.value)


def test_a_script_may_read_its_environment_instead():
    """Said in the spec; doubled braces are the word itself."""
    assert labels(expanded("{batch_size: [8, 9]}", ("t.py", "{{x}}"), more="reads: [batch_size]")) == [
        "batch_size=8",
        "batch_size=9",
    ]
