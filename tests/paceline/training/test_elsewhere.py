"""Paceline beside the Python that trains: there it is not installed, and nothing that it needs is."""

import json
import os
import re
import subprocess
import sys
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

from paceline import columns, topics, wire
from paceline.events import StepTimings
from paceline.recording import Line, read

ROOT = Path(__file__).parents[3]
RANKS, STEPS = 2, 12
#: An unchanged DDP script; each rank writes down what it has imported, and where from.
SCRIPT = f"""
import json, os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in torch.utils.data.DataLoader(torch.randn({8 * STEPS}, 64), batch_size=8):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
files = {{name: getattr(module, "__file__", None) for name, module in sys.modules.items()}}
json.dump({{"path": sys.path, "files": files}}, open("seen." + os.environ["RANK"], "w"))
dist.destroy_process_group()
"""


def needed_by(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """The installed packages that ``name`` needs, itself among them."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in found:
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:
            return found  # for another platform
        for need in found[key].requires or ():
            if "extra ==" not in need:
                needed_by(re.match(r"[\w.-]+", need)[0], found)  # type: ignore[index]
    return found


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of its own with PyTorch and what that needs, by links into ours, and nothing else."""
    folder = tmp_path_factory.mktemp("trainer")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for one in needed_by("torch", {}).values():
        for top in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}:
            link = packages / top
            if not link.exists():
                link.symlink_to(Path(str(one.locate_file(top))))
    return folder / "bin" / "python"


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_a_training_python_without_paceline_is_timed_and_sees_nothing_of_ours(trainer: Path, tmp_path: Path) -> None:
    """Steps and phases of all ranks; of Paceline's environment its own few files are imported, and no package."""
    (tmp_path / "train.py").write_text(SCRIPT)
    launched = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", "train.py"]
    run = [sys.executable, "-P", "-m", "paceline", "run", "--no-panel", "--record", "run.jsonl"]
    done = subprocess.run(
        [*run, "--", str(trainer), *launched],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "paceline:" not in done.stderr
    told = [event for event in events(tmp_path / "run.jsonl") if isinstance(event, StepTimings)]
    rows = {pair for one in told for pair in zip(*map(columns.numbers, (one.rank, one.step)), strict=True)}
    assert rows == {(rank, step) for rank in range(RANKS) for step in range(STEPS)}
    assert {"forward", "backward", "optimizer", "data", "communication"} <= set().union(*(one.phases for one in told))
    for rank in range(RANKS):
        seen = json.loads((tmp_path / f"seen.{rank}").read_text())
        assert foreign(seen["files"]) == []
        assert [entry for entry in seen["path"] if ours(entry)] == [str(ROOT / "paceline" / "training" / "bootstrap")]


def ours(path: str | None) -> bool:
    """Whether ``path`` is of the environment that ``paceline run`` is from."""
    return path is not None and path.startswith((str(Path(sys.prefix)), str(ROOT)))


def foreign(files: dict[str, str | None]) -> list[str]:
    """Modules that a training process has of that environment, and should not."""
    own = r"\.training.*|\.(bounds|identity|launchers|phases|settings|visible)"
    few = re.compile(rf"sitecustomize|paceline({own})?")
    return [name for name, file in files.items() if (ours(file) or name == "msgspec") and not few.fullmatch(name)]


def events(recording: Path) -> list[object]:
    """What was recorded."""
    lines = [line for line in read(str(recording)) if isinstance(line, Line)]
    return [wire.decode(topics.resolve(line.topic), line.value) for line in lines]
