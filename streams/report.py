"""``paceline report``: what a recording or a session amounts to, as text, Markdown, HTML or PDF.

Rule of this file: reading the command line, and handing events from the source to the builder and its document to the
writer. Exit status 0: written; 2: it cannot be made, and why.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable

from paceline import terminal
from paceline.energy.tariff import tariff
from paceline.history.spans import seconds
from paceline.options import Parser
from paceline.settings import ARCHIVE
from paceline.timed_event import TimedEvent
from paceline.unpacking import MOST_STREAMED_GIB, add_option

from .document_file import FORMATS, DocumentError, encoded, format_of, write
from .garbage import collect_seldom
from .named_source import add_archive_option, archived, opened, recorded
from .report_source import Source, SourceError, newest_s
from .reports.builder import ReportBuilder
from .reports.cluster_report import ClusterBuilder, ClusterReport
from .reports.documents.cluster_document import cluster_document
from .reports.documents.report_document import report_document
from .reports.report import Report

PROGRAM = "paceline report"
_LONGEST_S = 3653 * 86_400.0
EXAMPLES = """\
examples:
  paceline report run.jsonl.zst                         in the terminal
  paceline report run.jsonl.zst -o run.html             one file, no network, light and dark
  paceline report run.jsonl.zst -o run.pdf              needs the extra reports
  paceline report tuesday --job resnet-7 --format md    a session of this machine, or its folder
  paceline report resnet-7 --archive history -o job.pdf a job that is over, of an archive
  paceline report --cluster east --since 7d --archive history -o week.html
  paceline report week.jsonl.zst --cluster east --since 7d -o week.html
  paceline record --seconds 300 -o - | paceline report - -o now.html
"""


def main(argv: list[str] | None = None) -> int:
    """Write one report."""
    args = _parse(sys.argv[1:] if argv is None else argv)
    collect_seldom()
    try:
        write(_content(args), format_of(args.format, args.output), args.output, PROGRAM)
    except (SourceError, DocumentError) as error:
        terminal.say(str(error), PROGRAM)
        return 2
    return 0


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog=PROGRAM,
        description="Report a job's time, losses and causes, and what was not measured.\n"
        "Needs a recording or archive, no broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source",
        nargs="?",
        help="a recording (.jsonl, .jsonl.gz, .jsonl.zst), - for standard input, a session or its folder, or a job of "
        "an archive; none: of a cluster, the archive",
    )
    add_archive_option(parser)
    parser.add_argument("--job", metavar="NAME", help="this job alone")
    parser.add_argument("--format", choices=FORMATS, help="default: by the file's name, else text")
    parser.add_argument("-o", "--output", metavar="FILE", help="output file (default: standard output)")
    parser.add_argument(
        "--cluster", metavar="NAME", help="of a cluster as a whole: hours used, idle and lost, worst nodes"
    )
    parser.add_argument(
        "--since",
        type=length_s,
        metavar="7d",
        help="of the cluster, so far back from a recording's newest message, or from now (7d, 12h, 30m)",
    )
    parser.add_argument("--title", metavar="TEXT", help="default: of the job, or of the source")
    add_option(parser, MOST_STREAMED_GIB)
    args = parser.parse_args(argv)
    if args.job is not None and (args.cluster is not None or args.since is not None):
        parser.error("--job is of a job's report, --cluster and --since of a cluster's")
    if args.source is None and args.cluster is None and args.since is None:
        parser.error("of what? A recording, a session, a job, or --cluster and --since of an archive")
    if args.since is not None and args.source == "-":
        parser.error("--since reads the recording twice, so it cannot be standard input")
    return args


def _content(args: argparse.Namespace) -> bytes:
    if args.cluster is not None or args.since is not None:
        return encoded(cluster_document(_of_cluster(args)), format_of(args.format, args.output))
    source = opened(args.source, args.archive, args.most_unpacked)
    report = built(source.events(), title=args.title, job=args.job, notes=source.notes)
    if args.job is not None and not report.jobs:
        raise SourceError(f"{args.source} holds nothing of a job {args.job!r}; paceline report without --job lists all")
    return encoded(report_document(report, tariff(os.environ)), format_of(args.format, args.output))


def _of_cluster(args: argparse.Namespace) -> ClusterReport:
    if args.source is None:
        return _of_archived_cluster(args)
    path = recorded(args.source)
    if path is None:
        raise SourceError(
            f"{args.source} is no recording and no session of this machine, and --cluster and --since are of a "
            "cluster's report; leave them out for a job of an archive, or leave the name out for a cluster of it"
        )
    from_s = None if args.since is None else newest_s(path, args.most_unpacked) - args.since
    source, builder = Source(path, args.most_unpacked), ClusterBuilder(args.cluster, from_s)
    for one in source.events():
        builder.update(one.event, one.time_s)
    report = builder.report(source.notes)
    if not (report.devices or report.jobs):
        which = "any cluster" if args.cluster is None else f"a cluster {args.cluster!r}"
        raise SourceError(f"{args.source} holds nothing of {which} in that time")
    return report


def _of_archived_cluster(args: argparse.Namespace) -> ClusterReport:
    """The cluster of an archive, so far back from now."""
    where = args.archive or ARCHIVE.read(os.environ)
    if not where:
        raise SourceError(f"of what? Name a recording, or an archive: --archive WHERE, or {ARCHIVE.name}")
    from_s = 0.0 if args.since is None else time.time() - args.since
    source = archived(where, cluster=args.cluster or "", since_s=from_s)
    builder = ClusterBuilder(args.cluster, from_s or None)
    for one in source.events():
        builder.update(one.event, one.time_s)
    return builder.report(source.notes)


def length_s(text: str) -> float:
    """A length of time, such as ``7d``, ``12h`` or ``30m``.

    Raises:
        argparse.ArgumentTypeError: it is none, or longer than ten years.

    >>> length_s("7d"), length_s("1.5h")
    (604800.0, 5400.0)
    """
    try:
        value = seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 < value <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and ten years")
    return value


def built(
    events: Iterable[TimedEvent], *, title: str | None = None, job: str | None = None, notes: Iterable[str] = ()
) -> Report:
    """The report of ``events``; ``notes`` are read after the last of them."""
    builder = ReportBuilder(title or "", job)
    for one in events:
        builder.update(one.event)
    report = builder.report(notes)
    if title is None:
        names = {one.job for one in report.jobs}
        builder.title = f"Report of job {names.pop()}" if len(names) == 1 else f"Report of {len(names)} jobs"
        return builder.report(notes)
    return report


if __name__ == "__main__":
    sys.exit(main())
