"""``paceline run``: run a training command, script unchanged, and time it.

Rule of this file: the command comes first. This is one net around all that we do before, beside and after it: whatever
fails there, of whatever exception, is one line on standard error, and the command runs as it would have run without us
and ends with its own status. Where we could not start, it takes our place (``execvpe``), which needs no memory, no
descriptor and no folder. So all of ours but what runs the command is imported within the net.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from paceline.commands.foreground import Child, HeldSignals, NotRunError, not_run

if TYPE_CHECKING:
    from paceline.commands.side_processes import SideProcesses

#: Our options that take a word: the command is found behind them where options cannot be read.
VALUED = (
    "--job",
    "--record",
    "--brokers",
    "--track",
    "--nccl-inspector",
    "--probe-budget",
    "--total-steps",
)
UNTIMED = "the command runs without Paceline: no timings, no findings, no recording"
UNNAMED = "the command goes on; its page is not named"
UNWATCHED = "the command goes on; what runs beside it is no longer looked after"
UNENDED = "the command has ended; its last timings, or the panel, may be missing"
#: How often what broke off is taken up again.
TRIES = 3


class Net:
    """Lets what is ours fail, of whatever exception. The first failure is reported, with what is missing therefore."""

    def __init__(self) -> None:
        self._said = False

    def failed(self, error: BaseException, missing: str) -> None:
        """``error`` has happened, and ``missing`` is what comes of it."""
        if not self._said:
            self._said = True
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300].removesuffix(":")
            _say(f"{reason}; {missing}")

    def tried(self, action: Callable[[], object], missing: str, times: int = 1) -> bool:
        """Whether ``action`` succeeds within ``times``."""
        for _ in range(times):
            try:
                action()
            except Exception as error:
                self.failed(error, missing)
            else:
                return True
        return False


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    net = asked = beside = held = None
    try:
        net = Net()
        from paceline.standard_streams import ready_streams

        ready_streams()
        from paceline.commands import run_start

        asked = run_start.asked(argv)
        if asked is None:
            return 2
        held = HeldSignals()
        beside, seen = run_start.start(asked)
        if (number := held.first) is not None:  # It was meant for the command too, which never starts.
            _give_up(beside, held, net)
            return 128 + number
        child = Child(asked.command, seen, held)
    except (KeyboardInterrupt, SystemExit):  # A Ctrl-C, which was meant for the command too; --help, or a wrong option.
        _give_up(beside, held, net or Net())
        raise
    except NotRunError as error:
        _give_up(beside, held, net or Net())
        _say(str(error))
        return error.status
    except BaseException as error:
        net = net or Net()
        _give_up(beside, held, net)
        net.failed(error, UNTIMED)
        return run_instead(*((plain_command(argv), os.environ) if asked is None else asked[:2]))
    for times in range(TRIES):
        try:
            if times == 0:
                net.tried(lambda: run_start.name_page(asked, seen), UNNAMED)
            return follow(child, beside, net)
        except Exception as error:
            net.failed(error, UNWATCHED)
    status = child.wait_only()
    _kill(beside, net)
    return status


def follow(child: Child, beside: "SideProcesses", net: Net) -> int:
    """The command's status, once it and what runs beside it have ended. May be called again where it raised."""
    well = True

    def look() -> None:
        nonlocal well
        well = well and net.tried(beside.check, UNWATCHED)

    status = child.wait(look)
    net.tried(lambda: beside.end(status), UNENDED)
    _kill(beside, net)
    net.tried(child.restore, UNENDED)
    return status


def run_instead(command: list[str], environ: Mapping[str, str]) -> int:
    """Become ``command``; the status that says so where it cannot be run."""
    if not command:
        return 2
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these; a program expects them as they were.
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], command, environ)  # noqa: S606 - the user's own command, as it stands
    except (OSError, ValueError) as error:
        refused = not_run(command[0], error)
        _say(str(refused))
        return refused.status


def plain_command(argv: list[str]) -> list[str]:
    """The command in ``argv``, as far as it can be told without our options' parser.

    >>> plain_command(["--job", "x", "--quiet", "--record=r.jsonl", "python", "train.py", "--", "4"])
    ['python', 'train.py', '--', '4']
    """
    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        option = rest.pop(0)
        if option.startswith("--") and any(valued.startswith(option) for valued in VALUED) and rest[:1] != ["--"]:
            del rest[:1]
    return rest[1:] if rest[:1] == ["--"] else rest


def _give_up(beside: "SideProcesses | None", held: HeldSignals | None, net: Net) -> None:
    """Leave nothing behind, and take signals again: one that came ends us here."""
    _kill(beside, net)
    if held is not None:
        net.tried(held.release, UNENDED, TRIES)


def _kill(beside: "SideProcesses | None", net: Net) -> None:
    if beside is not None:
        net.tried(beside.kill, UNENDED, TRIES)


def _say(text: str) -> None:
    with contextlib.suppress(Exception):
        from paceline.terminal import say

        say(text)
