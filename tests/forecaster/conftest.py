"""The service on a port of its own, with no broker; and series to ask about."""

import socket
import threading
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest
import uvicorn

from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.memory import Memory
from forecaster.models import network
from forecaster.models.registry import Registry, registry

TOKEN = "let-me-in"


@pytest.fixture(scope="session")
def memory() -> Memory:
    """What the service remembers."""
    return Memory()


@pytest.fixture(scope="session")
def models() -> Registry:
    """All models, with the weights that the package holds."""
    return registry(network.shipped())


@pytest.fixture(scope="session")
def address(memory: Memory, models: Registry, until: Callable[..., None]) -> Iterator[str]:
    """A running service."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        app = application(ForecastExecutor(models, 2), memory, TOKEN)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()

        def started() -> bool:
            assert thread.is_alive()
            return server.started

        until(started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    """A client of it."""
    with httpx.Client(base_url=address, timeout=None) as made:
        yield made


@pytest.fixture
def wave() -> list[float]:
    """600 samples that repeat every 50, with noise."""
    rng = np.random.default_rng(3)
    return [float(x) for x in 50 + 30 * np.sin(np.arange(600) / 50 * 2 * np.pi) + rng.standard_normal(600)]
