"""``paceline topics``: create the topics on the brokers, or list what is declared and what is there."""

import argparse
import os
import sys
from collections.abc import Mapping

from paceline.kafka.errors import BusError
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.kafka.topic_admin import TopicDescription, describe_topics, ensure_topics
from paceline.options import Parser
from paceline.terminal import say
from paceline.topics import BY_NAME, HOUR_MS, TOPICS, Topic

EPILOG = """examples:
  paceline topics create             create missing topics, with partitions like those of the others
  paceline topics create --wait 60   the same, on a broker that is just starting
  paceline topics list               the declared topics, and which exist
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline topics",
        description="Create the Kafka topics, or list the declared and the existing ones.\nNeeds a Kafka broker.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("action", choices=("create", "list"))
    add_brokers_option(made)
    made.add_argument("--wait", type=float, default=0.0, metavar="S", help="seconds to wait for a broker (default: 0)")
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    try:
        if args.wait > 0:
            wait_for_broker(settings, args.wait)
        if args.action == "list":
            print("\n".join(listing(describe_topics(settings, BY_NAME))))
            return 0
        # A line each as it comes: on a busy broker all of them take a minute.
        created = ensure_topics(settings, on_created=lambda name: print(f"created {name}", flush=True))
    except BusError as error:
        say(str(error), "paceline topics")
        return 1
    print(f"paceline topics: {len(created)} created, {len(TOPICS) - len(created)} existed", file=sys.stderr)
    return 0


def listing(present: Mapping[str, TopicDescription]) -> list[str]:
    """A line for every declared topic: its name, key, partitions, how long it is kept, whether it is there."""
    return [
        f"{topic.name:<25} {topic.key:<9} {_partitions(topic, present):>3} partitions  {_kept(topic):<10}  "
        f"{'there' if topic.name in present else 'missing'}"
        for topic in TOPICS
    ]


def _partitions(topic: Topic, present: Mapping[str, TopicDescription]) -> int:
    found = present.get(topic.name)
    return topic.partitions if found is None else found.partitions


def _kept(topic: Topic) -> str:
    return "compacted" if topic.retention_ms is None else f"{topic.retention_ms // HOUR_MS} h"
