"""``paceline replay``: put a recording back on the bus.

Rule of this file: order and distance in time are the recording's, at ``--speed`` times the pace. Derived topics are
left out unless asked for, because the workers derive them again; commands always, for nobody asks for them now. A
recording whose times count from 0 begins now: at no time that a reader is shown was it 1970.
"""

import argparse
import os
import time
from collections.abc import Iterator

import msgspec

from paceline import wire
from paceline.commands.undated import dated
from paceline.kafka.errors import BusError
from paceline.kafka.outbound import Outbound
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.kafka.topic_admin import ensure_topics
from paceline.options import Parser
from paceline.pace import Pace, speed
from paceline.recording import Bad, Line, RecordingError, read, value_of
from paceline.terminal import Progress, say
from paceline.topics import BY_NAME, OPERATIONAL
from paceline.unpacking import MOST_STREAMED_GIB, add_option

EXAMPLES = """examples:
  paceline replay run.jsonl.zst                     at the pace it was recorded
  paceline replay run.jsonl.zst --speed 10          ten times faster
  paceline replay run.jsonl.zst --speed max --job again  as fast as possible, as a job of its own

The workers drop what they have seen: to replay a job into a bus that knows it, give it a name with --job."""

#: Bad lines that are shown one by one.
MOST_SHOWN = 3


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline replay",
        description="Send a recording to Kafka again.\nNeeds a Kafka broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("file", metavar="FILE", help="a recording, or - for standard input")
    made.add_argument("--speed", type=speed, default=1.0, metavar="N", help="N times as fast; max: as fast as possible")
    made.add_argument("--job", metavar="NAME", help="replay it as the job NAME")
    made.add_argument("--derived", action="store_true", help="also windows and findings, where no stream worker runs")
    add_option(made, MOST_STREAMED_GIB)
    add_brokers_option(made)
    return made


def renamed(line: Line, job: str) -> Line:
    """``line`` as a message of the job called ``job``, from producers of its own, so that it is no duplicate."""
    found = value_of(line)
    if found is None:
        return line
    topic, value = found
    if not isinstance(value, dict) or "job" not in value:
        return line
    key = line.key
    if key is not None:
        key = job + key.removeprefix(str(value["job"]))
    if "producer" in value:
        value["producer"] = f"{value['producer']}-{job}"
    value["job"] = job
    return msgspec.structs.replace(line, key=key, value=wire.encode_untyped(topic, value))


def playable(lines: Iterator[Line | Bad], *, derived: bool, job: str | None) -> Iterator[Line | Bad]:
    """The lines that go onto the bus; those of unknown topics as ``Bad``."""
    for line in lines:
        if isinstance(line, Bad):
            yield line
        elif line.topic not in BY_NAME:
            yield Bad(line.number, f"no topic {line.topic!r}")
        elif BY_NAME[line.topic] not in OPERATIONAL and (derived or BY_NAME[line.topic].kind != "derived"):
            yield line if job is None else renamed(line, job)


def main(argv: list[str]) -> int:
    """Replay the file; the exit status."""
    options = parser().parse_args(argv)
    settings = BrokerSettings.from_environ(os.environ, options.brokers)
    try:
        lines = playable(read(options.file, options.most_unpacked), derived=options.derived, job=options.job)
        lines = dated(lines, time.time())
        ensure_topics(settings)
        with Outbound(settings, "paceline-replay") as outbound:
            sent, bad = _play(lines, outbound, options.speed)
    except RecordingError as error:
        say(str(error))
        return 2
    except BusError as error:
        say(str(error))
        return 1
    say(f"{sent} messages replayed from {options.file}" + (f", {bad} bad lines left out" if bad else ""))
    if outbound.refused:
        say(f"{outbound.refused} of them were not taken by Kafka at {settings.address}; run `paceline doctor`")
    return 1 if outbound.refused or (bad and not sent) else 0


def _play(lines: Iterator[Line | Bad], outbound: Outbound, times: float) -> tuple[int, int]:
    """Send the lines, a recording with a gap of an hour with that gap; how many were sent, how many were bad."""
    sent = bad = 0
    first_ms, pace, progress = None, Pace(times), Progress()
    for line in lines:
        if isinstance(line, Bad):
            bad += 1
            if bad <= MOST_SHOWN:
                say(f"line {line.number}: {line.reason}")
            continue
        first_ms = line.timestamp_ms if first_ms is None else first_ms
        outbound.wait_until(pace.due(line.timestamp_ms / 1000))
        key = None if line.key is None else line.key.encode()
        outbound.send(line.topic, key, line.value)
        sent += 1
        progress.tell(f"{sent} messages, {(line.timestamp_ms - first_ms) / 1000:.0f} s of the recording")
    progress.end()
    return sent, bad
