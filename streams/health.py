"""``/healthz``, ``/readyz`` and ``/metrics`` of the worker, on the loopback address unless told otherwise.

Rule of this file: it only reads. Numbers are read on the worker's own event loop, so that nothing changes meanwhile;
their text, of a thousand jobs half a second's work, is written on a thread, so that no event waits for a scrape.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from paceline import exposition
from paceline.health import LIMITS, Health
from paceline.small_server import Answer, SmallServer, bound

from .door_counts import DoorCounts
from .meters import WorkerState, read


def metrics(counts: DoorCounts, worker: WorkerState) -> Callable[[], str]:
    """What writes the numbers as they are now in Prometheus' text form."""
    makes = read(counts, worker)
    return lambda: exposition.text(make() for make in makes)


async def serve(
    address: str,
    port: int,
    waits: Callable[[], str | None],
    numbers: Callable[[], Callable[[], str]],
    names: Sequence[str],
) -> SmallServer:
    """Serve until the server that is returned is closed; only requests for one of ``names`` are answered.

    ``numbers`` reads them and gives what writes them.

    Raises:
        OSError: the port is taken.
    """

    async def answer(path: str, headers: Mapping[str, str]) -> Answer:
        health = Health(waits, numbers() if path == "/metrics" else str, names)
        return await asyncio.to_thread(health.answer, path, headers)

    server = SmallServer(bound(address, port), answer, LIMITS)
    await server.start()
    return server
