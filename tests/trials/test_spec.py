"""A spec is read strictly: what is wrong is said on one line with its place and what is allowed."""

import pytest

from trials.spec import MOST_VALUES, SpecError, read

LEAST = "name: small\nseconds: 5\nplacements: {ranks: 2}\n"


def test_a_short_spec_is_whole():
    """One value needs no list, and all else has a default."""
    spec = read(LEAST)

    assert (spec.placements.ranks, spec.seconds, spec.steps) == ([2], 5.0, None)
    assert (spec.executor_name, spec.executor_options) == ("local", {})


def test_every_dimension_is_read():
    """Sets by numbers or words, weights, variables and words of the command."""
    spec = read(
        "name: all\nsteps: 50\nexecutor: {slurm: {parallel: 2}}\nreads: [split, mode]\n"
        "placements:\n  gpus: [auto, 0-3, [4, 5]]\n  cpus: 0-1\n  numa: [auto, 1]\n  ranks: [1, 2]\n  nodes: [1, 2]\n"
        "  on: [[a, b], [c]]\n  loader_workers: [0, 4]\n  batch_size: [8]\n  split: [even, rated, [1, 2.5]]\n"
        "  environ: {OMP_NUM_THREADS: [1, 2]}\n  arguments: {mode: [x, 'y z']}\n"
        "exclude:\n  - {ranks: 2, mode: x}\n"
    )

    held = spec.placements
    assert (held.gpus, held.cpus, held.numa) == (["auto", "0-3", [4, 5]], ["0-1"], ["auto", "1"])
    assert (held.split, held.environ, held.arguments["mode"]) == (
        ["even", "rated", [1.0, 2.5]],
        {"OMP_NUM_THREADS": ["1", "2"]},
        ["x", "y z"],
    )
    assert (spec.executor_name, spec.executor_options) == ("slurm", {"parallel": "2"})


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "missing required field `name`"),
        ("- a", 1, "expected `object`"),
        ("name: a b\nseconds: 5\nplacements: {}", 1, "not 'a b'"),
        ("name: ../a\nseconds: 5\nplacements: {}", 1, "name"),
        ('name: "a\\n"\nseconds: 5\nplacements: {}', 1, "name"),
        ("name: a\nplacements: {}", 1, "by seconds or by steps"),
        ("name: a\nseconds: 5\nsteps: 50\nplacements: {}", 2, "one of them"),
        ("name: a\nseconds: nan\nplacements: {}", 2, ">= 0.5, not 'nan'"),
        ("name: a\nseconds: 86400\neta: 10\nplacements: {}", 2, "a week at most"),
        ("name: a\nsteps: 1000000\neta: 10\nplacements: {}", 2, "10000000 at most"),
        ("name: a\nseconds: 5\nlimit_s: 9\nplacements: {}", 3, "a run of the last rung measures 20 s"),
        ("name: a\nseconds: 5\nsecond: 3\nplacements: {}", 3, "no such key; there are name, "),
        ("name: a\nseconds: 5\nplacements:\n  rank: 2", 4, "placements.rank: no such key; there are gpus, "),
        ("name: a\nseconds: 5\nplacements:\n  ranks:\n  - 1\n  - x", 6, "placements.ranks[1]"),
        ("name: a\nseconds: 5\nplacements: {ranks: [0]}", 3, "expected `int` >= 1"),
        ("name: a\nseconds: 5\nplacements: {gpus: 3-1}", 3, "not '3-1'"),
        ("name: a\nseconds: 5\nplacements: {gpus: 0-9999}", 3, "numbers to 4095"),
        ("name: a\nseconds: 5\nplacements: {gpus: [[0, 0]]}", 3, "is given twice"),
        ("name: a\nseconds: 5\nplacements: {cpus: [[]]}", 3, "an empty set"),
        ("name: a\nseconds: 5\nplacements: {numa: left}", 3, "not 'left'"),
        ("name: a\nseconds: 5\nplacements: {split: fair}", 3, "even, rated or a list of weights"),
        ("name: a\nseconds: 5\nplacements: {split: [[1, inf]]}", 3, "split"),
        ("name: a\nseconds: 5\nplacements: {batch_size: 1, global_batch: 2}", 3, "one of them"),
        ("name: a\nseconds: 5\nplacements: {environ: {A-B: 1}}", 3, "environ"),
        ("name: a\nseconds: 5\nplacements: {environ: {PACELINE_TRIAL_X: 1}}", 3, "sets it itself"),
        ("name: a\nseconds: 5\nplacements: {gpus: 0, environ: {CUDA_VISIBLE_DEVICES: 1}}", 3, "sets it itself"),
        ("name: a\nseconds: 5\nplacements: {arguments: {ranks: 1}}", 3, "call it otherwise"),
        ("name: a\nseconds: 5\nplacements: {arguments: {port: 1}}", 3, "call it otherwise"),
        ("name: a\nseconds: 5\nplacements: {arguments: {mode: []}}", 3, "length >= 1"),
        ("name: a\nseconds: 5\nexclude: [{mode: x}]\nplacements: {}", 3, "no dimension; there are "),
        ("name: a\nseconds: 5\nexclude: [{}]\nplacements: {}", 3, "leave out everything"),
        ("name: a\nseconds: 5\nexclude: [{gpus: x}]\nplacements: {}", 3, "exclude[0].gpus"),
        ("name: a\nseconds: 5\nreads: [mode]\nplacements: {}", 3, "mode is no dimension"),
        ("name: a\nseconds: 5\nexecutor: cloud\nplacements: {}", 3, "there are local, slurm, kubernetes"),
        ("name: a\nseconds: 5\nexecutor: {local: {}, slurm: {}}\nplacements: {}", 3, "one of local"),
        ("name: a\nseconds: 5\nexecutor: {slurm: x}\nplacements: {}", 3, "keys and values"),
        ("name: a\nseconds: 5\nexecutor: {local: {x: 1}}\nplacements: {}", 3, "no options"),
        ("name: a\nname: b", 2, "name is given twice"),
        ("a: &x [1]\nb: [*x, *x]", 2, "aliases are not read"),
        ("name: [", 1, "line 1"),
        ("x: " + "[" * 40, 1, "nested deeper"),
        ("x" * 300_000, 1, "are read at most"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, line, said):
    """One line: the file, the line, the part, what is allowed."""
    with pytest.raises(SpecError) as error:
        read(text, "trial.yaml")

    assert str(error.value).startswith(f"trial.yaml, line {line}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_dimension_has_not_any_number_of_values():
    """The bound is told."""
    with pytest.raises(SpecError, match=f"length <= {MOST_VALUES}"):
        read(f"name: a\nseconds: 5\nplacements: {{ranks: {[1] * (MOST_VALUES + 1)}}}")
