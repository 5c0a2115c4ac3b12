"""``paceline streams``: one worker in this process, started again from what is stored whenever the broker goes away."""

import argparse
import asyncio
import contextlib
import logging
import os
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline.command_rules import Reader
from paceline.health import add_web_options
from paceline.identity import node_of
from paceline.kafka.errors import BusError
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings, add_brokers_option, add_no_commands_option
from paceline.kafka.topic_admin import TopicDescription, describe_topics, ensure_topics
from paceline.patience import patient
from paceline.settings import ALLOWED_HOSTS, CLUSTER, MOST_RANKS, NO_COMMANDS
from paceline.terminal import log_to_stderr, say
from paceline.topics import Topic

from .advice.config import AdviceConfig
from .advice_thresholds import thresholds
from .garbage import collect_seldom

EXAMPLES = """\
examples:
  paceline streams                                   one worker on PACELINE_BROKERS (default 127.0.0.1:9092)
  paceline streams --brokers kafka-1:9092,kafka-2:9092
  paceline streams --web-port 6066                   with /healthz, /readyz and /metrics on 127.0.0.1:6066
Start it on as many machines as you like (up to 12): they share the jobs. State is kept on the broker.
"""
#: A worker that fails sooner than this after its start has not done any work: the next try waits a little.
SOON_S, AGAIN_S = 10.0, 2.0
#: Set for a worker that takes the place of one that hung: how often that has been.
TAKEN_OVER = "_PACELINE_STREAMS_TAKEN_OVER"
#: Between two lines that say the same of a broker that is waited for.
AGAIN_TOLD_S = 15.0
#: What a job's events need: the same partition in every topic, and one of the changelog.
MEND = "delete it when its data may go (kafka-topics.sh --delete); it is made again as it must be"


def main(argv: list[str] | None = None) -> int:
    """Run one worker until SIGTERM; its exit status."""
    args = _parse(sys.argv[1:] if argv is None else argv)
    log_to_stderr(args.log_level)
    for noisy in ("faust", "mode", "aiokafka"):
        logging.getLogger(noisy).setLevel(logging.ERROR if args.log_level != "debug" else logging.INFO)
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    settings.ssl_context()
    most_ranks = MOST_RANKS.read(os.environ)
    obeys = not (args.no_commands or NO_COMMANDS.read(os.environ))
    advice_config = thresholds(os.environ)
    with tempfile.TemporaryDirectory(prefix="paceline-streams-") as scratch:
        data_dir = Path(args.data_dir or scratch)
        web = (args.web_address, args.web_port)
        return _work(settings, data_dir, web, args.wait, most_ranks, obeys, advice_config)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="paceline streams",
        description="Find stragglers and their causes, from the bus to the bus.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_brokers_option(parser)
    add_no_commands_option(parser)
    add_web_options(parser)
    parser.add_argument("--data-dir", metavar="DIR", help="scratch folder; default: a temporary one")
    parser.add_argument("--wait", type=float, default=60.0, metavar="S", help="wait for a broker so long (60)")
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="info")
    return parser.parse_args(argv)


def _work(
    settings: BrokerSettings,
    data_dir: Path,
    web: tuple[str, int],
    wait_s: float,
    most_ranks: int,
    obeys: bool,
    advice_config: AdviceConfig | None = None,
) -> int:
    further_hosts = ALLOWED_HOSTS.read(os.environ)
    collect_seldom()
    reader = Reader("streams", node_of(os.environ, socket.gethostname()), CLUSTER.read(os.environ))
    # Faust takes a second to import: help and what is wrong with an option or a setting come before.
    from .cluster_advice import AdviceSettings
    from .command_door import CommandDoor
    from .faust_app import CHANGELOG, NEEDED, SOURCES
    from .watchdog import Watchdog
    from .worker import READY_S, Worker, WorkerError

    advice = AdviceSettings(reader.node, obeys, advice_config or AdviceConfig())
    restarts, ready_s = _taken_over(), patient(READY_S, os.environ)
    worker: Worker | None = None

    def overdue(what: str) -> None:
        if worker is not None and worker.stopped:
            _say(f"ended at once, {what}; what is not stored will be read again")
            os._exit(1)
        _take_over(what)

    watchdog = Watchdog(overdue)
    with contextlib.ExitStack() as stack:
        commands: CommandDoor | None = None
        while True:
            try:
                joined = _joined(settings, wait_s, NEEDED)
            except BusError as error:
                _say(str(error))
                return 1
            if _odd(joined, (*SOURCES, CHANGELOG)):
                return 1
            if commands is None:
                commands = stack.enter_context(contextlib.closing(CommandDoor(settings, reader, obeys=obeys)))
            began_s = time.monotonic()
            try:
                worker = Worker(
                    settings,
                    data_dir,
                    joined,
                    web,
                    most_ranks,
                    further_hosts,
                    commands,
                    restarts,
                    advice,
                    watchdog=watchdog,
                    ready_s=ready_s,
                )
                asyncio.run(worker.run())
            except WorkerError as error:
                _say(f"starting again from what is stored: {error}")
                restarts += 1
                if time.monotonic() - began_s < SOON_S:
                    time.sleep(AGAIN_S)
            else:
                return 0
            finally:
                watchdog.done()


def _odd(joined: Mapping[str, TopicDescription], needed: Sequence[Topic]) -> bool:
    """Whether a topic has other partitions than its jobs need; each is named."""
    odd = [topic for topic in needed if joined[topic.name].partitions != topic.partitions]
    for topic in odd:
        here = joined[topic.name].partitions
        _say(f"{topic.name} has {here} partitions, and must have {topic.partitions}: {MEND}")
    return bool(odd)


def _take_over(what: str) -> None:
    """This process cannot go on: what its client waits for does not come. It becomes a new one, from what is stored.

    The same process for whoever started it, with the same arguments; its threads, loop and connections are gone.
    """
    _say(f"starting again from what is stored: {what}")
    os.environ[TAKEN_OVER] = str(_taken_over() + 1)
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - ourselves, as we were started


def _taken_over() -> int:
    told = os.environ.get(TAKEN_OVER, "")
    return int(told) if told.isdecimal() else 0


def _joined(settings: BrokerSettings, wait_s: float, needed: Sequence[Topic]) -> dict[str, TopicDescription]:
    """The topics that a worker needs, made where they are missing.

    A cluster of which only some nodes answer lets us in and can do no more: it is waited for like one that is away.

    Raises:
        BusError: no brokers within ``wait_s`` seconds, or waiting cannot help.
    """
    end, waiting = time.monotonic() + wait_s, _Waiting()
    while True:
        try:
            left_s = max(end - time.monotonic(), 0.0)
            wait_for_broker(settings, left_s, waiting.tell)
            ensure_topics(settings, needed)
            joined = describe_topics(settings, [topic.name for topic in needed])
        except BusError as error:
            if error.permanent or time.monotonic() >= end:
                raise
            waiting.tell(str(error))
        else:
            missing = [topic.name for topic in needed if topic.name not in joined]
            if not missing:
                return joined
            _say(f"waiting for {', '.join(missing)}: just made, or just deleted")
        time.sleep(AGAIN_S)


class _Waiting:
    """Says why a broker is waited for: at once, when the reason is another, and else every ``AGAIN_TOLD_S`` seconds."""

    def __init__(self) -> None:
        self._told = ("", 0.0)

    def tell(self, cause: str) -> None:
        now = time.monotonic()
        if self._told[0] != cause or now - self._told[1] >= AGAIN_TOLD_S:
            self._told = cause, now
            _say(f"waiting for a broker: {cause}")


def _say(line: str) -> None:
    say(line, "paceline streams")


if __name__ == "__main__":
    sys.exit(main())
