"""``python -m paceline.sidecar``: builds the sidecar's parts once and runs it until it is told to end.

Rule of this file: ranks can connect within a moment of the start; whatever takes longer to import comes after that.
Whatever fails is one line and the status: the command that it runs beside goes on, and neither expects a traceback.
"""

import argparse
import os
import signal
import socket
import sys
from pathlib import Path

from paceline.options import Parser
from paceline.terminal import say


def arguments(argv: list[str]) -> argparse.Namespace:
    """The sidecar's options."""
    from paceline.kafka.settings import add_brokers_option, add_no_commands_option

    parser = Parser(prog="python -m paceline.sidecar", description=__doc__)
    parser.add_argument("--socket", required=True, type=Path, help="where ranks connect; its folder is ours alone")
    parser.add_argument("--record", metavar="FILE", help="write a recording: .jsonl, .jsonl.gz or .jsonl.zst")
    add_brokers_option(parser)
    parser.add_argument("--job", default="", help="id of the job where the ranks name none")
    add_no_commands_option(parser)
    parser.add_argument("--captures", action="store_true", help="ranks may be captured by PyTorch's profiler")
    parser.add_argument("--events-fd", type=int, metavar="N", help="also write the events to this open descriptor")
    parser.add_argument("--tracking-fd", type=int, metavar="N", help="also write the steps to this open descriptor")
    parser.add_argument("--nccl-inspector", metavar="DIR", type=Path, help="read what NCCL Inspector writes there")
    parser.add_argument("--until-empty", action="store_true", help="end when all ranks have left, not with the parent")
    parser.add_argument(
        "--starter-fd", type=int, metavar="N", help="with --until-empty: wait for no first rank once this hangs up"
    )
    parser.add_argument(
        "--patience", metavar="S", type=float, help="with --until-empty: wait so long for a first rank, and for another"
    )
    parser.add_argument("--quiet", action="store_true", help="do not report a missing broker")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run a sidecar until it is told to end."""
    try:
        return run(arguments(sys.argv[1:] if argv is None else argv))
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300].removesuffix(":")
        say(f"the sidecar failed: {reason}; training goes on without timings")
        return 1


def run(options: argparse.Namespace) -> int:
    """Listen, and serve the ranks that come, until told to end."""
    from paceline.sidecar.nccl_files import NcclFiles
    from paceline.sidecar.nccl_inspector import NcclInspector
    from paceline.sidecar.rank_socket import listen, lock_of
    from paceline.sidecar.server import Sidecar
    from paceline.signals import outlive

    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    outlive(alone=options.until_empty)  # What ends the command is the parent's to handle: it tells us when.
    os.setpriority(os.PRIO_PROCESS, 0, max(os.getpriority(os.PRIO_PROCESS, 0), 10))
    files = None
    if options.nccl_inspector is not None:  # What is there before a rank can be is of another run.
        ours = options.nccl_inspector.parent == options.socket.parent
        files = NcclFiles(options.nccl_inspector, socket.gethostname()[:255], ours=ours)
    try:
        listener = listen(options.socket)
    except OSError as error:
        say(f"cannot listen at {options.socket}: {error.strerror or error}; training goes on without timings")
        return 1
    if listener is None:
        return 0
    # Ranks can connect from here on; the clients that the sinks need take a while to import.
    from paceline.sidecar.assembly import build
    from paceline.sidecar.endings import time_limit_s

    parts = build(options, dict(os.environ), say)
    sidecar = Sidecar(
        listener,
        parts.batcher,
        parts.sinks,
        parts.commands,
        until_empty=options.until_empty,
        patience_s=options.patience,
        nccl=None if files is None else NcclInspector(files, parts.batcher, say),
        balance=parts.balance,
        plans=parts.plans,
        captures=parts.captures,
        capture_sink=parts.capture_sink,
        limit_s=time_limit_s(os.environ),
    )
    signal.signal(signal.SIGTERM, lambda *_: sidecar.stop())
    if not options.until_empty:
        sidecar.follow(sys.stdin.fileno())
    elif options.starter_fd is not None:
        sidecar.follow_starter(options.starter_fd)
    sidecar.run()
    options.socket.unlink(missing_ok=True)
    lock_of(options.socket).unlink(missing_ok=True)
    if sidecar.dropped_connections:
        say(f"{sidecar.dropped_connections} connections were dropped: what they sent was no timing")
    unreadable = 0 if parts.plans is None else parts.plans.unreadable
    if refused := parts.balance.told_refused(unreadable):
        say(f"of the balancer's words and plans were refused: {refused}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
