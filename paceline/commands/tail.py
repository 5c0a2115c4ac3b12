"""``paceline tail``: a topic's events as JSON Lines on standard output, as they come."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

import msgspec

from paceline import topics, wire
from paceline.command_rules import job_target
from paceline.kafka.errors import BusError
from paceline.kafka.follow import BEGINNING, NOW, PROMPT_S, Follower
from paceline.kafka.follow_words import reports
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser
from paceline.standard_streams import reader_has_gone
from paceline.terminal import say
from paceline.topics import Topic
from paceline.visible import visible

EPILOG = """examples:
  paceline tail finding                        who is slow, from now on
  paceline tail finding --from-beginning       and all that is still kept
  paceline tail op --job train-7 --seconds 10  ten seconds of one job
  paceline tail window | jq .step_median_s     into another program
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline tail",
        description="Print a topic's events as JSON Lines, live.\nNeeds a Kafka broker.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("topic", metavar="TOPIC", help=f"one of {', '.join(topics.BY_SHORT)}, or a full name")
    made.add_argument("--job", metavar="J", help="only events of this job, and commands to it")
    made.add_argument(
        "--from-beginning", action="store_true", help="start with the oldest event that Kafka still holds"
    )
    made.add_argument("--seconds", type=_seconds, metavar="N", help="stop after N seconds (default: at Ctrl-C)")
    add_brokers_option(made)
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    try:
        topic = topics.resolve(args.topic)
    except KeyError as error:
        _say(str(error.args[0]))
        return 2
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    end = None if args.seconds is None else time.monotonic() + args.seconds
    try:
        follow(settings, topic, args.job, args.from_beginning, end, sys.stdout)
    except BusError as error:
        _say(str(error))
        return 1
    return 0


def follow(
    settings: BrokerSettings, topic: Topic, job: str | None, from_beginning: bool, end: float | None, output: IO[str]
) -> None:
    """Print events of ``topic`` to ``output`` until ``end`` (monotonic), or until the reader has gone.

    Raises:
        BusError: no broker can be reached.
        BrokenPipeError: the reader has gone.
    """
    starts = {topic: BEGINNING if from_beginning else NOW}
    with Follower(settings, starts, "paceline-tail", resume=True, on_cluster=_say, **reports(_say)) as follower:
        follower.connect()
        for value in _values(follower, topic, settings.address, end, output):
            event = _event(topic, value)
            if event is None:
                _say(f"skipped a message that is no {'JSON object' if topic.encoding == 'json' else topic.short}")
            elif job is None or event.get("job") == job or event.get("target") == job_target(job):
                print(visible(msgspec.json.encode(event).decode()), file=output, flush=True)


def _values(follower: Follower, topic: Topic, address: str, end: float | None, output: IO[str]) -> Iterator[bytes]:
    """What comes until ``end``; says from when on nothing of ``topic`` is missed, and where it is not there yet."""
    listening = follower.follows(topic)
    if listening:
        _say(f"listening to {topic.name} on {address}")
    elif follower.state != "refused":
        _say(f"{topic.name} does not exist yet on {address}; waiting for the first publisher to create it")
    while end is None or time.monotonic() < end:
        left_s = PROMPT_S if end is None else max(0.0, end - time.monotonic())
        polled = follower.poll(min(PROMPT_S, left_s))
        if not listening and follower.follows(topic):
            _say(f"listening to {topic.name} on {address}")
            listening = True
        for record in (record for _, records in polled for record in records):
            if record.value is not None:
                yield record.value
        _check_reader(output)


def _check_reader(output: IO[str]) -> None:
    """Raise BrokenPipeError when the reader has gone: else `tail | head -1` would stay until the next event."""
    if reader_has_gone(output):
        raise BrokenPipeError


def _event(topic: Topic, value: bytes) -> Mapping[str, Any] | None:
    """The JSON object in ``value``, with fields this version does not know; of a binary topic the event, its columns as
    lists. None where there is none."""
    try:
        if topic.encoding != "json":
            return wire.readable(wire.decode(topic, value))
        fields = wire.untyped(topic, value)
    except wire.WireError:
        return None
    return fields if isinstance(fields, dict) else None


def _say(line: str) -> None:
    say(line, "paceline tail")


def _seconds(raw: str) -> float:
    value = float(raw)
    if not 0 < value < 1e9:
        raise ValueError
    return value
