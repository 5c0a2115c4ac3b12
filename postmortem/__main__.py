"""``paceline why``: read what is left of a job, and say which rank ended or stopped it, where and why.

Rule of this file: options, output and the bus. What files say and what follows from it are decided elsewhere.
"""

import argparse
import os
import sys

import msgspec

from paceline import settings, topics, wire
from paceline.kafka.errors import BusError
from paceline.kafka.outbound import Outbound
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.options import Parser
from paceline.terminal import say
from paceline.unpacking import MOST_STREAMED_GIB, add_option

from .deciding.case import Case
from .deciding.decide import decide
from .finding import Of, finding
from .reading.files import read
from .wording import lines

EXAMPLES = """examples:
  paceline why job.log                        one log of all ranks
  paceline why logs/ dumps/ dmesg.txt         folders are read whole: logs, flight recorders, stacks, kernel logs
  kubectl logs --prefix -l job=llm | paceline why -
  kubectl describe pods -l job=llm > pods.txt; paceline why logs/ pods.txt
  ncclras -v > ras-1.txt; sleep 30; ncclras -v > ras-2.txt; paceline why ras-1.txt ras-2.txt
  paceline why logs/ --json                   the finding, one JSON object a line
  paceline why logs/ --brokers kafka:9092 --job llm-7   and onto the bus

Reads logs of torchrun, srun, mpirun, Ray, Lightning, DeepSpeed and kubectl (.gz, .zst too), flight-recorder dumps
(pickle, JSON), reports of NCCL's RAS (ncclras, text or JSON), py-spy and faulthandler stacks, torchelastic's error
files, kernel and Slurm logs, pods and events of Kubernetes (kubectl describe pod, get -o json or yaml, get events).
Status: 0 something was found, 1 nothing was, 2 wrong options or unreadable files."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline why",
        description="Find why a job hung or died: the rank, the line of code, and the ranks that only waited.\n"
        "Needs its logs or dumps.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("paths", nargs="+", metavar="PATH", help="files or folders of one run; - reads standard input")
    made.add_argument("--json", action="store_true", help="print the finding as JSON, one object a line")
    made.add_argument(
        "--job", default="postmortem", metavar="NAME", help="the job's name in the finding (default: postmortem)"
    )
    made.add_argument("--attempt", type=int, default=0, metavar="N", help="the job's attempt (default: 0)")
    made.add_argument("--brokers", metavar="HOST:PORT", help="send the finding to these Kafka brokers, too")
    add_option(made, MOST_STREAMED_GIB)
    return made


def main(argv: list[str]) -> int:
    """Read, decide, print; the exit status."""
    options = parser().parse_args(argv)
    missing = [path for path in options.paths if path != "-" and not os.path.exists(path)]
    if missing:
        say(f"why: {missing[0]}: no such file or folder")
        return 2
    found = read(options.paths, options.most_unpacked)
    for note in found.notes:
        say(f"why: {note}")
    verdict = decide(found.statements)
    if verdict is None:
        say(f"why: {'nothing that went wrong in' if found.files else 'nothing known in'} {' '.join(options.paths)}")
        return 1 if found.files or not found.notes else 2
    of = Of(settings.CLUSTER.read(os.environ), options.job, options.attempt)
    event = finding(verdict, of, len(Case(found.statements).ranks))
    print(msgspec.json.encode(event).decode() if options.json else "\n".join(lines(verdict)))
    sys.stdout.flush()
    return _publish(options.brokers, event) if options.brokers else 0


def _publish(brokers: str, event: msgspec.Struct) -> int:
    reach = BrokerSettings.from_environ(os.environ, brokers)
    try:
        ensure_topics(reach)
        with Outbound(reach, "paceline-why") as outbound:
            key = (wire.key_of(topics.FINDING, event) or "").encode()
            outbound.send(topics.FINDING.name, key, wire.encode(event))
        if outbound.refused:
            raise BusError(reach.address, "the finding was not taken", "run `paceline doctor`")
    except BusError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
