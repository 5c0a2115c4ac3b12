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
  paceline thresholds --list                                   all thresholds, with default, limits and meaning
  paceline thresholds --job resnet-7 least_excess=0.1          report ranks from 10 % slower on, from now on
  paceline thresholds --job resnet-7 hang_s=300 sigmas=4       set two; the others return to their defaults
  paceline thresholds --job resnet-7                           back to the defaults
"""


#: What each is, in a few words; why it is what it is, is written in ``streams/jobs``.
MEANINGS = {
    "least_excess": "a rank is slow from this much over its peers on, as a share of the step",
    "least_cpu_wait": "the same for time without a processor, where ranks share cores",
    "sigmas": "and from so many times the noise of its peers on",
    "floor": "the noise counts as this share of the step at least",
    "late_share": "share of the measurements in which a rank must be late",
    "recover_ticks": "measurements without lateness that end a finding",
    "cooldown_ticks": "measurements after it in which no new one begins",
    "link_times": "a link is slow from so many times its peers' round trip on",
    "link_rtt_s": "and from so many seconds above it on",
    "link_wait": "while ranks wait for this share of the time",
    "least_stage": "a pipeline stage is uneven from this much over the mean of all on",
    "least_spread": "data is uneven where times of micro-batches spread by this share",
    "least_alike": "and forward and backward correlate by this much",
    "data_bound": "a job is bound by its data from this share of the step on",
    "communication_bound": "and by its communication from this share of the time on",
    "rated_bytes_per_s": "what a link should carry, for comparison; 0: as its node reports",
    "least_slowdown": "the whole job is slower from this share of a step on",
    "hang_s": "a collective hangs after so many seconds",
    "hang_times": "and after so many times the longest wait before",
    "node_silent_s": "a node is silent after so many seconds of its peers without a message",
}


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
        limits = f"{low:g} to {high:g}"
        print(f"{name:<20} {default(name):>6g}   {limits:<14} {MEANINGS[name]}")


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
    parser.add_argument("--list", action="store_true", help="the thresholds, with default, limits and meaning")
    add_brokers_option(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
