"""A pipeline that is cut anew trains as one that never stopped; whatever happens to it, nothing is left hanging."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]

ROOT = Path(__file__).parents[3]
EXAMPLE = ("-m", "paceline.balance.pipeline_example")
#: The first two layers take several times as long as the others, also where a busy machine adds 20 ms to each.
COSTS = ("--costs-ms", "80,80,3,3", "--microbatches", "3", "--steps", "14", "--measure-at", "6", "--horizon", "1000000")


def started(*arguments: str, ranks: int = 2) -> subprocess.Popen[str]:
    """Ranks under torchrun."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=environ, cwd=ROOT, text=True, start_new_session=True, **pipes)


def ran(*arguments: str, ranks: int = 2) -> tuple[int, str]:
    """How the ranks ended, and what they said."""
    process = started(*arguments, ranks=ranks)
    try:
        said, _ = process.communicate(timeout=600)
    finally:
        end(process)
    return process.returncode, said


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def held(root: Path) -> list[dict[str, Any]]:
    """The layers of the newest checkpoint."""
    newest = max(root.glob("step-*"))
    return [torch.load(path, weights_only=True) for path in sorted(newest.glob("layer-*.pt"))]


def alike(one: Any, other: Any) -> bool:
    """Whether two checkpoints' contents are equal, tensors to rounding."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    return torch.allclose(one, other, rtol=1e-5, atol=1e-7) if torch.is_tensor(one) else one == other


def test_cut_anew_it_has_the_losses_and_weights_of_one_that_never_stopped(tmp_path: Path) -> None:
    """Then once more from the checkpoint by a start of its own, on three ranks instead of two."""
    for name, more in (("whole", ("--no-recut",)), ("recut", ())):
        where = ("--checkpoint", str(tmp_path / name), "--losses", str(tmp_path / f"{name}.json"))
        code, said = ran(*EXAMPLE, *COSTS, *where, "--keep-last", *more)
        assert code == 0, said
        assert ("restarted from step-000000007" in said) is (name == "recut"), said
    assert "best cut [1, 3]" in said
    losses = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("whole", "recut")}
    assert losses["recut"] == pytest.approx(losses["whole"], rel=1e-6)
    assert len(losses["whole"]) == 14
    assert len(held(tmp_path / "whole")) == 4
    assert all(map(alike, held(tmp_path / "whole"), held(tmp_path / "recut")))
    shutil.rmtree(tmp_path / "recut" / "step-000000014")
    manifest = json.loads((tmp_path / "recut" / "step-000000007" / "manifest.json").read_text())
    assert manifest["cut"] == [1, 3]
    again = ("--checkpoint", str(tmp_path / "recut"), "--losses", str(tmp_path / "again.json"))
    code, said = ran(*EXAMPLE, *COSTS, *again, ranks=3)
    assert code == 0, said
    assert "goes on at step 7" in said
    rest = {step: loss for step, loss in losses["whole"].items() if int(step) >= 7}
    assert json.loads((tmp_path / "again.json").read_text()) == pytest.approx(rest, rel=1e-6)


def test_a_checkpoint_of_another_model_ends_it_with_the_cause(tmp_path: Path) -> None:
    root = ("--checkpoint", str(tmp_path))
    short = ("--costs-ms", "0,0", "--steps", "3", "--microbatches", "2")
    assert ran(*EXAMPLE, *short, *root, "--keep-last")[0] == 0
    code, said = ran(*EXAMPLE, "--costs-ms", "0,0,0", "--steps", "5", "--microbatches", "2", *root)
    assert code != 0
    assert "is of another model: 2 layers, and not 3" in said


def test_a_rank_that_dies_in_the_restart_ends_all(tmp_path: Path) -> None:
    """The checkpoint is there for the next start, with the new cut."""
    script = str(Path(__file__).parent / "scripts" / "pipeline_dies.py")
    code, said = ran(script, *COSTS, "--checkpoint", str(tmp_path))
    assert code != 0
    assert "restarted" not in said
    assert json.loads((tmp_path / "step-000000007" / "manifest.json").read_text())["cut"] == [1, 3]


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """Pressed in training, to all processes at once, as by a terminal. Pipes close when the last one has ended."""
    process = started(*EXAMPLE, "--costs-ms", "5,5,1,1", "--steps", "100000", "--checkpoint", str(tmp_path))
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "the cut" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=600)
    finally:
        end(process)
    assert process.returncode != 0
