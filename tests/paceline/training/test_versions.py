"""Ranks tell the versions that they run on, and a job whose ranks differ is told so."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.analyzed import findings_in
from experiments.forking import Forking
from paceline import topics, wire
from paceline.events import StepTimings
from paceline.recording import Line, read
from paceline.training.versions import versions_of

TRAIN = """
import os, sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if os.environ["RANK"] == "1" and len(sys.argv) > 1:
    torch.__version__ = sys.argv[1]
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def pytorch(**fields: Any) -> Any:
    """A PyTorch as far as its versions go."""
    made = {"cuda": "12.4", "hip": None, "nccl": lambda: (2, 21, 5)} | fields
    nccl = SimpleNamespace(version=made["nccl"])
    version = SimpleNamespace(cuda=made["cuda"], hip=made["hip"])
    return SimpleNamespace(__version__="2.6.0+cu124", version=version, cuda=SimpleNamespace(nccl=nccl))


def refuse() -> None:
    raise RuntimeError("no NCCL in this build")


def test_a_build_for_cuda_tells_all_of_them(tmp_path: Path) -> None:
    driver = tmp_path / "version"
    driver.write_text("550.54.15\n")
    assert versions_of(pytorch(), driver) == {
        "pytorch_version": "2.6.0+cu124",
        "cuda_version": "12.4",
        "nccl_version": "2.21.5",
        "driver_version": "550.54.15",
    }


@pytest.mark.parametrize("told", [lambda: 2708, lambda: ("2", "x"), lambda: (), refuse, lambda: None])
def test_what_cannot_be_told_is_left_out(told: Any, tmp_path: Path) -> None:
    """Neither NCCL nor a driver; and on processors only PyTorch's own."""
    driver = tmp_path / "none"
    assert set(versions_of(pytorch(nccl=told), driver)) == {"pytorch_version", "cuda_version"}
    assert set(versions_of(pytorch(cuda=None, nccl=refuse), driver)) == {"pytorch_version"}
    assert versions_of(pytorch(cuda=None, hip="6.2"), driver)["cuda_version"] == "6.2"
    assert versions_of(None, driver) == {}


@pytest.fixture
def trained(tmp_path: Path, two_ranks: Callable[[], Forking]) -> Callable[..., Path]:
    """The recording of a real run of two ranks."""

    def run(*arguments: str) -> Path:
        (tmp_path / "train.py").write_text(TRAIN)
        recording, forked = tmp_path / "run.jsonl", two_ranks()
        own = [sys.executable, "-m", "paceline", "run", "--no-panel", "--record", str(recording), "--"]
        subprocess.run(
            [*own, sys.executable, *forked.command, "train.py", *arguments],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path), **forked.environ},
            check=True,
            timeout=300,
        )
        return recording

    return run


def mismatches(recording: Path) -> list[dict[str, Any]]:
    return [finding for finding in findings_in(recording) if finding["kind"] == "configuration_mismatch"]


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_a_rank_with_another_pytorch_is_found(trained: Callable[..., Path]) -> None:
    """In a real run: of two that differ none is the rule."""
    import torch

    (found,) = mismatches(trained("2.1.0+elsewhere"))
    assert f"ranks differ in pytorch_version: 2.1.0+elsewhere or {torch.__version__}" in found["summary"]
    assert found["ranks"] == []


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_ranks_that_are_alike_say_so_once_and_nothing_is_found(trained: Callable[..., Path]) -> None:
    """Not with every message."""
    recording = trained()
    assert mismatches(recording) == []
    events = [wire.decode(topics.OP, line.value) for line in read(str(recording)) if _is_op(line)]
    told = [event.facts for event in events if isinstance(event, StepTimings) and event.facts is not None]
    assert sorted(rank for facts in told for rank in facts.ranks) == [0, 1]
    assert {word for facts in told for word in facts.words["pytorch_version"]} == {_pytorch()}


def _is_op(line: Any) -> bool:
    return isinstance(line, Line) and line.topic == topics.OP.name


def _pytorch() -> str:
    import torch

    return str(torch.__version__)
