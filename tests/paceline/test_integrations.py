"""Integrations with frameworks that are not here: what they hand to the framework, by its own signature."""

import importlib
import sys
from types import ModuleType
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
