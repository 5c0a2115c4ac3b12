"""What a refresh of a page costs the browser, from Chromium's own trace, and what many pages cost the server.

Nothing is mocked but the jobs: the real page is served, with no broker behind it, and opened in a real Chromium.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, Page

from experiments.chromium import launched
from paceline.terminal import say
from ui.__main__ import options

from .visitors import Visitor, visitors

#: A task of a thread, as Chromium's trace names it: tasks do not nest.
TASK = "ThreadControllerImpl::RunTask"
SCRIPT = Path(__file__).with_name("served.py")
EXAMPLES = """\
examples:
  python -m experiments.page                                1,024 ranks x 600 steps, the job's page
  python -m experiments.page --nodes 12500 --path fleet     100,000 GPUs, the fleet's page
  python -m experiments.page --jobs 200 --ranks 64 --pages 20   one page drawn, 19 more that are open: the server
"""


def main(argv: list[str]) -> int:
    """Measure and print one JSON object; 1 where a refresh costs the browser more than a second."""
    made = argparse.ArgumentParser(
        prog="experiments.page",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--ranks", type=int, default=1024)
    made.add_argument("--steps", type=int, default=600)
    made.add_argument("--jobs", type=int, default=1)
    made.add_argument("--nodes", type=int, default=0)
    made.add_argument("--path", default="job?job=llm-000&span=all", help="the page, with what its link says")
    made.add_argument("--pages", type=int, default=1, help="pages open at once, all but one drawn by nobody")
    made.add_argument("--seconds", type=float, default=20.0, help="how long to trace")
    made.add_argument("--port", type=int, default=8599)
    told = made.parse_args(argv)
    size = {name: getattr(told, name) for name in ("ranks", "steps", "jobs", "nodes")}
    others = [f"job?job=llm-{number % told.jobs:03d}&span=all" for number in range(1, told.pages)]
    with (
        _served(told.port, size) as server,
        visitors(told.port, others) as there,
        launched() as browser,
    ):
        say(f"{len(there)} pages open beside")
        address, process = f"http://127.0.0.1:{told.port}/{told.path}", psutil.Process(server.pid)
        seen = _measured(browser, address, told.seconds, process, there)
    print(json.dumps({**size, "path": told.path, "pages": told.pages, **seen}))
    return 0 if seen["browser_s_a_refresh"] <= 1.0 else 1


@contextlib.contextmanager
def _served(port: int, size: dict[str, int]) -> "Iterator[subprocess.Popen[bytes]]":
    """Streamlit with the page over a made-up feed of ``size``."""
    flags = {name: value for name, value in options("127.0.0.1", port).items() if name != "server.allowedHosts"}
    words = [f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in flags.items()]
    root = Path(__file__).parents[2]
    environ = {**os.environ, "PACELINE_MADE_UP": json.dumps(size), "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "streamlit", "run", str(SCRIPT), *words]
    process = subprocess.Popen(command, env=environ, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _listening(port)
        yield process
    finally:
        process.kill()
        process.wait()


def _listening(port: int) -> None:
    """Wait until the server does.

    Raises:
        OSError: it does not within a minute.
    """
    for left in range(120, 0, -1):
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            if left == 1:
                raise
            time.sleep(0.5)


def _measured(
    browser: Browser, url: str, seconds: float, server: psutil.Process, there: list[Visitor]
) -> dict[str, Any]:
    """Over ``seconds``: busy seconds of the renderer's main thread a refresh, and what all pages cost the server."""
    page, sizes = _opened(browser, url)
    time.sleep(6)
    say(f"tracing {url}")
    sizes.clear()
    before, cpu = [len(one.took_s) for one in there], server.cpu_times()
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    time.sleep(seconds)
    refreshes, sent, after = sum(size > 20_000 for size in sizes), sum(sizes), server.cpu_times()
    took_s = sorted(took for one, first in zip(there, before, strict=True) for took in one.took_s[first:])
    events = json.loads(browser.stop_tracing())["traceEvents"]
    busy_s = _busy_s(events)
    say(f"{refreshes} refreshes, {busy_s:.2f} s busy in {seconds:g} s")
    return {
        "refreshes": refreshes,
        "browser_s_a_refresh": round(busy_s / max(1, refreshes), 3),
        "sent_kib_a_refresh": round(sent / max(1, refreshes) / 1024),
        "server_mib": round(server.memory_info().rss / 2**20),
        "server_cores": round((after.user + after.system - cpu.user - cpu.system) / seconds, 2),
        "others_refreshes": len(took_s),
        "others_median_s": round(took_s[len(took_s) // 2], 2) if took_s else None,
    }


def _opened(browser: Browser, url: str) -> tuple[Page, list[int]]:
    """A page that has drawn its picture, and the sizes of what it is sent from then on."""
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    sizes: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: sizes.append(len(data))))
    page.goto(url)
    page.wait_for_selector(".js-plotly-plot", timeout=180_000, state="attached")
    return page, sizes


def _busy_s(events: list[dict[str, Any]]) -> float:
    """Processor seconds of the main thread's tasks, of the renderer that worked most."""
    threads = {
        (e["pid"], e["tid"]) for e in events if e.get("name") == "thread_name" and "RendererMain" in str(e["args"])
    }
    busy: dict[tuple[int, int], float] = {}
    for event in events:
        where = (event["pid"], event["tid"])
        if event.get("ph") == "X" and where in threads and event["name"] == TASK:
            busy[where] = busy.get(where, 0.0) + event.get("tdur", event.get("dur", 0)) / 1e6
    return max(busy.values(), default=0.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
