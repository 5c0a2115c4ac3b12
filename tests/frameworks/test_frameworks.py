"""Scripts as the users of each framework write them, run unchanged under the installed wheel: healthy and with faults.

Rules of this file: a script knows nothing of Paceline, and is a row of ``CASES``. `make test-frameworks` runs it in an
environment that holds the wheel and the frameworks; what each run came to is left in ``RESULTS``.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from paceline import recording, wire
from paceline.events import OPS
from paceline.topics import BY_NAME
from streams.ingest.step_rows import step_rows

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
RESULTS = ROOT / ".paceline" / "frameworks"
PACELINE = [sys.executable, "-P", "-m", "paceline"]
TORCHRUN = ["-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
#: What starts the ranks of a script, as options of Python before the script; the number of ranks follows what is here.
LAUNCHERS = {
    "torchrun": TORCHRUN,
    "torchrun -m": TORCHRUN,
    "accelerate launch": [
        "-P",
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_machines=1",
        "--num_processes",
    ],
    "deepspeed": ["-P", "-m", "deepspeed.launcher.runner", "--no_local_rank", "--num_gpus"],
}
SLOW = 2
CAUSES = {"none": None, "compute": "worker_compute", "input": "input_pipeline"}

pytestmark = pytest.mark.frameworks


class Case(NamedTuple):
    """One script: ``launcher`` is of ``LAUNCHERS``, or python where it starts its ``ranks`` itself; it makes ``steps``.

    ``least``: shares of the time that these phases have at least in a healthy run; ``most``: and at most. ``variant``:
    what a script takes as its last argument, if anything.
    """

    script: str
    launcher: str
    ranks: int
    steps: int
    least: dict[str, float]
    most: dict[str, float]
    variant: str = ""

    @property
    def name(self) -> str:
        """Script and variant, and who starts it where that is not usual."""
        by = "" if self.launcher in ("torchrun", "python") else f"by {self.launcher}"
        return " ".join(filter(None, (self.script, self.variant, by)))


#: What every script has: a model that is trained, and seldom evaluated.
LEAST = {"forward": 0.05, "backward": 0.1}
MOST = {"evaluation": 0.15, "other": 0.12, "prepare": 0.1, "data": 0.4}
#: ... and one that is exchanged, by gloo, between processes that share a few cores.
SHARDED = {"forward": 0.02, "backward": 0.04, "communication": 0.1}
CASES = (
    Case("lightning_ddp", "python", 4, 80, LEAST | {"evaluation": 0.001}, MOST),
    Case("huggingface_trainer", "torchrun", 4, 75, LEAST, MOST),
    Case("accelerate_loop", "torchrun", 4, 75, LEAST | {"evaluation": 0.001}, MOST),
    Case("ray_train", "python", 4, 75, LEAST, MOST),
    *(Case("deepspeed_zero", "torchrun", 4, 75, SHARDED, MOST | {"other": 0.2}, stage) for stage in ("1", "2", "3")),
    Case("torchtitan_style", "torchrun", 4, 75, SHARDED, MOST),
    *(Case("torchtune_style", "torchrun", 4, 75, SHARDED, MOST, mode) for mode in ("accumulate", "in_backward")),
    Case("torchtune_style", "torchrun -m", 4, 75, SHARDED, MOST, "accumulate"),
    Case("accelerate_loop", "accelerate launch", 4, 75, LEAST | {"evaluation": 0.001}, MOST),
    Case("deepspeed_zero", "deepspeed", 4, 75, SHARDED, MOST | {"other": 0.2}, "2"),
    Case("spawned", "python", 4, 75, {"forward": 0.005, "backward": 0.01}, MOST | {"data": 0.8}),  # its workers start
)


class Run(NamedTuple):
    """What the recording of a run tells: each rank's steps, seconds by phase, and the findings."""

    steps: dict[int, int]
    shares: dict[str, float]
    median_step_s: float
    findings: list[dict[str, Any]]


@pytest.mark.parametrize("fault", CAUSES)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_judges_an_unchanged_script(case: Case, fault: str, tmp_path: Path) -> None:
    """Every step of every rank is told, in its phases; the slow rank is named with its cause, and nobody else."""
    run = _run(case, fault, tmp_path)
    told = _result(case, fault, run)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{case.name}-{fault}.json").write_text(json.dumps(told) + "\n")
    assert run.steps == dict.fromkeys(range(case.ranks), case.steps)
    if fault == "none":
        assert {name for name, least in case.least.items() if run.shares[name] < least} == set(), run.shares
        assert {name for name, most in case.most.items() if run.shares[name] > most} == set(), run.shares
    assert told["right"], run.findings


def _run(case: Case, fault: str, folder: Path) -> Run:
    """Train in ``folder``, outside of the checkout, and analyse what was recorded."""
    kept = folder / "run.jsonl"
    launcher = [*LAUNCHERS[case.launcher], str(case.ranks)] if case.launcher in LAUNCHERS else []
    script = ["-m", case.script] if case.launcher.endswith(" -m") else [str(SCRIPTS / f"{case.script}.py")]
    script += [fault, str(SLOW), str(folder / "checkpoints"), *case.variant.split()]
    command = [*PACELINE, "run", "--no-panel", "--record", str(kept), "--", sys.executable, *launcher, *script]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "DS_ACCELERATOR": "cpu"}
    if case.launcher.endswith(" -m"):
        environ["PYTHONPATH"] = str(SCRIPTS)
    subprocess.run(command, check=True, env=environ, cwd=folder, timeout=500)
    analyze = [*PACELINE, "analyze", str(kept), "--json"]
    told = subprocess.run(analyze, check=True, capture_output=True, cwd=folder, timeout=240)
    rows = step_rows(list(_steps(kept)))
    ranks = rows.rank.astype(int).tolist()
    seconds = dict(zip(OPS, np.nansum(rows.seconds, axis=1).tolist(), strict=True))
    return Run(
        steps={rank: len(set(rows.step[rows.rank == rank].tolist())) for rank in sorted(set(ranks))},
        shares={name: took / seconds[OPS[-1]] for name, took in seconds.items()},
        median_step_s=float(np.median(rows.seconds[-1])),
        findings=[json.loads(line) for line in told.stdout.splitlines()],
    )


def _steps(kept: Path) -> Iterator[Any]:
    """The timings of steps in a recording."""
    for line in recording.read(str(kept)):
        assert isinstance(line, recording.Line), line
        topic = BY_NAME[line.topic]
        if topic.short == "op":
            yield wire.decode(topic, line.value)


def _result(case: Case, fault: str, run: Run) -> dict[str, Any]:
    """The row of docs/frameworks.md; of each rank accused, the latest cause."""
    accused = {str(rank): finding["cause"] for finding in run.findings for rank in finding["ranks"]}
    expected = {str(SLOW): CAUSES[fault]} if CAUSES[fault] else {}
    complete = run.steps == dict.fromkeys(range(case.ranks), case.steps)
    return {
        "script": case.name,
        "fault": fault,
        "ranks": len(run.steps),
        "steps": sorted(set(run.steps.values())),
        "median_step_s": run.median_step_s,
        "shares": {name: round(share, 4) for name, share in run.shares.items()},
        "accused": accused,
        "right": complete and accused == expected,
    }
