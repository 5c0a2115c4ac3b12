"""``paceline up``: broker, streams, collector, forecaster, control and page for your own jobs, until Ctrl-C.

Rule of this file: when one service ends, all end, and the one that ended first is named.
"""

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from paceline.commands import background, log_folders, stack_state
from paceline.commands.ports import free_port
from paceline.commands.services import ServiceError, Services
from paceline.commands.stack import (
    STREAMS_PORT,
    StackError,
    add_service_options,
    await_page,
    broker,
    check_ports,
    environment,
    require,
    run_command,
    start_control,
    start_forecaster,
    wanted,
)
from paceline.commands.stack_status import shown, waits
from paceline.commands.worker_watch import WorkerWatch, readiness
from paceline.kafka.embedded import EmbeddedBrokerError
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.listeners import taken
from paceline.options import Parser
from paceline.settings import CONTROL_URL
from paceline.terminal import say

#: How often the services are looked at: until all are ready, and then.
START_LOOK_S, LOOK_S = 0.5, 2.0
EXAMPLES = """examples:
  paceline up                                            everything on this machine, in memory
  paceline up --detach                                   the same in the background; returns once it is ready
  paceline up --brokers kafka-1:9092                     the same services on an existing Kafka
  paceline run -- torchrun --nproc-per-node 4 train.py   then, in another terminal, your job
  paceline status                                        what runs, and its addresses
  paceline down                                          stop what --detach started"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline up",
        description="Start broker, services and page on this machine. Ctrl-C stops them.\nNeeds paceline[up].",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--port", type=int, default=9092, help="port of the embedded broker (default: 9092)")
    made.add_argument("--ui-port", type=int, default=8501, help="port of the page (default: 8501)")
    add_service_options(made)
    add_brokers_option(made, "use this Kafka instead of an embedded broker")
    made.add_argument(
        "--detach",
        action="store_const",
        const="detach",
        dest="mode",
        help=f"start in the background; return when it is ready, or after {background.READY_S:.0f} s with the reason",
    )
    # How --detach starts the one that stays.
    made.add_argument("--in-background", action="store_const", const="background", dest="mode", help=argparse.SUPPRESS)
    made.add_argument(
        "--logs",
        metavar="FOLDER",
        help="write the services' logs there (default: a new folder in "
        "~/.local/state/paceline/logs, which keeps the last five)",
    )
    return made


def main(argv: list[str]) -> int:
    """Run the services until told to stop; the exit status."""
    options = parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        if options.mode == "detach":
            return background.start(argv, _logs(options), os.environ, partial(_run_command, options))
        _up(options)
    except KeyboardInterrupt:
        pass
    except (StackError, EmbeddedBrokerError) as error:
        say(str(error))
        return 2
    except (BusError, ServiceError) as error:
        say(str(error))
        return 1
    return 0


def _logs(options: argparse.Namespace) -> Path:
    if options.logs is None:
        return log_folders.new_folder(os.environ, time.time())
    folder = Path(options.logs).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StackError(f"--logs={options.logs}: {error.strerror}; choose another folder") from error
    if options.mode == "background":
        log_folders.hold(folder)
    return folder


def _up(options: argparse.Namespace) -> None:
    require("streams", "collect", "ui", *wanted(options))
    if free_port(options.ui_port) != options.ui_port:
        raise StackError(f"--ui-port={options.ui_port}: {taken(options.ui_port)}; or choose another port")
    check_ports(options)
    folder = _logs(options)
    # The broker ends last: who is still publishing, or leaving its group, finds it there.
    with broker(options.brokers, options.port, folder) as settings, Services(folder) as services:
        began_s = time.monotonic()
        addresses = _start(options, settings, services)
        with _written(addresses, folder, detached=options.mode == "background") as on_ready:
            say(f"page at {await_page(options.ui_port, services)}, broker at {settings.address}")
            say(f"logs in {services.folder}")
            say(f"now, in another terminal: {_run_command(options, settings.address)}")
            _watch(addresses, services, began_s, on_ready)


def _run_command(options: argparse.Namespace, address: str) -> str:
    return run_command(address, os.environ, embedded=not options.brokers)


def _start(options: argparse.Namespace, settings: BrokerSettings, services: Services) -> dict[str, str]:
    """Start all services; where each answers."""
    environ = environment(settings, os.environ)
    streams = services.port(STREAMS_PORT)
    services.start("streams", "--web-port", str(streams), environ=environ)
    services.start("collect", environ=environ)
    before = environ
    environ = start_control(options, services, environ)
    services.start("ui", "--port", str(options.ui_port), environ=environ)
    forecaster = start_forecaster(options, services, environ)
    addresses = {"page": f"http://127.0.0.1:{options.ui_port}", "broker": settings.address}
    if forecaster is not None:
        addresses["forecaster"] = f"http://127.0.0.1:{forecaster}"
    if environ != before:
        addresses["control"] = environ[CONTROL_URL.name]
    return {**addresses, "streams": f"http://127.0.0.1:{streams}"}


@contextlib.contextmanager
def _written(addresses: dict[str, str], folder: Path, *, detached: bool) -> Iterator[Callable[[], None]]:
    """This stack, written down for other commands for as long as it runs; a function that says that it is ready."""
    process, place = stack_state.Machine().process(os.getpid()), stack_state.folder(os.environ)
    if process is None:
        yield lambda: None
        return
    stack = stack_state.Stack(
        process=process, started_s=time.time(), detached=detached, logs=str(folder), addresses=addresses
    )
    _write(stack, place)
    try:
        yield lambda: _write(msgspec.structs.replace(stack, ready=True), place)
    finally:
        stack_state.forget(stack, place)


def _write(stack: stack_state.Stack, place: Path) -> None:
    try:
        stack_state.write(stack, place)
    except OSError as error:
        say(f"{place}: {error.strerror}: `paceline status` and `down` do not see this stack")


def _watch(addresses: dict[str, str], services: Services, began_s: float, on_ready: Callable[[], None]) -> None:
    """Say when all is ready, and what is not, until a service ends or we are told to stop."""
    worker, said = WorkerWatch(began_s), False
    while True:
        services.check()
        if news := worker.update(time.monotonic(), readiness(f"{addresses['streams']}/readyz")):
            say(f"{news}; its log is {services.folder / 'streams.log'}")
        if worker.ready and not said and not waits(addresses):
            said = True
            say(f"ready after {time.monotonic() - began_s:.0f} s: {shown(addresses)}")
            on_ready()
        time.sleep(LOOK_S if said else START_LOOK_S)
