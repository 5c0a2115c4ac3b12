"""Other sources than the bus are committed from, whatever else there is to do; no broker answers here."""

import itertools
import threading
from collections.abc import Callable, Generator
from typing import Any

import pyarrow as pa
import pytest

from archive.addition import Addition
from archive.archiver import Archiver
from archive.buffers import Place
from archive.column_buffers import schema
from archive.merging import Days
from archive.sources.feeder import Feeder
from paceline.history.store import Store
from paceline.history.tables import SLURM_JOB
from paceline.kafka.settings import BrokerSettings
from tests.patience import PATIENCE_S

Until = Callable[..., Any]


class Jobs:
    """Tells one job after the other, each as soon as the one before is committed."""

    every_s = 0.01

    def __init__(self, name: str) -> None:
        self.name = name

    def turns(self, now_s: float) -> Generator[Addition, None, None]:
        for number in itertools.count():
            rows = pa.Table.from_pylist([{"job": f"{self.name}-{number}", "time_s": now_s}], schema=schema(SLURM_JOB))
            yield Addition([(Place(SLURM_JOB.name, "2026-11-25", "c"), SLURM_JOB, rows)])


@pytest.mark.long
@pytest.mark.parametrize("commit_s", [0.0, 3600.0])
def test_each_is_committed_from_though_a_commit_is_always_due_and_the_other_never_ends(
    commit_s: float, store: Store, until: Until
):
    stop = threading.Event()
    nowhere = BrokerSettings().with_brokers("127.0.0.1:1")
    feeders = [Feeder(Jobs(name), stop) for name in ("first", "second")]
    archiver = Archiver(nowhere, store, [], Days(), commit_s, stop, feeders=feeders)
    threads = [archiver.thread, *(feeder.thread for feeder in feeders)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: all(feeder.rows >= 3 for feeder in feeders))
    finally:
        assert all(thread.stop(PATIENCE_S) for thread in threads)
