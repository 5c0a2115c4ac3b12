"""``paceline tail``: a topic's events as JSON Lines on standard output, as they come."""

import argparse
import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

import msgspec
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from paceline import topics
from paceline.kafka import clients
from paceline.kafka.clients import BrokerSettings, BusError
from paceline.kafka.errors import explain
from paceline.topics import Topic

_POLL_MS = 250
EPILOG = """examples:
  paceline tail finding                        who is slow, from now on
  paceline tail finding --from-beginning       and all that is still kept
  paceline tail op --job train-7 --seconds 10  ten seconds of one job
  paceline tail window | jq .step_median_s     into another program
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="paceline tail",
        description="Print a topic's events as JSON Lines, one event a line, as they come.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("topic", metavar="TOPIC", help=f"one of {', '.join(topics.BY_SHORT)}, or a full name")
    made.add_argument("--job", metavar="J", help="only events of this job")
    made.add_argument("--from-beginning", action="store_true", help="first all that the topic still holds")
    made.add_argument("--seconds", type=_seconds, metavar="N", help="stop after N seconds (default: at Ctrl-C)")
    made.add_argument("--brokers", metavar="HOST:PORT", help="Kafka brokers (default: PACELINE_BROKERS)")
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    try:
        topic = topics.resolve(args.topic)
    except KeyError as error:
        print(f"paceline tail: {error.args[0]}", file=sys.stderr)
        return 2
    settings = BrokerSettings.from_environ(os.environ)
    if args.brokers:
        settings = settings.with_brokers(args.brokers)
    end = None if args.seconds is None else time.monotonic() + args.seconds
    try:
        follow(settings, topic, args.job, args.from_beginning, end, sys.stdout)
    except BusError as error:
        print(f"paceline tail: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has gone. Python would complain when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def follow(
    settings: BrokerSettings, topic: Topic, job: str | None, from_beginning: bool, end: float | None, output: IO[str]
) -> None:
    """Print events of ``topic`` to ``output`` until ``end`` (monotonic), or until the reader has gone.

    Raises:
        BusError: no broker can be reached.
        BrokenPipeError: the reader has gone.
    """
    consumer = clients.consumer(settings, from_beginning=from_beginning)
    with contextlib.closing(consumer):
        try:
            if not _take(consumer, topic, settings.address, end, output):
                return
            for value in _values(consumer, end, output):
                event = _event(value)
                if event is None:
                    _say("skipped a message that is no JSON object")
                elif job is None or event.get("job") == job:
                    print(msgspec.json.encode(event).decode(), file=output, flush=True)
        except kafka_errors.KafkaError as error:
            raise explain(settings.address, error, settings.sasl_username) from error


def _take(consumer: KafkaConsumer, topic: Topic, address: str, end: float | None, output: IO[str]) -> bool:
    """Take all partitions of ``topic``, once it is there, and say from when on nothing is missed."""
    said = False
    while not (partitions := consumer.partitions_for_topic(topic.name)):
        if not said:
            _say(f"{topic.name} is not there yet on {address}; waiting for the first publisher to make it")
            said = True
        if end is not None and time.monotonic() >= end:
            return False
        _check_reader(output)
        time.sleep(_POLL_MS / 1000)
    taken = [TopicPartition(topic.name, number) for number in partitions]
    consumer.assign(taken)
    if said:
        consumer.seek_to_beginning(*taken)
    for partition in taken:
        consumer.position(partition)
    _say(f"listening to {topic.name} on {address}")
    return True


def _values(consumer: KafkaConsumer, end: float | None, output: IO[str]) -> Iterator[bytes]:
    while end is None or time.monotonic() < end:
        left_ms = _POLL_MS if end is None else int(max(0.0, end - time.monotonic()) * 1000)
        for rows in consumer.poll(timeout_ms=min(_POLL_MS, left_ms)).values():
            for row in rows:
                if row.value is not None:
                    yield row.value
        _check_reader(output)


def _check_reader(output: IO[str]) -> None:
    """Raise BrokenPipeError when the reader has gone: else `tail | head -1` would stay until the next event."""
    try:
        descriptor = output.fileno()
    except (OSError, ValueError):
        return
    poller = select.poll()
    poller.register(descriptor, 0)
    if any(state & (select.POLLERR | select.POLLHUP) for _, state in poller.poll(0)):
        raise BrokenPipeError


def _event(value: bytes) -> Mapping[str, Any] | None:
    """The JSON object in ``value``, with fields this version does not know; None where there is none."""
    try:
        fields = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _say(line: str) -> None:
    print(f"paceline tail: {line}", file=sys.stderr, flush=True)


def _seconds(raw: str) -> float:
    value = float(raw)
    if not 0 < value < 1e9:
        raise ValueError
    return value
