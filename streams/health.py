"""``/healthz``, ``/readyz`` and ``/metrics`` of the worker, on the loopback address unless told otherwise.

Rule of this file: it only reads. Numbers are read on the worker's own event loop, so that nothing changes meanwhile;
their text, of a thousand jobs half a second's work, is written on a thread, so that no event waits for a scrape.
"""

import asyncio
from collections.abc import Callable, Sequence

from aiohttp import web

from paceline import exposition
from paceline.health import Health

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
) -> web.AppRunner:
    """Serve until the runner that is returned is cleaned up; only requests for one of ``names`` are answered.

    ``numbers`` reads them and gives what writes them.

    Raises:
        OSError: the port is taken.
    """

    async def answer(request: web.Request) -> web.Response:
        health = Health(waits, numbers() if request.path == "/metrics" else str, names)
        headers = request.headers
        told = await asyncio.to_thread(health.answer, request.path, headers.get("Host"), headers.get("Origin"))
        return web.Response(text=told.text, status=told.status, headers={"Content-Type": told.content_type})

    site = web.Application()
    site.add_routes([web.get(f"/{name}", answer) for name in ("healthz", "readyz", "metrics")])
    runner = web.AppRunner(site, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, port).start()
    return runner
