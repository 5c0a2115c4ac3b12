"""``/healthz``, ``/readyz`` and ``/metrics`` of the worker, on the loopback address unless told otherwise.

Rule of this file: it only reads. Metric names of the worker begin with ``paceline_streams_``; those of the jobs it
watches, a gauge each by job, do not name the service.
"""

from collections.abc import Callable, Iterator

from aiohttp import web

from .door import Counts


def metrics(counts: Counts, in_hand: int, units: int) -> str:
    """The numbers in Prometheus' text form."""
    lines: list[str] = []

    def add(name: str, kind: str, help_: str, *rows: tuple[str, float]) -> None:
        lines.extend((f"# HELP paceline_streams_{name} {help_}", f"# TYPE paceline_streams_{name} {kind}"))
        lines.extend(f"paceline_streams_{name}{labels} {value}" for labels, value in rows)

    add("events_total", "counter", "Events read.", *_by_topic(counts.events))
    add("event_bytes_total", "counter", "Bytes of the events read.", ("", counts.bytes))
    add("published_total", "counter", "Events published.", *_by_topic(counts.published))
    add("dead_letters_total", "counter", "Messages that could not be used.", ("", counts.dead_letters))
    add("checkpoints_total", "counter", "Snapshots stored.", ("", counts.checkpoints))
    add("checkpoint_bytes_total", "counter", "Bytes of the snapshots stored.", ("", counts.checkpoint_bytes))
    add("commits_total", "counter", "Offset commits.", ("", counts.commits))
    add("uncommitted_events", "gauge", "Events read whose offset is not safe to commit yet.", ("", in_hand))
    add("units", "gauge", "Jobs and nodes in memory.", ("", units))
    for name, help_, at in _JOBS:
        lines.extend((f"# HELP {name} {help_}", f"# TYPE {name} gauge"))
        lines.extend(f'{name}{{training_job="{_quoted(job)}"}} {row[at]:g}' for job, row in sorted(counts.jobs.items()))
    return "\n".join(lines) + "\n"


#: Metric of a job, what it is, and its place in the door's row.
_JOBS = (
    ("paceline_step_seconds", "Median step of the median rank in the last window.", 0),
    ("paceline_steps_per_second", "Steps a second in the last window.", 1),
)


def _quoted(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _by_topic(counts: dict[str, int]) -> Iterator[tuple[str, float]]:
    return ((f'{{topic="{name}"}}', value) for name, value in sorted(counts.items()))


async def serve(address: str, port: int, ready: Callable[[], bool], text: Callable[[], str]) -> web.AppRunner:
    """Serve until the runner that is returned is cleaned up.

    Raises:
        OSError: the port is taken.
    """

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        up = ready()
        return web.Response(text="ready\n" if up else "joining the group\n", status=200 if up else 503)

    async def show(request: web.Request) -> web.Response:
        return web.Response(text=text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    site = web.Application()
    site.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", show)])
    runner = web.AppRunner(site, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, port).start()
    return runner
