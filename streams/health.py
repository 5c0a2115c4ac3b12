"""``/healthz``, ``/readyz`` and ``/metrics`` of the worker, on the loopback address unless told otherwise.

Rule of this file: it only reads, on the worker's own event loop, so that nothing changes while it reads.
"""

from aiohttp import web

from paceline.exposition import text
from paceline.health import Health

from .door_counts import DoorCounts
from .meters import WorkerState, families


def metrics(counts: DoorCounts, worker: WorkerState) -> str:
    """The numbers in Prometheus' text form."""
    return text(families(counts, worker))


async def serve(address: str, port: int, health: Health) -> web.AppRunner:
    """Serve until the runner that is returned is cleaned up.

    Raises:
        OSError: the port is taken.
    """

    async def answer(request: web.Request) -> web.Response:
        told = health.answer(request.path, request.headers.get("Host"), request.headers.get("Origin"))
        return web.Response(text=told.text, status=told.status, headers={"Content-Type": told.content_type})

    site = web.Application()
    site.add_routes([web.get(f"/{name}", answer) for name in ("healthz", "readyz", "metrics")])
    runner = web.AppRunner(site, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, port).start()
    return runner
