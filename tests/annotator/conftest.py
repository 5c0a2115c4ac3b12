"""A cluster of the tests' own for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.annotator.api_server import ApiServer
from tests.annotator.world import World


@pytest.fixture
def world(free_port: Callable[[], int], tmp_path: Path) -> Iterator[World]:
    with ApiServer(free_port()) as api:
        made = World(api, tmp_path)
        yield made
        made.close()
