"""``paceline annotate``: the service.

Rule of this file: options to what runs, nothing more.
"""

import argparse
import re
import signal
import sys
import threading

from paceline.health import add_web_options
from paceline.kafka.errors import BusError
from paceline.kafka.settings import add_brokers_option
from paceline.options import Parser
from paceline.terminal import log_to_stderr, say

from .access import manifest, rules
from .owners import KINDS, kind_of

EPILOG = """\
examples:
  paceline annotate                                   in a pod, with its service account
  paceline annotate --context lab --dry-run --once    what would be written now, on standard output, and nothing else
  paceline annotate --owner known --owner example.org/TrainingRun    a kind of your own, too
  paceline annotate --print-role | kubectl apply -f - the least that it must be allowed

  kubectl get node NAME -o jsonpath='{.metadata.annotations.paceline\\.dev/gpu-use}'
Exit status with --once: 0 when all is written, 1 when not.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline annotate",
        description="Annotate nodes, pods and their owners in Kubernetes with findings.\n"
        "Needs Kafka and the Kubernetes API.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--kubeconfig", metavar="FILE", help="where the API is (default: the pod's service account)")
    made.add_argument("--context", metavar="NAME", help="which context of the kubeconfig")
    made.add_argument(
        "--namespace",
        metavar="NAME",
        type=_namespace,
        action="append",
        default=[],
        help="only pods of this namespace; repeatable",
    )
    made.add_argument(
        "--owner",
        metavar="GROUP/KIND",
        type=_owners,
        action="append",
        help="kinds of owners to annotate; repeatable (default: `known`, the usual ones)",
    )
    made.add_argument("--rate", metavar="N", type=_rate, default=10.0, help="writes a second at most (%(default)s)")
    made.add_argument(
        "--no-events", dest="events", action="store_false", help="create no Kubernetes Events for findings"
    )
    made.add_argument("--node-condition", action="store_true", help="keep a condition PacelineHealthy on nodes")
    made.add_argument("--propose-taints", action="store_true", help="propose taints as annotations; never set them")
    _add_running(made)
    return made


def _add_running(made: argparse.ArgumentParser) -> None:
    """Options of how it runs, rather than of what it writes."""
    made.add_argument("--dry-run", action="store_true", help="print each write as a line of JSON, and write nothing")
    made.add_argument("--once", action="store_true", help="write what is pending now, then exit")
    made.add_argument("--print-role", action="store_true", help="print the ClusterRole that it needs, then exit")
    add_web_options(made)
    add_brokers_option(made)
    made.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="info")


def owner_kinds(args: argparse.Namespace) -> frozenset[tuple[str, str]]:
    """The kinds of owners that are told at."""
    return frozenset(kind for kinds in args.owner or [KINDS] for kind in kinds)


def main(argv: list[str] | None = None) -> int:
    """Annotate until SIGTERM; the exit status."""
    args = parser().parse_args(argv)
    kinds = owner_kinds(args)
    if args.print_role:
        print(manifest(rules(kinds, args.events, args.node_condition)), end="")
        return 0
    log_to_stderr(args.log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    from .service import run

    try:
        return run(args, kinds, stop)
    except BusError as error:
        say(str(error), "paceline annotate")
        return 1


def _owners(raw: str) -> tuple[tuple[str, str], ...]:
    return KINDS if raw == "known" else (kind_of(raw),)


def _namespace(raw: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", raw):
        raise ValueError
    return raw


def _rate(raw: str) -> float:
    value = float(raw)
    if not 0.1 <= value <= 1000:
        raise ValueError
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
