"""Explicit phases and steps, and watching from inside a script."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.forking import Forking
from paceline import columns, topics, wire
from paceline.recording import Line, read
from paceline.sidecar.server import FIRST_RANK_S

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
LOOP = """
from paceline import training
assert "torch" not in __import__("sys").modules
with training.watch():
    for index in range(5):
        with training.phase("data"):
            sum(range(2000))
        with training.phase("forward"):
            sum(range(20000))
        with training.phase("no such phase"):
            pass
        training.step()
"""
WATCHED = """
import sys, torch
from paceline import training
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
with training.watch(record=sys.argv[1]):
    for _ in range(10):
        (weight * 2).sum().backward()
        optimizer.step()
optimizer.step()
"""


def steps_in(record: Path) -> set[int]:
    """The steps that a recording tells of so far."""
    lines = [line for line in read(str(record)) if isinstance(line, Line)] if record.exists() else []
    values = [line.value for line in lines if line.topic == topics.OP.name]
    return {step for value in values for step in columns.numbers(wire.decode(topics.OP, value).step)}


def test_a_loop_without_torch_tells_its_phases(new_listener: Callable[[], Any]) -> None:
    """Each step holds what its phases took; a word that is no phase counts as other; nothing imports PyTorch."""
    listener = new_listener()
    done = listener.run("-c", LOOP, environ={"RANK": "3", "WORLD_SIZE": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    (heard,) = listener.heard
    assert heard.hello.rank == 3
    assert len(heard.steps()) == 5
    assert all({"data", "forward", "other", "step"} <= set(step) for step in heard.steps())


def test_without_a_sidecar_or_watch_the_calls_do_nothing(python: Callable[..., Any]) -> None:
    """A script keeps its calls where nobody listens."""
    calls = "from paceline import training as t\nwith t.phase('data'): t.step()\nt.stop()"
    done = python("-c", calls, environ={"PACELINE_SOCKET": ""})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("runtime", ["", "nobody-here"])
def test_watching_starts_a_sidecar(
    python: Callable[..., Any], tmp_path: Path, until: Callable[..., bool], runtime: str
) -> None:
    """With no ``paceline run``, the script's own sidecar writes the recording; it ends when the script has.

    Slurm passes on the name of a runtime folder that only the node of the login has.
    """
    record = tmp_path / "run.jsonl"
    own = {"PACELINE_SOCKET": "", "PYTHONPATH": "", "XDG_RUNTIME_DIR": str(tmp_path / runtime), "TMPDIR": str(tmp_path)}
    done = python("-c", WATCHED, str(record), environ=own)
    assert done.returncode == 0, done.stderr
    until(lambda: steps_in(record) == set(range(10)))
    assert (tmp_path / f"paceline-{Path(record).stat().st_uid}").stat().st_mode & 0o777 == 0o700


TWICE = """
import sys
from paceline import training
for record in sys.argv[1:]:
    with training.watch(record=record):
        for _ in range(5):
            with training.phase("forward"):
                sum(range(20000))
            training.step()
"""


def test_each_of_several_watches_is_recorded(
    python: Callable[..., Any], tmp_path: Path, until: Callable[..., bool]
) -> None:
    """The second begins while the sidecar of the first may be ending."""
    records = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    own = {"PACELINE_SOCKET": "", "PYTHONPATH": "", "XDG_RUNTIME_DIR": str(tmp_path)}
    done = python("-c", TWICE, *map(str, records), environ=own)
    assert (done.returncode, done.stderr) == (0, "")
    for record in records:
        until(lambda record=record: steps_in(record) == set(range(5)))
    folder = tmp_path / f"paceline-{tmp_path.stat().st_uid}"
    until(lambda: list(folder.iterdir()) == [])


RAISES = """
from paceline import training
with training.watch():
    print("begun", flush=True)
    raise SystemExit(3)
"""


def test_who_captures_the_output_of_a_script_that_fails_early_waits_a_moment(
    python: Callable[..., Any], tmp_path: Path
) -> None:
    """Its sidecar never has a rank, and holds the script's standard error open as long as it lives."""
    own = {"PACELINE_SOCKET": "", "PYTHONPATH": "", "XDG_RUNTIME_DIR": str(tmp_path)}
    done = python("-c", RAISES, environ=own, timeout=FIRST_RANK_S / 2)
    assert (done.returncode, done.stdout) == (3, "begun\n")


@pytest.mark.parametrize(
    ("names", "on_path"),
    [
        (("msgspec", "numpy", "kafka"), False),
        (("numpy", "kafka", "zstandard", "sitecustomize", "usercustomize"), True),  # The script itself takes msgspec.
    ],
    ids=["folder", "PYTHONPATH"],
)
def test_the_sidecar_runs_nothing_of_the_scripts_surroundings(
    python: Callable[..., Any], tmp_path: Path, until: Callable[..., bool], names: tuple[str, ...], on_path: bool
) -> None:
    """A module in the folder we stand in or on PYTHONPATH, called as one the sidecar needs, is never run by it."""
    planted, ran = tmp_path / "planted", tmp_path / "ran"
    planted.mkdir()
    for name in names:
        (planted / f"{name}.py").write_text(f"import sys; print(sys.orig_argv, file=open({str(ran)!r}, 'a'))")
    record, script = tmp_path / "run.jsonl", tmp_path / "train.py"
    script.write_text(LOOP.replace("watch()", f"watch(record={str(record)!r})"))
    own = {"PACELINE_SOCKET": "", "PYTHONPATH": str(planted) if on_path else "", "XDG_RUNTIME_DIR": str(tmp_path)}
    done = python(str(script), environ={**own, "RANK": "0", "WORLD_SIZE": "1"}, cwd=planted)
    assert done.returncode == 0, done.stderr
    until(lambda: steps_in(record) == set(range(5)) or "--until-empty" in (ran.read_text() if ran.exists() else ""))
    assert not ran.exists() or "--until-empty" not in ran.read_text()


JOINED = """
import os, sys, torch, torch.distributed as dist
from paceline import training
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def steps():
    for _ in range(200):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
steps()
with training.watch(total_steps=int(sys.argv[1])):
    steps()
"""


@pytest.mark.parametrize(
    ("options", "expected"), [(("--total-steps", "900"), "700"), ((), "700")], ids=["option too", "watch alone"]
)
def test_the_steps_that_a_run_means_to_take_are_in_its_description(
    options: tuple[str, ...],
    expected: str,
    python: Callable[..., Any],
    two_ranks: Callable[[], Forking],
    tmp_path: Path,
) -> None:
    """The script says so late, under ``paceline run``: its word counts. The forecaster reads it from there."""
    script, record = tmp_path / "train.py", tmp_path / "run.jsonl"
    script.write_text(JOINED, encoding="utf-8")
    run = ["-m", "paceline", "run", "--brokers", "none", "--record", str(record), "--no-panel", *options, "--"]
    forked = two_ranks()
    command = [*run, sys.executable, *forked.command, str(script), expected]
    done = python(*command, environ={"TMPDIR": str(tmp_path), **forked.environ}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + forked.said()
    lines = [line for line in read(str(record)) if isinstance(line, Line)]
    told = [wire.decode(topics.JOB, line.value) for line in lines if line.topic == topics.JOB.name]
    assert [event.labels.get("total_steps") for event in told if event.places][-1] == expected
