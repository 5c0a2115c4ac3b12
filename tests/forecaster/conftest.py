"""The service on a port of its own, with no broker; and series to ask about."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.context import ForecastContext
from forecaster.memory import Memory
from forecaster.models import naive
from forecaster.models.registry import Registry, shipped
from forecaster.series import Array
from tests.served_app import served

TOKEN = "let-me-in"
#: Longer than anything here takes: what waits so long has failed.
PATIENCE_S = 120.0
Serving = Callable[[FastAPI], contextlib.AbstractContextManager[str]]


@dataclass
class HeldModel:
    """A model that answers as ``naive`` does, but not before it is released; it keeps what it was asked."""

    horizons: list[int] = field(default_factory=list)
    entered: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def __call__(self, context: ForecastContext) -> Array:
        """Answer when released."""
        self.horizons.append(context.horizon)
        self.entered.set()
        assert self.release.wait(PATIENCE_S)
        return naive.naive(context)


@pytest.fixture(autouse=True)
def numpys_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the service sets for its process stays in its test."""
    for library in ("OPENBLAS", "MKL", "OMP"):
        monkeypatch.setenv(f"{library}_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def memory() -> Memory:
    """What the service remembers."""
    return Memory()


@pytest.fixture(scope="session")
def models() -> Registry:
    """All models, with the weights that the package holds."""
    return shipped()


@pytest.fixture(scope="session")
def serving(until: Callable[..., None]) -> Serving:
    """Serves an application on a port of its own."""

    return lambda app: served(app, until)


@pytest.fixture(scope="session")
def address(memory: Memory, models: Registry, serving: Serving) -> Iterator[str]:
    """A running service."""
    with serving(application(ForecastExecutor(models, 2), memory, TOKEN)) as started:
        yield started


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    """A client of it."""
    with httpx.Client(base_url=address, timeout=None) as made:
        yield made


@pytest.fixture
def held_model() -> Iterator[HeldModel]:
    """A model that waits, called ``statespace``: asked for by name, answered one at a time."""
    made = HeldModel()
    yield made
    made.release.set()


@pytest.fixture
def waiting_executor(models: Registry, held_model: HeldModel) -> ForecastExecutor:
    """An executor one of whose models waits."""
    return ForecastExecutor(replace(models, named={**models.named, "statespace": held_model}), 1)


@pytest.fixture
def wave() -> list[float]:
    """600 samples that repeat every 50, with noise."""
    rng = np.random.default_rng(3)
    return [float(x) for x in 50 + 30 * np.sin(np.arange(600) / 50 * 2 * np.pi) + rng.standard_normal(600)]
