"""A window of PyTorch's profiler in the training process: whole steps, one at a time, and never at training's cost."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.training.capture_messages import Capture, encode
from paceline.training.capturing import Capturing
from paceline.training.probe import Probe

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture
def torch() -> Any:
    import torch

    return torch


class Training:
    """A loop whose steps are told as the hooks tell them."""

    def __init__(self, torch: Any) -> None:
        self.probe = Probe()
        self.capturing = Capturing(self.probe)
        self._torch = torch
        self._model = torch.nn.Linear(8, 8)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.1)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self._model(self._torch.ones(4, 8)).sum().backward()
            self._optimizer.step()
            self._optimizer.zero_grad()
            self.probe.optimizer_stepped()

    def ask(self, path: Path, steps: int = 3) -> None:
        self.capturing.hear(encode(Capture(steps, str(path))))


@pytest.fixture
def training(torch: Any) -> Training:
    return Training(torch)


def events(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        told: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return told


def why(path: Path) -> str:
    return str(json.loads(path.with_name(path.name + ".why").read_text())["reason"])


def test_whole_steps_are_in_the_trace(training: Training, tmp_path: Path, until: Callable[..., None]) -> None:
    """As many as were asked for; nothing but the trace is left, and the profiler is off again."""
    path = tmp_path / "a.json.gz"
    training.step(2)
    training.ask(path)
    training.step(10)
    until(path.exists)
    steps = {one["name"] for one in events(path) if str(one.get("name", "")).startswith("ProfilerStep#")}
    assert len(steps) == 3
    assert any(one.get("name") == "aten::linear" for one in events(path))
    until(lambda: [one.name for one in tmp_path.iterdir()] == ["a.json.gz"])
    assert training.probe.capture is None


def test_one_capture_follows_another_but_none_runs_beside_it(
    training: Training, tmp_path: Path, until: Callable[..., None]
) -> None:
    first, second, third = (tmp_path / f"{name}.json.gz" for name in "abc")
    training.ask(first)
    training.step()
    training.ask(second)
    assert "another capture" in why(second)
    training.step(5)
    until(first.exists)
    training.ask(third, steps=1)
    training.step(3)
    until(third.exists)


def test_a_script_that_profiles_itself_is_left_alone(training: Training, torch: Any, tmp_path: Path) -> None:
    """Whether its profiler runs or only waits for its turn; what it measures is whole."""
    path = tmp_path / "a.json.gz"
    waiting = torch.profiler.schedule(wait=2, warmup=1, active=1)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    for schedule in (None, waiting):
        with torch.profiler.profile(activities=kinds, schedule=schedule) as own:
            training.ask(path)
            for _ in range(4):
                training.step()
                own.step()
        assert "a profiler of its own" in why(path)
        path.with_name(path.name + ".why").unlink()
    assert not path.exists()


def test_a_folder_that_is_gone_costs_training_nothing(
    training: Training, tmp_path: Path, until: Callable[..., None]
) -> None:
    training.ask(tmp_path / "gone" / "a.json.gz")
    training.step(10)
    assert training.probe.capture is None
    again = tmp_path / "b.json.gz"
    training.ask(again, steps=1)
    training.step(3)
    until(again.exists)


def test_what_goes_wrong_in_the_profiler_is_told_and_not_raised(
    training: Training, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**options: Any) -> None:
        raise RuntimeError("no profiler in this build")

    monkeypatch.setattr(torch.profiler, "profile", broken)
    path = tmp_path / "a.json.gz"
    training.ask(path)
    training.step(3)
    assert why(path) == "RuntimeError: no profiler in this build"
    assert training.probe.capture is None


def test_while_nobody_asks_nothing_is_held(training: Training) -> None:
    training.step(3)
    assert training.probe.capture is None
    for told in (b"", b"[", b"{}", b'{"capture":{"steps":99,"path":"/x"}}', b'{"capture":{"steps":1,"path":"x"}}'):
        training.capturing.hear(told)
    assert training.probe.capture is None
