"""``paceline compare``: is this run slower than that one, where, since when, and what else is different.

Rule of this file: reading the command line, two sources, and the exit status that CI goes by: 0 not surely slower,
1 surely slower by more than was allowed, 2 not comparable.
"""

import argparse
import math
import sys

from paceline import terminal
from paceline.options import Parser
from paceline.unpacking import MOST_STREAMED_GIB, add_option

from .document_file import FORMATS, DocumentError, encoded, format_of, write
from .garbage import collect_seldom
from .named_source import add_archive_option, opened
from .report_source import SourceError
from .reports.comparison import SLOWER, Comparison, NotComparableError, compare
from .reports.documents.comparison_document import as_json, comparison_document
from .reports.run import Run, Runs

PROGRAM = "paceline compare"
EXAMPLES = """\
examples:
  paceline compare before.jsonl.zst after.jsonl.zst
  paceline compare main.jsonl.zst branch.jsonl.zst --fail-over 3%    exit status 1: surely slower by more than 3 %
  paceline compare nightly.jsonl tonight.jsonl --job resnet-7 --format json
  paceline compare resnet-7 resnet-8 --archive history               two jobs of an archive
  paceline compare fleet.jsonl fleet.jsonl --job llama-a --other-job llama-b -o compared.html
"""


def main(argv: list[str] | None = None) -> int:
    """Compare two runs."""
    args = _parse(sys.argv[1:] if argv is None else argv)
    collect_seldom()
    try:
        first = _run(args, args.first, args.job)
        second = _run(args, args.second, args.other_job or args.job)
        made = compare(first, second, args.fail_over, args.seed)
        kind = format_of(args.format, args.output)
        write(_content(made, args, kind), kind, args.output, PROGRAM)
    except (SourceError, DocumentError, NotComparableError) as error:
        terminal.say(str(error), PROGRAM)
        return 2
    except BrokenPipeError:
        pass
    return 1 if made.verdict == SLOWER else 0


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog=PROGRAM,
        description="Compare two runs: step time by phase, with intervals, and other differences.\n"
        "Needs two recordings, no broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("first", help="a recording, session or job of an archive: what it is compared with")
    parser.add_argument("second", help="a recording, session or job of an archive: what may be slower")
    add_archive_option(parser)
    parser.add_argument("--job", metavar="NAME", help="the job, where there are several")
    parser.add_argument("--other-job", metavar="NAME", help="the job in the second, where it has another name")
    parser.add_argument(
        "--fail-over", type=ratio, default=0.05, metavar="5%", help="exit status 1 beyond that (default: 5%%)"
    )
    parser.add_argument("--format", choices=(*FORMATS, "json"), help="default: by the file's name, else text")
    parser.add_argument("-o", "--output", metavar="FILE", help="output file (default: standard output)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the bootstrap (default: 0)")
    add_option(parser, MOST_STREAMED_GIB)
    args = parser.parse_args(argv)
    if args.first == args.second == "-":
        parser.error("standard input is one run")
    if args.seed < 0:
        parser.error("--seed is 0 or more")
    return args


def ratio(text: str) -> float:
    """A share, as ``5%`` or ``0.05``.

    Raises:
        argparse.ArgumentTypeError: it is none, or not from 0 to 10.

    >>> ratio("5%"), ratio("0.2")
    (0.05, 0.2)
    """
    try:
        value = float(text.rstrip("% ")) / (100 if "%" in text else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 10:
        raise argparse.ArgumentTypeError(f"{text!r} is no share such as 5% or 0.05, from 0 to 10")
    return value


def _run(args: argparse.Namespace, path: str, job: str | None) -> Run:
    """The run of ``job`` in ``path``: of several attempts the one of most steps."""
    runs, source = Runs(), opened(path, args.archive, args.most_unpacked)
    for one in source.events():
        runs.update(one.event)
    told = runs.of(job)
    names, clusters = sorted({run.job for run in told}), sorted({run.cluster for run in told})
    if not told:
        which = "no job" if job is None else f"no job {job!r}"
        raise SourceError(f"{path} tells of {which} with steps" + (_listed(runs) if job else ""))
    if len(names) > 1:
        raise SourceError(f"{path} has several jobs; say --job NAME, one of: {', '.join(names[:20])}")
    if len(clusters) > 1:
        raise SourceError(
            f"{path} has {names[0]!r} of several clusters: {', '.join(clusters[:20])}; compare one of them"
        )
    return told[0]


def _listed(runs: Runs) -> str:
    names = sorted({run.job for run in runs.of(None)})
    return f"; it has {', '.join(names[:20])}" if names else ""


def _content(made: Comparison, args: argparse.Namespace, kind: str) -> bytes:
    if kind == "json":
        return as_json(made)
    return encoded(comparison_document(made, args.first, args.second), kind)


if __name__ == "__main__":
    sys.exit(main())
