"""What ends a worker's life, and what it says of it: no broker is needed, its app is one that only waits."""

import asyncio

import pytest

from paceline.kafka.settings import BrokerSettings
from streams import worker as module
from streams.worker import Worker, WorkerError


class App:
    """An app that starts and then works for ever."""

    should_stop = False
    crash_reason = None

    async def start(self):
        await asyncio.Event().wait()

    async def stop(self):
        self.should_stop = True


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """A worker whose brokers describe what they are told to."""

    def made(describe_topics):
        monkeypatch.setattr(module, "build", lambda *ignored: (App(), None))
        monkeypatch.setattr(module, "describe_topics", describe_topics)
        monkeypatch.setattr(module, "WATCH_S", 0.01)
        return Worker(BrokerSettings(), tmp_path, {})

    return made


def test_a_watch_that_breaks_ends_it(worker):
    """A worker that no longer looks whether its topics are the same would read on past the end of them."""

    def broken(settings, names):
        raise KeyError("a field that this broker does not send")

    with pytest.raises(WorkerError, match=r"KeyError: .*a field that this broker does not send"):
        asyncio.run(worker(broken).run())
