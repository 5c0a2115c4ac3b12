"""``paceline record``: write the bus's events to a recording.

Rule of this file: messages go into the file as they were on the bus, undecoded; what is wrong with one is for whoever
reads the recording to say.
"""

import argparse
import contextlib
import heapq
import os
import signal
import threading
import time

from paceline.kafka.errors import BusError
from paceline.kafka.follow import BEGINNING, NOW, PROMPT_S, Follower
from paceline.kafka.follow_words import reports
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser
from paceline.recording import RecordingError, Writer
from paceline.selection import Selection
from paceline.terminal import say
from paceline.topics import TOPICS, Topic

EXAMPLES = """examples:
  paceline record -o today.jsonl.zst                        all there is, until Ctrl-C
  paceline record --job resnet-7 --seconds 600 -o job.jsonl.zst
  paceline record --job resnet-7 --from-beginning -o - | paceline analyze -"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline record",
        description="Write events from Kafka to a recording: JSON Lines, compressed by the file's suffix.\n"
        "Needs a Kafka broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("-o", "--output", required=True, metavar="FILE", help=".jsonl, .jsonl.gz, .jsonl.zst, or -")
    made.add_argument("--job", metavar="J", help="only this job, and the nodes it runs on")
    made.add_argument("--cluster", metavar="C", default="", help="only of this cluster")
    made.add_argument("--seconds", type=float, metavar="N", help="stop after N seconds (default: at Ctrl-C)")
    made.add_argument("--from-beginning", action="store_true", help="also earlier events that Kafka still holds")
    add_brokers_option(made)
    return made


def main(argv: list[str]) -> int:
    """Record until told to end; the exit status."""
    options = parser().parse_args(argv)
    settings = BrokerSettings.from_environ(os.environ, options.brokers)
    try:
        writer = Writer(options.output)
    except RecordingError as error:
        say(str(error))
        return 2
    try:
        return _record(options, settings, writer)
    except BusError as error:
        say(str(error))
        return 1
    except OSError as error:
        say(f"recording {options.output} ends after {writer.messages} messages: {error.strerror}")
        return 1
    finally:
        with contextlib.suppress(OSError):  # What went wrong has been said.
            writer.close()


def _record(options: argparse.Namespace, settings: BrokerSettings, writer: Writer) -> int:
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    starts = dict.fromkeys(TOPICS, BEGINNING if options.from_beginning else NOW)
    another: list[str] = []

    def end(cause: str) -> None:
        """Two clusters in one recording are two jobs under one name."""
        another.append(cause)
        stopped.set()

    with Follower(
        settings,
        starts,
        "paceline-record",
        resume=True,
        on_lost=reports(say)["on_lost"],
        on_unreadable=_passed_over,
        on_cluster=end,
        stop=stopped,
    ) as follower:
        follower.connect()
        say(f"recording from Kafka at {settings.address} into {options.output}; Ctrl-C ends it")
        _copy(follower, Selection(options.job, cluster=options.cluster), writer, options.seconds, stopped)
    say(f"{writer.messages} messages in {options.output}")
    if another:
        say(f"{another[0]}; the recording ends, record it into another file")
    return 1 if another else 0


def _passed_over(topic: Topic, reason: str) -> None:
    say(f"a batch on {topic.name} is not in the recording: {reason}")


def _copy(
    follower: Follower, selection: Selection, writer: Writer, seconds: float | None, stopped: threading.Event
) -> None:
    deadline = None if seconds is None else time.monotonic() + seconds
    while not stopped.is_set() and (deadline is None or time.monotonic() < deadline):
        # Over partitions by time, within one in its own order.
        partitions = (records for _, records in follower.poll(PROMPT_S))
        for record in heapq.merge(*partitions, key=lambda record: record.timestamp):
            key = None if record.key is None else record.key.decode(errors="replace")
            if selection.takes(record.topic, key, record.value or b""):
                writer.write(record.topic, key, record.timestamp, record.value or b"null")
        writer.flush()
