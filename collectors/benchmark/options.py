"""The options of ``paceline benchmark``.

Rule of this file: pure. A wrong option is one line that names it, its value and what is allowed, and exit status 2.
"""

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

from paceline.settings import number, whole
from paceline.visible import visible

from .results import PARTS

NODES = "nodes.yaml"
LEAST_S, MOST_S, DEFAULT_S = 2, 3600, 20
MOST_BENCHMARK_RANKS = 1024
EXAMPLES = """\
examples:
  paceline benchmark                                all of it on this node, in some 20 seconds
  paceline benchmark --only gemm,memory --device cuda:0    two parts, on one GPU
  paceline benchmark --disk-folder /scratch         the disk that the training data is on
  paceline benchmark --nodes /shared/nodes.yaml     also write this node's entry to a shared file
  paceline benchmark --show /shared/nodes.yaml      compare nodes of the same kind; measures nothing
  torchrun --nproc-per-node 4 -m paceline benchmark --only all_reduce    over the ranks of this launch
  srun --ntasks-per-node 8 paceline benchmark --nodes /shared/nodes.yaml    the same on every node of a job

The ratings are stored in a file of this node (PACELINE_RATED_FILE), which `paceline collect` publishes. A rating of a
busy machine replaces one of an idle machine only with --force.
exit status: 0 measured; 1 a part broke; 2 a wrong option; 3 measured, but others used the machine (0 under a
launcher, which would take it for a fault); 130 Ctrl-C
docs/trials.md says what each number means.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {visible(message)}; {self.prog} --help shows how\n")


def _kind(parse: Callable[[str], Any], allowed: str) -> Callable[[str], Any]:
    def read(raw: str) -> Any:
        try:
            return parse(raw)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{raw!r}: {error}; allowed: {allowed}") from error

    return read


def parts(raw: str) -> tuple[str, ...]:
    """The parts that ``raw`` names, in their own order.

    >>> parts("disk,gemm")
    ('gemm', 'disk')

    Raises:
        ValueError: it names others, or none.
    """
    named = {word.strip().replace("-", "_") for word in raw.split(",") if word.strip()}
    unknown = sorted(named - set(PARTS))
    if unknown or not named:
        raise ValueError(f"no part {', '.join(unknown)}" if unknown else "no part is named")
    return tuple(part for part in PARTS if part in named)


def device(raw: str) -> str:
    """``raw``, where it names a device.

    Raises:
        ValueError: it does not.
    """
    if not re.fullmatch(r"cpu|cuda(:\d{1,4})?", raw, re.A):
        raise ValueError("no device")
    return raw


def parse(argv: list[str]) -> argparse.Namespace:
    """The options in ``argv``.

    Raises:
        SystemExit: 2 for a wrong option, 0 after --help.
    """
    parser = _Parser(
        prog="paceline benchmark",
        description="Measure the speed of this node's devices, with intervals, and store it as their rating.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--only",
        metavar="PARTS",
        type=_kind(parts, ",".join(PARTS)),
        default=PARTS,
        help=f"of {','.join(PARTS)} (default: all)",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=_kind(number(LEAST_S, MOST_S), f"{LEAST_S} to {MOST_S}"),
        default=float(DEFAULT_S),
        help="about so long for all parts together; longer, where there are many GPUs (default: %(default)g)",
    )
    allowed = "cpu, cuda (all GPUs), cuda:N"
    parser.add_argument(
        "--device", metavar="NAME", type=_kind(device, allowed), help=f"{allowed} (default: all GPUs, else the CPU)"
    )
    ranks = _kind(whole(2, MOST_BENCHMARK_RANKS), f"2 to {MOST_BENCHMARK_RANKS}")
    parser.add_argument("--ranks", metavar="N", type=ranks, help=_RANKS)
    parser.add_argument("--disk-folder", metavar="DIR", default=".", help="measure this folder's disk (default: here)")
    parser.add_argument("--nodes", metavar="FILE", help="put this node's entry into FILE, which others share")
    parser.add_argument("--node", metavar="NAME", help="name of this node; default: PACELINE_NODE, else the host name")
    parser.add_argument("--json", action="store_true", help="one JSON object a node on standard output, no table")
    parser.add_argument("--output", metavar="FILE", help="write that object to FILE; {node} in it is the node's name")
    parser.add_argument("--force", action="store_true", help="keep these ratings, however busy the machine was")
    parser.add_argument(
        "--show", metavar="FILE", nargs="?", const=NODES, help=f"show FILE (default: {NODES}), and measure nothing"
    )
    return parser.parse_args(argv)


_RANKS = "ranks of the all-reduce that is started here (default: one a GPU; 2 to 4 on a CPU)"
