"""Runs the user's command as a child: its terminal, its signals, its exit status.

Rule of this file: the command must not be able to tell that we stand between it and its caller. Signals that reach us
are sent on to it, except those that it has got, too, from a terminal or a scheduler; the exit status is the command's
own, 128 + N where signal N ended it, 127 where it was not found and 126 where it could not be run, as shells do.
"""

import errno
import os
import shutil
import signal
import time
from collections.abc import Callable

from paceline.commands import signal_witness
from paceline.signals import ENDING

#: Signals passed on to the command. A scheduler announces a preemption or the time limit with any of them.
FORWARDED = tuple(sorted(ENDING))
#: Sent by the kernel (a terminal's Ctrl-C or Ctrl-\\): the whole foreground group has it already.
_FROM_KERNEL = 0x80
#: What is wrong with the command itself, whoever starts it.
THE_COMMANDS_OWN = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR, errno.ENOTDIR, errno.ELOOP}


class NotRunError(Exception):
    """The command could not be started: why, and the exit status that says so."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def not_run(program: str, error: Exception) -> NotRunError:
    """Why ``program`` could not be started, as ``error`` says it."""
    missing = isinstance(error, FileNotFoundError)
    reason = "no such command" if missing else getattr(error, "strerror", None) or str(error)
    return NotRunError(f"{program}: {reason}", 127 if missing else 126)


class HeldSignals:
    """Signals that would end this process wait, so that what it starts meanwhile does not outlive it."""

    def __init__(self) -> None:
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    @property
    def first(self) -> int | None:
        """One that came and is not ignored; None without any."""
        came = sorted(signal.sigpending() & ENDING)
        return next((number for number in came if signal.getsignal(number) is not signal.SIG_IGN), None)

    def release(self) -> None:
        """Let them come: whatever came ends this process, as it would have."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)


class Child:
    """The command, running."""

    def __init__(self, command: list[str], environ: dict[str, str], held: HeldSignals | None = None) -> None:
        """Start it with our own standard input, output and error, and the signals blocked that were before ``held``.

        Raises:
            NotRunError: no such program, or no right to run it.
            OSError: there is no memory or no process left for it, or what we add to its surroundings is too much.
        """
        self._ended = (0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Ignored by our caller, it would take the exit status away.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, signal.SIGCHLD))
        self._before = blocked if held is None else held.before
        self._witness = signal_witness.started()
        ours = {signal.SIGPIPE, signal.SIGXFSZ}  # Python ignores these; a program expects them as they were.
        try:
            program = shutil.which(command[0], path=environ.get("PATH")) or command[0]
            self.pid = os.posix_spawnp(program, command, environ, setsigmask=self._before, setsigdef=ours)
        except BaseException as error:
            self._dismiss()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            if isinstance(error, OSError) and error.errno in THE_COMMANDS_OWN:
                raise not_run(command[0], error) from error
            raise

    def wait(self, each_second: Callable[[], None]) -> int:
        """Its exit status, once it has ended; meanwhile signals are forwarded. May be called again where it raised."""
        while True:
            if not self._ended[0]:
                self._ended = os.waitpid(self.pid, os.WNOHANG)
            if self._ended[0]:
                self._dismiss()
                return self._status()
            received = signal.sigtimedwait((*FORWARDED, signal.SIGCHLD), 1.0)
            if received is not None and received.si_signo != signal.SIGCHLD:
                self._forward(received)
            each_second()

    def wait_only(self) -> int:
        """Its exit status; for where nothing else can be done any more."""
        if not self._ended[0]:
            self._ended = os.waitpid(self.pid, 0)
        self._dismiss()
        return self._status()

    def _dismiss(self) -> None:
        if self._witness is not None:
            self._witness.kill()
            self._witness = None

    def _status(self) -> int:
        code = os.waitstatus_to_exitcode(self._ended[1])
        return code if code >= 0 else 128 - code

    def _forward(self, received: signal.struct_siginfo) -> None:
        if received.si_code == _FROM_KERNEL or self._has(received.si_signo):
            return
        try:
            os.kill(self.pid, received.si_signo)
        except ProcessLookupError:
            return

    def _has(self, number: int) -> bool:
        """Whether the command was sent ``number`` by whoever sent it to us. One that has left our process group gets
        it from us in any case: what was sent to the group did not reach it."""
        try:
            together = os.getpgid(self.pid) == os.getpgrp()
            return together and self._witness is not None and self._witness.has(number)
        except (OSError, ValueError):
            return False

    def restore(self) -> None:
        """Take signals as before; those that came meanwhile were meant for the command, and are dropped."""
        deadline = time.monotonic() + 0.1
        while signal.sigtimedwait((*FORWARDED, signal.SIGCHLD), 0) is not None and time.monotonic() < deadline:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
