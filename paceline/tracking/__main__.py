"""``python -m paceline.tracking``: logs one command's timings and findings to the experiment trackers of its script.

Rule of this file: rank 0 can connect within a moment of the start. It ends when its standard input does, which whoever
started it holds, or, where it was started by a script (``--until-empty``), with the sidecar; then within a bound.
"""

import argparse
import os
import selectors
import signal
import sys
import tempfile
from pathlib import Path

from paceline.options import Parser
from paceline.signals import outlive
from paceline.terminal import say

from .choice import ChoiceError, chosen
from .messages_pipe import MessagesPipe
from .rank_socket import RankSocket, listen
from .report import report
from .told_file import ToldFile
from .tracker import Tracker

TURN_S = 0.25
#: Looks at what has come before the end.
LAST_ROUNDS = 3


def arguments(argv: list[str]) -> argparse.Namespace:
    """The options."""
    parser = Parser(prog="python -m paceline.tracking", description=__doc__)
    parser.add_argument("--socket", required=True, type=Path, help="where rank 0 connects; its folder is ours alone")
    parser.add_argument("--track", action="append", default=[], metavar="TRACKER", help="as of paceline run")
    parser.add_argument("--events-fd", required=True, type=int, metavar="N", help="the sidecar's events come here")
    parser.add_argument("--told", type=Path, metavar="FILE", help="what the analyzer reports")
    parser.add_argument("--record", default="", metavar="FILE", help="the recording, for the report at the end")
    parser.add_argument("--until-empty", action="store_true", help="end when the sidecar does")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Log until the end."""
    options = arguments(sys.argv[1:] if argv is None else argv)
    outlive(alone=options.until_empty)  # What ends the command is the parent's to handle.
    selector = selectors.DefaultSelector()
    try:
        choice = chosen(options.track)
        ranks = RankSocket(listen(options.socket), selector)
    except (ChoiceError, OSError) as error:
        say(f"cannot track: {error}; training goes on")
        return 1
    pipe = MessagesPipe(options.events_fd)
    tracker = Tracker(choice, dict(os.environ), pipe, ToldFile(options.told or Path(os.devnull)), ranks, say)
    tracker.watch(selector)
    _follow(tracker, selector, pipe, until_empty=options.until_empty)
    with tempfile.TemporaryDirectory(prefix="paceline-tracking-") as folder:
        _end(tracker, Path(folder), options.record)
    options.socket.unlink(missing_ok=True)
    return 0


def _follow(tracker: Tracker, selector: selectors.BaseSelector, pipe: MessagesPipe, *, until_empty: bool) -> None:
    ended: list[bool] = []
    if not until_empty:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ, lambda: ended.append(True))
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    while not ended and not (until_empty and pipe.ended):
        for key, _ in selector.select(TURN_S):
            key.data()
        tracker.turn()
    tracker.drain(selector)
    for _ in range(LAST_ROUNDS):  # Who connects, and what it says, are two of them.
        for key, _ in selector.select(0):
            key.data()


def _end(tracker: Tracker, folder: Path, record: str) -> None:
    """The last point, the summary and the report."""
    tracker.turn(last=True)
    if tracker.panel:
        summary = folder / "summary.txt"
        summary.write_text(tracker.panel + "\n", encoding="utf-8")
        tracker.attach("paceline/summary", summary)
    page, reason = report(record, folder) if tracker.newest else (None, "")
    if reason:
        say(reason)
    if page is not None:
        tracker.attach("paceline/report", page)
    tracker.finish()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # A thread may still be loading MLflow's client, or wait for its server: an interpreter that ends beneath it aborts.
    os._exit(status)
