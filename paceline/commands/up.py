"""``paceline up``: broker, streams, collector, forecaster, control and page for your own jobs, until Ctrl-C.

Rule of this file: when one service ends, all end, and the one that ended first is named.
"""

import argparse
import os
import signal
import time

from paceline.commands.services import ServiceError, Services, logs
from paceline.commands.stack import (
    STREAMS_PORT,
    StackError,
    add_service_options,
    await_page,
    broker,
    check_ports,
    environment,
    free_port,
    require,
    start_control,
    start_forecaster,
    wanted,
)
from paceline.commands.worker_watch import WorkerWatch, readiness
from paceline.kafka.embedded import EmbeddedBrokerError
from paceline.kafka.errors import BusError
from paceline.kafka.settings import add_brokers_option
from paceline.terminal import say

EXAMPLES = """examples:
  paceline up                                            everything on this machine, in memory
  paceline up --brokers kafka-1:9092                     the same services on a Kafka that runs already
  paceline run -- torchrun --nproc-per-node 4 train.py   then, in another terminal, your job"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="paceline up",
        description="Start broker, services and page for your own jobs. Ctrl-C stops them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--port", type=int, default=9092, help="port of the embedded broker (default: 9092)")
    made.add_argument("--ui-port", type=int, default=8501, help="port of the page (default: 8501)")
    add_service_options(made)
    add_brokers_option(made, "use this Kafka instead of an embedded broker")
    return made


def main(argv: list[str]) -> int:
    """Run the services until told to stop; the exit status."""
    options = parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
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


def _up(options: argparse.Namespace) -> None:
    require("streams", "collect", "ui", *wanted(options))
    if free_port(options.ui_port) != options.ui_port:
        raise StackError(f"--ui-port={options.ui_port}: something listens there already; choose another")
    check_ports(options)
    folder = logs()
    # The broker ends last: who is still publishing, or leaving its group, finds it there.
    with broker(options.brokers, options.port, folder) as settings, Services(folder) as services:
        environ = environment(settings, os.environ)
        ready_at = free_port(STREAMS_PORT)
        services.start("streams", "--web-port", str(ready_at), environ=environ)
        began_s = time.monotonic()
        worker, told = WorkerWatch(began_s), False
        services.start("collect", environ=environ)
        environ = start_control(options, services, environ)
        services.start("ui", "--port", str(options.ui_port), environ=environ)
        start_forecaster(options, services, environ)
        say(f"page at {await_page(options.ui_port, services)}, broker at {settings.address}")
        say(f"logs in {services.folder}")
        option = "" if settings.address == "127.0.0.1:9092" else f"--brokers {settings.address} "
        say(f"now, in another terminal: paceline run {option}-- torchrun --nproc-per-node 4 train.py")
        while True:
            services.check()
            if news := worker.update(time.monotonic(), readiness(ready_at)):
                say(f"{news}; its log is {folder / 'streams.log'}")
            if worker.ready and not told:
                told = True
                say(f"ready after {time.monotonic() - began_s:.0f} s: what your job reports is judged from now on")
            time.sleep(0.5)
