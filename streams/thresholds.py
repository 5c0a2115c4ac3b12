"""``paceline thresholds``: change what the diagnosis of one job asks for, also while it runs.

Rule of this file: arguments in, one message out; what the thresholds mean is written where they are declared.
"""

import argparse
import os
import sys

from paceline import topics, wire
from paceline.events import Thresholds
from paceline.kafka.errors import BusError
from paceline.kafka.outbound import Outbound
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.kafka.topic_admin import ensure_topics
from paceline.options import Parser
from paceline.reported_reader import read_reported
from paceline.settings import CLUSTER, SettingError
from paceline.terminal import say

from .jobs.config import CHANGEABLE, default, refusal

EXAMPLES = """\
examples:
  paceline thresholds --list                                   all thresholds, with default and limits
  paceline thresholds --job resnet-7 least_excess=0.05         report ranks that are 5 % slower, from now on
  paceline thresholds --job resnet-7 hang_s=300 sigmas=4       set two; the others return to their defaults
  paceline thresholds --job resnet-7                           back to the defaults
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    args = _parse(sys.argv[1:] if argv is None else argv)
    if args.list:
        _list()
        return 0
    if args.job is None:
        return _refuse("name the job with --job, or see what there is with --list")
    values: dict[str, float] = {}
    for word in args.values:
        name, _, raw = word.partition("=")
        try:
            values[name] = float(raw)
        except ValueError:
            return _refuse(f"{word!r}: write NAME=NUMBER")
        if reason := refusal(name, values[name]):
            return _refuse(reason)
    return _send(args, values)


def _send(args: argparse.Namespace, values: dict[str, float]) -> int:
    try:
        settings = BrokerSettings.from_environ(os.environ, args.brokers)
        cluster = args.cluster or CLUSTER.read(os.environ)
    except SettingError as error:
        return _refuse(str(error))
    try:
        if not args.anyway and (reason := _nothing(settings, cluster, args)):
            return _refuse(f"{reason}; --anyway sets them all the same")
    except BusError as error:
        say(str(error), "paceline thresholds")
        return 1
    event = Thresholds(cluster=cluster, job=args.job, attempt=args.attempt, values=values)
    topic = topics.THRESHOLD
    try:
        ensure_topics(settings, (topic,))
        with Outbound(settings, "paceline-thresholds") as outbound:
            outbound.send(topic.name, (wire.key_of(topic, event) or "").encode(), wire.encode(event))
    except BusError as error:
        say(str(error), "paceline thresholds")
        return 1
    if outbound.refused:
        print(f"paceline thresholds: not taken by Kafka at {settings.address}; run `paceline doctor`", file=sys.stderr)
        return 1
    told = ", ".join(f"{name}={value:g}" for name, value in values.items()) or "all at their defaults"
    print(f"job {args.job}, attempt {args.attempt}: {told}, from its next messages")
    return 0


def _nothing(settings: BrokerSettings, cluster: str, args: argparse.Namespace) -> str | None:
    """Why there is nothing whose thresholds these could be; None where there is."""
    reported = read_reported(settings, cluster, "paceline-thresholds")
    if reported is None:
        return None
    return reported.refuses_job(args.job) or reported.refuses_attempt(args.job, args.attempt)


def _list() -> None:
    for name, (low, high, _) in CHANGEABLE.items():
        print(f"{name:<20} {default(name):>8g}   from {low:g} to {high:g}")


def _refuse(reason: str) -> int:
    say(reason, "paceline thresholds")
    return 2


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="paceline thresholds",
        description="Change the detection thresholds of one attempt of a job, also while it runs.\n"
        "Needs a Kafka broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("values", nargs="*", metavar="NAME=NUMBER", help="thresholds; all others keep the default")
    parser.add_argument("--job", metavar="J", help="the job")
    parser.add_argument("--cluster", metavar="C", help="the job's cluster (default: PACELINE_CLUSTER)")
    parser.add_argument("--attempt", type=int, default=0, metavar="N", help="the job's attempt (default: 0)")
    parser.add_argument("--anyway", action="store_true", help="set them even if no such job has reported yet")
    parser.add_argument("--list", action="store_true", help="the thresholds, with default and limits")
    add_brokers_option(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
