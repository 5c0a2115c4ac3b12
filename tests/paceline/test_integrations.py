"""Integrations with frameworks that are not here: what they hand to the framework, by its own signature."""

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def test_rays_report_takes_what_rays_own_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint by its place or by its name; metrics of the script win over ours."""
    reported: list[Any] = []
    ray, train = ModuleType("ray"), ModuleType("ray.train")
    ray.train, train.report = train, lambda *args, **options: reported.append((args, options))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.train", train)
    monkeypatch.delitem(sys.modules, "paceline.integrations.ray_train", raising=False)
    module = importlib.import_module("paceline.integrations.ray_train")
    monkeypatch.setattr(module, "taken", lambda: {"paceline/step": 7.0, "loss": 0.0})
    module.report({"loss": 2.5}, "a checkpoint")
    module.report({"loss": 2.5}, checkpoint="a checkpoint")
    monkeypatch.delitem(sys.modules, "paceline.integrations.ray_train")
    both = {"paceline/step": 7.0, "loss": 2.5}
    assert reported == [((both, "a checkpoint"), {}), ((both,), {"checkpoint": "a checkpoint"})]


@pytest.fixture
def huggingface(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The integration, with a Trainer's callback that does nothing."""
    transformers = ModuleType("transformers")
    transformers.TrainerCallback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.delitem(sys.modules, "paceline.integrations.huggingface", raising=False)
    module: Any = importlib.import_module("paceline.integrations.huggingface")
    monkeypatch.delitem(sys.modules, "paceline.integrations.huggingface")
    return module


class Trainer:
    """What logs, and takes its own turn away from who logs in it."""

    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []
        self.control = SimpleNamespace(should_log=False)
        self.state = SimpleNamespace(is_world_process_zero=True)

    def add_callback(self, callback: Any) -> None:
        self.callback = callback

    def log(self, values: dict[str, float]) -> None:
        self.logged.append(values)
        self.control.should_log = False

    def at(self, place: str) -> None:
        getattr(self.callback, f"on_{place}")(None, self.state, self.control)


@pytest.mark.parametrize("place", ["step_end", "epoch_end"])
def test_points_are_logged_where_the_trainer_logs(
    huggingface: Any, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """At a step or at the end of an epoch; its own turn stays, and where it does not log nothing is logged."""
    monkeypatch.setattr(huggingface, "begin", lambda: None)
    monkeypatch.setattr(huggingface, "taken", lambda: {"paceline/step": 7.0})
    trainer = Trainer()
    huggingface.PacelineCallback.add_to(trainer)
    trainer.at(place)
    assert trainer.logged == []
    trainer.control.should_log = True
    trainer.at(place)
    assert trainer.logged == [{"paceline/step": 7.0}]
    assert trainer.control.should_log


def test_each_training_of_a_trainer_is_timed(huggingface: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins before the model is prepared, and again with the next training."""
    timed = [False]
    monkeypatch.setattr(huggingface, "begin", lambda: timed.append(True))
    monkeypatch.setattr(huggingface, "end", lambda: timed.append(False))
    trainer = Trainer()
    huggingface.PacelineCallback.add_to(trainer)
    assert timed[-1]
    for _ in range(2):
        trainer.at("train_begin")
        assert timed[-1]
        trainer.at("train_end")
        assert not timed[-1]
