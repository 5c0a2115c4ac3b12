"""The service on a port of its own, with no broker; and series to ask about."""

import socket
import threading
import time
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import uvicorn

from forecaster.api.app import application
from forecaster.api.executor import Desk
from forecaster.memory import Memory

TOKEN = "let-me-in"


@pytest.fixture(scope="session")
def memory() -> Memory:
    """What the service remembers."""
    return Memory()


@pytest.fixture(scope="session")
def address(memory: Memory) -> Iterator[str]:
    """A running service."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        app = application(Desk(2), memory, TOKEN)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        end = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < end
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    """A client of it."""
    with httpx.Client(base_url=address, timeout=60) as made:
        yield made


@pytest.fixture
def wave() -> list[float]:
    """600 samples that repeat every 50, with noise."""
    rng = np.random.default_rng(3)
    return [float(x) for x in 50 + 30 * np.sin(np.arange(600) / 50 * 2 * np.pi) + rng.standard_normal(600)]
