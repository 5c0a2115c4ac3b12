"""What Slurm starts on each node: the words that only the node knows, its devices, and the command in its place."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from trials import on_node
from trials.on_node import PORT, UNSUITED, UnsuitedError, bound, filled, known, numbers, visible

NODE = {"SLURM_NNODES": "2", "SLURM_NODEID": "1", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1", PORT: "4000"}


def started(folder, environ, **told):
    """Runs the file as it is copied into a job's folder: alone, isolated, with no package of ours to be seen."""
    copy, said = folder / "on_node.py", folder / "job.json"
    shutil.copyfile(on_node.__file__, copy)
    said.write_text(json.dumps({"gpus": None, "cpus": None, "numa": None, **told}))
    words = [sys.executable, "-I", str(copy), str(said)]
    return subprocess.run(words, env=environ, capture_output=True, text=True, check=False)


def test_words_are_filled_in_once():
    assert filled(["{nodes}x{node_rank}", "{master}:{port}", "{other}"], known(NODE)) == [
        "2x1",
        "10.0.0.1:4000",
        "{other}",
    ]
    assert filled(["{master}"], {**known(NODE), "master": "{port}"}) == ["{port}"]


def test_a_node_that_slurm_told_nothing_says_what_is_missing():
    with pytest.raises(UnsuitedError, match="SLURM_NODEID"):
        known({**NODE, "SLURM_NODEID": ""})


@pytest.mark.parametrize(("asked", "granted", "seen"), [([1, 0], "4,5", "5,4"), ([2], None, "2"), ([], "0", "")])
def test_gpus_are_those_of_what_slurm_granted(asked, granted, seen):
    assert visible(asked, granted) == seen


def test_a_gpu_beyond_what_slurm_granted_is_refused():
    with pytest.raises(UnsuitedError, match="granted 1"):
        visible([1], "7")


def test_cpus_are_those_of_the_memory_node_that_slurm_granted(tmp_path):
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1" / "cpulist").write_text("4-7\n")
    assert bound(None, 1, set(range(6)), tmp_path) == {4, 5}
    assert bound([4, 9], None, {4, 9}, tmp_path) == {4, 9}
    assert numbers("") == set()
    for cpus, numa, allowed in ([[8], None, {0}], [None, 3, {0}], [[0], 1, {0, 4}]):
        with pytest.raises(UnsuitedError):
            bound(cpus, numa, allowed, tmp_path)


@pytest.mark.slow
def test_the_command_takes_its_place_with_its_words_as_they_are(tmp_path):
    """No shell reads them, and its status is the job's."""
    seen = "sys.argv[1:], len(os.sched_getaffinity(0)), os.environ['CUDA_VISIBLE_DEVICES']"
    code = f"import os, sys; print({seen}); sys.exit(5)"
    command = [sys.executable, "-c", code, "$(id)", "a 'b", "{node_rank}"]
    cpu = min(os.sched_getaffinity(0))
    done = started(tmp_path, {**NODE, "CUDA_VISIBLE_DEVICES": "3"}, command=command, cpus=[cpu], gpus=[0])
    assert (done.returncode, done.stdout) == (5, "['$(id)', \"a 'b\", '1'] 1 3\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "environ", "said"),
    [
        ({"command": ["/no/such"]}, NODE, "No such file"),
        ({"command": ["true"], "cpus": [99_999]}, NODE, "not granted"),
        ({"command": ["true"]}, {}, "is not set"),
    ],
)
def test_a_node_that_does_not_suit_says_so_before_anything_runs(tmp_path, told, environ, said):
    done = started(tmp_path, environ, **told)
    assert done.returncode == UNSUITED
    assert said in done.stderr
